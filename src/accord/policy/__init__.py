"""May this be done? Rules, modes, shell parsing, the hard floor, and the sandbox that commands run in.

`Policy.decide` answers a `Request`; `options_for`, `read_answer` and `remember` carry the question to the user and back; `Audit`
writes down what came of it, `Trust` knows which files of a project count. One engine for the agent and the client. Names
are imported on first use: a session that has asked for nothing yet does not pay for them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from accord.policy.asking import Answer, options_for, read_answer, remember
    from accord.policy.audit import Audit, AuditFailed, redacted
    from accord.policy.bounds import Bounds, Place
    from accord.policy.grants import Grant, Grants, Scope
    from accord.policy.policy import Policy
    from accord.policy.request import (
        DESCRIPTIONS,
        MODES,
        Category,
        Decision,
        Effect,
        Mode,
        Request,
        category_of,
        host_of,
    )
    from accord.policy.rules import BadRules, Rule, Rules, Word, read_permissions
    from accord.policy.secretfiles import is_secret
    from accord.policy.trust import Trust

__all__ = [
    "DESCRIPTIONS",
    "MODES",
    "Answer",
    "Audit",
    "AuditFailed",
    "BadRules",
    "Bounds",
    "Category",
    "Decision",
    "Effect",
    "Grant",
    "Grants",
    "Mode",
    "Place",
    "Policy",
    "Request",
    "Rule",
    "Rules",
    "Scope",
    "Trust",
    "Word",
    "category_of",
    "host_of",
    "is_secret",
    "options_for",
    "read_answer",
    "read_permissions",
    "redacted",
    "remember",
]

_HOMES: Final = {
    "asking": "Answer options_for read_answer remember",
    "audit": "Audit AuditFailed redacted",
    "bounds": "Bounds Place",
    "grants": "Grant Grants Scope",
    "policy": "Policy",
    "request": "DESCRIPTIONS MODES Category Decision Effect Mode Request category_of host_of",
    "rules": "BadRules Rule Rules Word read_permissions",
    "secretfiles": "is_secret",
    "trust": "Trust",
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names.split():
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
