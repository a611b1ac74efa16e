"""Confines commands: what they may write, read and connect to. The operating system enforces it.

`Sandbox` wraps commands, `SandboxReport` says what is enforced, and `run_self_test` tries it. Names are
imported on first use, so that an agent that runs no command does not load them.
"""

from typing import TYPE_CHECKING

from accord.lazy_names import LazyGetattr, lazy_names

if TYPE_CHECKING:
    from accord.policy.sandbox.backend import Backend, ConfinedCommand, SandboxFact, SandboxReport
    from accord.policy.sandbox.command_environment import clean_env, is_credential, without_credentials
    from accord.policy.sandbox.sandbox import Sandbox, choose_backend
    from accord.policy.sandbox.self_test import SelfTestResult, contradictions, run_self_test

__all__ = [
    "Backend", "ConfinedCommand", "Sandbox", "SandboxFact", "SandboxReport", "SelfTestResult",
    "choose_backend", "clean_env", "contradictions", "is_credential", "run_self_test", "without_credentials",
]  # fmt: skip

__getattr__: LazyGetattr = lazy_names(
    __name__,
    {
        "accord.policy.sandbox.backend": "Backend ConfinedCommand SandboxFact SandboxReport",
        "accord.policy.sandbox.command_environment": "clean_env is_credential without_credentials",
        "accord.policy.sandbox.sandbox": "choose_backend Sandbox",
        "accord.policy.sandbox.self_test": "SelfTestResult contradictions run_self_test",
    },
)
