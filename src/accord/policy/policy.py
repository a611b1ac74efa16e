"""`Policy.decide`: combines never-allowed checks, rules, modes and grants.

A request is split into single actions. The strictest verdict on any of them is the decision. Each action is
checked in this order:

1. commands that are never allowed
2. what the user refused for the session, and rules that deny
3. what the mode forbids
4. rules that ask
5. shell lines that cannot be predicted
6. secrets, and paths outside the session's folders
7. rules that allow
8. what the user allowed for the session, or always
9. the mode, or the default of the rules

The project's rules are checked separately and can only make the result stricter.
"""

import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from accord.policy.never_allowed import never_allowed_reason
from accord.policy.request import (
    STRICTNESS,
    ActionRequest,
    Decision,
    Effect,
    Grant,
    GrantScope,
    Mode,
    ResolvedPath,
)
from accord.policy.requested_actions import RequestedAction, SensitivePath, actions_of, sensitive_paths
from accord.policy.rules import Match, PermissionDefault, Rule, Rules, host_matches


@dataclass(frozen=True, slots=True)
class _Verdict:
    effect: Effect
    reason: str
    rule: str
    required_grants: tuple[Grant, ...] | None = None
    """The grants that would allow it; None if no grant helps."""


class Policy:
    """Decides requests by the user's rules and, if the user trusted them, the project's rules."""

    def __init__(self, user: Rules | None = None, project: Rules | None = None) -> None:
        self.user: Rules = user or Rules()
        self.project: Rules | None = project

    def decide(self, request: ActionRequest) -> Decision:
        """Allow, ask or deny.

        Never raises because of the content of a request: unclear requests are asked or denied.
        """
        requested_actions = actions_of(request)
        if reason := never_allowed_reason(request, requested_actions):
            return Decision("deny", reason, "floor")
        grants = tuple(
            grant
            for action in requested_actions.actions
            for grant in self._required_grants(action, request) or ()
        )
        if request.grants.refuses(grants):
            return Decision("deny", "you refused this for the session", "always")
        verdicts = [self._decide_action(action, request) for action in requested_actions.actions]
        strictest = max(verdicts, key=lambda verdict: STRICTNESS[verdict.effect], default=None)
        if strictest is None:
            return Decision("allow", "it does nothing", "nothing")
        scope = _grant_scope(verdicts) if strictest.effect == "ask" else None
        return Decision(strictest.effect, strictest.reason, strictest.rule, scope)

    def may_show(self, path: Path, request: ActionRequest) -> bool:
        """Whether a search may show this file: it is no secret, and no rule denies it or asks."""
        resolved = request.directories.resolve(path)
        if resolved is None:
            return False
        action = RequestedAction("read", f"reading {path}", (resolved,))
        return self._decide_action(action, request).effect == "allow"

    def _decide_action(self, action: RequestedAction, request: ActionRequest) -> _Verdict:
        verdict = self._user_verdict(action, request)
        if self.project is None or verdict.effect == "deny":
            return verdict
        return _stricter(self._project_verdict(self.project, action, request), verdict)

    def _user_verdict(self, action: RequestedAction, request: ActionRequest) -> _Verdict:
        certain, possible = _restricting_verdicts(self.user, action, request)
        if certain is not None and certain.effect == "deny":
            return certain
        if reason := _forbidden_by_mode(action, request):
            return _Verdict("deny", reason, f"mode {request.mode}")
        return certain or _stricter(possible, self._verdict_without_restriction(action, request))

    def _verdict_without_restriction(self, action: RequestedAction, request: ActionRequest) -> _Verdict:
        """Return the verdict on an action that no rule denies or asks for."""
        if action.operation == "doubt":
            return self._doubt_verdict(action, request)
        for sensitive in sensitive_paths(action, request.directories):
            if not self._is_allowed_by_name(sensitive, action, request):
                grants = self._required_grants(action, request)
                ask = _Verdict("ask", sensitive.reason, sensitive.danger, grants)
                return self._ask_unless_denied(ask, action, request)
        if action.unresolved and not _allows_any_command(request):
            ask = _Verdict("ask", f"where {action.label} leads is not certain", "outside")
            return self._ask_unless_denied(ask, action, request)
        for name, rule in self.user.rules("allow"):
            if _allows(rule, action, request):
                return _Verdict("allow", f"{action.label} is allowed by your rules", name)
        if action.grant in request.grants.kept:
            return _Verdict("allow", f"you always allow {action.label}", "always, kept")
        if request.grants.covers(action.grant):
            return _Verdict("allow", f"you allowed {action.label} for this session", "always")
        return self._mode_or_default_verdict(action, request)

    def _mode_or_default_verdict(self, action: RequestedAction, request: ActionRequest) -> _Verdict:
        effect, reason = _mode_verdict(action, request, self.user.permission_default)
        rule = f"mode {request.mode}" if request.mode else f"default {self.user.permission_default or 'ask'}"
        return _Verdict(effect, reason, rule, self._required_grants(action, request))

    def _ask_unless_denied(self, ask: _Verdict, action: RequestedAction, request: ActionRequest) -> _Verdict:
        """Return the question, unless the default denies what no rule covers."""
        default = self._mode_or_default_verdict(action, request)
        return default if default.effect == "deny" else ask

    def _doubt_verdict(self, action: RequestedAction, request: ActionRequest) -> _Verdict:
        default = self.user.permission_default
        ask = _Verdict("ask", f"this line cannot be checked: {action.label}", "shell")
        if action.unparsable:
            return self._ask_unless_denied(ask, action, request)
        # A rule about commands may apply to the commands that the parser cannot see.
        if any(rule.commands for _, rule in (*self.user.rules("deny"), *self.user.rules("ask"))):
            return self._ask_unless_denied(ask, action, request)
        for name, rule in self.user.rules("allow"):
            if _allows(rule, action, request):
                return _Verdict("allow", "your rules allow every command", name)
        if _allows_any_command(request) and _mode_verdict(action, request, default)[0] == "allow":
            return _Verdict("allow", "this mode allows every command", f"mode {request.mode}")
        if request.mode is None and default == "all":
            return self._mode_or_default_verdict(action, request)
        return self._ask_unless_denied(ask, action, request)

    def _project_verdict(
        self, rules: Rules, action: RequestedAction, request: ActionRequest
    ) -> _Verdict | None:
        """Return what the project's rules add: a denial, a question, or nothing."""
        certain, possible = _restricting_verdicts(rules, action, request)
        if certain is not None:
            return certain
        default = rules.permission_default
        reads = action.operation == "read" or action.only_reads
        adds_nothing = default in (None, "all") or (
            reads and default != "none" and (default == "reads" or request.mode is not None)
        )
        if adds_nothing or any(_allows(rule, action, request) for _, rule in rules.rules("allow")):
            return possible
        reason = f"{action.label}: the project's rules do not allow it"
        effect: Effect = "deny" if default == "none" else "ask"
        return _stricter(possible, _Verdict(effect, reason, f"default {default} of the project"))

    def _is_allowed_by_name(
        self, sensitive: SensitivePath, action: RequestedAction, request: ActionRequest
    ) -> bool:
        """Whether a rule or grant allows this sensitive path by name."""
        if sensitive.danger != "secret" and request.mode == "full-access":
            return True
        if request.grants.covers(sensitive.grant(action, request)):
            return True
        return any(
            _rule_names_path(rule, sensitive, request) and _allows(rule, action, request)
            for _, rule in self.user.rules("allow")
        )

    def _required_grants(self, action: RequestedAction, request: ActionRequest) -> tuple[Grant, ...] | None:
        """Return everything that an "always" answer for this action must cover."""
        if action.operation == "doubt" or action.unresolved:
            return None
        path_grants = tuple(
            sensitive.grant(action, request)
            for sensitive in sensitive_paths(action, request.directories)
            if not (request.mode == "full-access" and sensitive.danger != "secret")
        )
        if action.operation == "read" or action.only_reads:
            return (*((action.grant,) if action.grant and request.mode is None else ()), *path_grants)
        return (action.grant, *path_grants) if action.grant else None


def _restricting_verdicts(
    rules: Rules, action: RequestedAction, request: ActionRequest
) -> tuple[_Verdict | None, _Verdict | None]:
    """Return the verdict of the strictest rule that certainly applies, and of one that may apply."""
    ask: _Verdict | None = None
    possible: _Verdict | None = None
    for name, rule in rules.rules("deny"):
        match = _restricts(rule, action, request)
        if match == "yes":
            return _Verdict("deny", f"{action.label} is denied by a rule", name), None
        if match == "maybe" and possible is None:
            possible = _Verdict("ask", f"{action.label} may be what a rule denies", name)
    for name, rule in rules.rules("ask"):
        match = _restricts(rule, action, request)
        if match == "yes" and ask is None:
            ask = _Verdict("ask", f"a rule asks before {action.label}", name)
        elif match == "maybe" and possible is None:
            possible = _Verdict("ask", f"{action.label} may be what a rule asks for", name)
    return ask, possible


def _stricter(first: _Verdict | None, second: _Verdict) -> _Verdict:
    """Return the stricter verdict; the first if they are equal."""
    return second if first is None or STRICTNESS[second.effect] > STRICTNESS[first.effect] else first


def _grant_scope(verdicts: list[_Verdict]) -> GrantScope | None:
    """Return what an "always" answer covers; None if it would not help."""
    questions = [verdict for verdict in verdicts if verdict.effect == "ask"]
    if any(not verdict.required_grants for verdict in questions):
        return None
    grants = (grant for verdict in questions for grant in verdict.required_grants or ())
    return GrantScope(tuple(dict.fromkeys(grants)))


# Modes, and the default of the rules.


def _mode_verdict(
    action: RequestedAction, request: ActionRequest, default: PermissionDefault | None
) -> tuple[Effect, str]:
    """Return the verdict of the mode.

    The default of the rules can make it stricter, and decides without a mode.
    """
    if request.mode is None:
        return _default_verdict(action, default or "ask")
    verdict = _verdict_in_mode(action, request, request.mode)
    if default == "none":
        return ("deny", "the rules allow nothing else")
    if default in ("ask", "reads") and request.mode == "full-access":
        ask = _verdict_in_mode(action, request, "ask")
        return ask if STRICTNESS[ask[0]] > STRICTNESS[verdict[0]] else verdict
    return verdict


def _forbidden_by_mode(action: RequestedAction, request: ActionRequest) -> str | None:
    """Return why the mode forbids this, regardless of rules and grants."""
    if (
        request.mode not in ("read-only", "plan")
        or _only_reads(action, request)
        or action.operation == "fetch"
    ):
        return None
    if request.kind == "switch_mode":
        return None
    return f"{request.mode} mode changes nothing: {action.label}"


def _allows_any_command(request: ActionRequest) -> bool:
    """Whether even an unpredictable command may run: with full access, or in a sandbox."""
    return request.mode == "full-access" or (request.mode == "workspace-write" and request.sandboxed)


def only_reads(request: ActionRequest) -> bool:
    """Return whether a request changes nothing, as far as can be told."""
    return all(_only_reads(action, request) for action in actions_of(request).actions)


def _only_reads(action: RequestedAction, request: ActionRequest) -> bool:
    return (
        action.operation == "read" or action.only_reads or (action.operation == "use" and request.read_only)
    )


def _default_verdict(action: RequestedAction, default: PermissionDefault) -> tuple[Effect, str]:
    if default == "all":
        return ("allow", "everything is allowed")
    if default == "none":
        return ("deny", "nothing is allowed")
    if default == "reads" and action.operation == "read" and not action.in_shell_line:
        return ("allow", "reading is allowed")
    return ("ask", f"{action.label} needs your permission")


def _verdict_in_mode(action: RequestedAction, request: ActionRequest, mode: Mode) -> tuple[Effect, str]:
    if mode == "full-access":
        return ("allow", "full-access mode allows it")
    if request.kind == "switch_mode":
        return ("ask", "changing the mode needs your permission")
    if _only_reads(action, request):
        return ("allow", "reading is allowed")
    if action.operation == "fetch":
        return ("ask", f"{action.label} for the first time in this session")
    if mode == "workspace-write":
        if action.operation == "write" and not action.in_shell_line and action.paths:
            return ("allow", "workspace-write mode allows writing in the session's folders")
        if action.in_shell_line and request.sandboxed:
            return ("allow", "it runs inside the sandbox")
        if action.operation == "run" and not request.sandboxed:
            return ("ask", f"{action.label} would run without a sandbox")
    return ("ask", f"{action.label} needs your permission")


# Matching rules. A rule that denies or asks also applies to what it may mean; a rule that allows must match
# for certain.

_PATH_KINDS: Final = frozenset(("read", "search", "edit", "delete", "move"))
"""What a command may do to the paths in its arguments."""


def _restricts(rule: Rule, action: RequestedAction, request: ActionRequest) -> Match:
    """Whether a rule that asks or denies applies to the action, or may apply to it."""
    matches: list[Match] = []
    if rule.kinds:
        matches.append(_match_kind(rule, action, request))
    if rule.tools:
        matches.append(
            _as_match(_matches_name(rule.tools, request.tool, ignore_case=True)) if request.tool else "maybe"
        )
    if rule.paths:
        matches.append(_match_paths(rule, action, request))
    if rule.commands:
        matches.append(_match_commands(rule, action))
    if rule.hosts:
        unclear = action.operation == "fetch" and action.host is None
        matches.append("maybe" if unclear else _as_match(_matches_host(rule, action)))
    return "no" if "no" in matches else "maybe" if "maybe" in matches else "yes"


def _allows(rule: Rule, action: RequestedAction, request: ActionRequest) -> bool:
    """Whether a rule certainly allows the whole action."""
    if rule.kinds and not (
        request.kind in rule.kinds or (action.in_shell_line and _redirect_kind(action) in rule.kinds)
    ):
        return False
    if rule.tools and not (request.tool and _matches_name(rule.tools, request.tool, ignore_case=False)):
        return False
    if action.operation == "doubt":
        # Only a rule that allows every command of the tool covers a line that cannot be predicted.
        return not (action.unparsable or rule.paths or rule.commands or rule.hosts)
    if rule.commands and not (
        action.command and any(pattern.allows(action.command) for pattern in rule.commands)
    ):
        return False
    if rule.hosts and not _matches_host(rule, action):
        return False
    if not rule.paths:
        return True
    if action.unresolved or not action.paths or (action.operation == "run" and not rule.commands):
        return False
    return all(_covers_path(rule, resolved, request) for resolved in action.paths)


def _covers_path(rule: Rule, resolved: ResolvedPath, request: ActionRequest) -> bool:
    """Whether a rule that allows matches this path."""
    return any(pattern.matches(resolved, request.directories, restricts=False) for pattern in rule.paths)


def _rule_names_path(rule: Rule, sensitive: SensitivePath, request: ActionRequest) -> bool:
    """Whether a pattern of the rule is specific enough to allow this sensitive path."""
    return any(
        (pattern.is_absolute if sensitive.danger == "outside" else pattern.names_file)
        for pattern in rule.paths
        if pattern.matches(sensitive.resolved, request.directories, restricts=False)
    )


def _match_kind(rule: Rule, action: RequestedAction, request: ActionRequest) -> Match:
    if request.kind in rule.kinds:
        return "yes"
    if request.kind is None:
        return "maybe"
    if action.in_shell_line and _redirect_kind(action) in rule.kinds:
        return "yes"
    return _as_match(
        action.operation == "run" and bool(rule.paths) and bool(_PATH_KINDS.intersection(rule.kinds))
    )


def _redirect_kind(action: RequestedAction) -> str | None:
    return {"read": "read", "write": "edit"}.get(action.operation)


def _match_paths(rule: Rule, action: RequestedAction, request: ActionRequest) -> Match:
    for resolved in action.paths:
        if any(pattern.matches(resolved, request.directories, restricts=True) for pattern in rule.paths):
            return "yes"
    if not (action.recursive or action.open_ended):
        return "maybe" if action.unresolved else "no"
    below = [
        pattern.matches_below(resolved.real, request.directories)
        for resolved in action.paths
        for pattern in rule.paths
    ]
    if "yes" in below and action.recursive:
        return "yes"
    return "maybe" if action.unresolved or "yes" in below or "maybe" in below else "no"


def _match_commands(rule: Rule, action: RequestedAction) -> Match:
    if action.command is None:
        return "maybe" if action.operation in ("run", "doubt") else "no"
    matches = [pattern.forbids(action.command) for pattern in rule.commands]
    return "yes" if "yes" in matches else "maybe" if "maybe" in matches else "no"


def _matches_host(rule: Rule, action: RequestedAction) -> bool:
    return action.host is not None and any(host_matches(pattern, action.host) for pattern in rule.hosts)


def _matches_name(patterns: Iterable[str], name: str, *, ignore_case: bool) -> bool:
    if ignore_case:
        return any(fnmatch.fnmatchcase(name.casefold(), pattern.casefold()) for pattern in patterns)
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _as_match(matches: bool) -> Match:
    return "yes" if matches else "no"
