"""Commands confined: what they may write, read and reach, enforced by the system, and an honest report of it.

`Sandbox` wraps commands, `Boundary` says what is in force, `self_test` tries it. Names are imported on first use: an
agent that has not run a command yet does not pay for them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from accord.policy.sandbox.backend import Backend, Confined
    from accord.policy.sandbox.boundary import Boundary, Fact
    from accord.policy.sandbox.environment import clean_env, is_credential, without_credentials
    from accord.policy.sandbox.probe import choose
    from accord.policy.sandbox.sandbox import Sandbox
    from accord.policy.sandbox.selftest import Trial, contradictions, self_test

__all__ = [
    "Backend",
    "Boundary",
    "Confined",
    "Fact",
    "Sandbox",
    "Trial",
    "choose",
    "clean_env",
    "contradictions",
    "is_credential",
    "self_test",
    "without_credentials",
]

_HOMES: Final = {
    "Backend": "backend",
    "Boundary": "boundary",
    "Confined": "backend",
    "Fact": "boundary",
    "Sandbox": "sandbox",
    "Trial": "selftest",
    "choose": "probe",
    "clean_env": "environment",
    "contradictions": "selftest",
    "is_credential": "environment",
    "self_test": "selftest",
    "without_credentials": "environment",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
