"""Decides whether a tool call is allowed, asked for or denied. Also contains the sandbox for commands.

`Policy.decide` decides an `ActionRequest`. `options_for`, `read_answer` and `remember` handle the question to
the user, `DecisionLog` records the decision, and `TrustStore` knows which project files the user trusts. The
agent and the client use the same policy. Names are imported on first use, so that a session without tool
calls does not load them.
"""

from typing import TYPE_CHECKING

from accord.lazy_names import LazyGetattr, lazy_names

if TYPE_CHECKING:
    from accord.policy.audit_log import AuditFailed, DecisionLog, redacted
    from accord.policy.mode_names import MODES, Mode
    from accord.policy.policy import Policy
    from accord.policy.request import (
        MODE_DESCRIPTIONS,
        ActionRequest,
        Category,
        Decision,
        Effect,
        Grant,
        Grants,
        GrantScope,
        ResolvedPath,
        SessionDirectories,
        category_of,
        host_of,
    )
    from accord.policy.rules import BadRules, PermissionDefault, Rule, Rules, read_permissions
    from accord.policy.secret_files import is_secret
    from accord.policy.trust_store import TrustStore
    from accord.policy.user_answer import UserAnswer, options_for, read_answer, remember

__all__ = [
    "MODES", "MODE_DESCRIPTIONS", "ActionRequest", "AuditFailed", "BadRules", "Category", "Decision",
    "DecisionLog", "Effect", "Grant", "GrantScope", "Grants", "Mode", "PermissionDefault", "Policy",
    "ResolvedPath", "Rule", "Rules", "SessionDirectories", "TrustStore", "UserAnswer", "category_of",
    "host_of", "is_secret", "options_for", "read_answer", "read_permissions", "redacted", "remember",
]  # fmt: skip

__getattr__: LazyGetattr = lazy_names(
    __name__,
    {
        "accord.policy.audit_log": "AuditFailed DecisionLog redacted",
        "accord.policy.mode_names": "MODES Mode",
        "accord.policy.policy": "Policy",
        "accord.policy.request": (
            "ResolvedPath SessionDirectories Grant GrantScope Grants ActionRequest Category "
            "Decision Effect MODE_DESCRIPTIONS category_of host_of"
        ),
        "accord.policy.rules": "BadRules PermissionDefault Rule Rules read_permissions",
        "accord.policy.secret_files": "is_secret",
        "accord.policy.trust_store": "TrustStore",
        "accord.policy.user_answer": "UserAnswer options_for read_answer remember",
    },
)
