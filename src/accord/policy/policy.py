"""`Policy.decide`: combines never-allowed checks, rules, modes and grants."""

import fnmatch
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from accord.policy.never_allowed import floor
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
from accord.policy.requested_actions import RequestedAction, SensitivePath, acts_of, hazards
from accord.policy.rules import Match, PermissionDefault, Rule, Rules, host_matches

# MERGED policy.matching: Does a rule speak of this act? Generously where it tightens, strictly where it allows.

# A command may do any of these to the paths it is given.
_DONE_TO_PATHS = frozenset(("read", "search", "edit", "delete", "move"))


def tightens(rule: Rule, act: RequestedAction, request: ActionRequest) -> Match:
    """Whether a rule that asks or denies is met, or may turn out to be."""
    met: list[Match] = []
    if rule.kinds:
        met.append(_kind(rule, act, request))
    if rule.tools:
        met.append(_yes_or_no(_named(rule.tools, request.tool, fold=True)) if request.tool else "maybe")
    if rule.paths:
        met.append(_paths(rule, act, request))
    if rule.commands:
        met.append(_commands(rule, act))
    if rule.hosts:
        unclear = act.sort == "fetch" and act.host is None
        met.append("maybe" if unclear else _yes_or_no(_host(rule, act)))
    return "no" if "no" in met else "maybe" if "maybe" in met else "yes"


def allows(rule: Rule, act: RequestedAction, request: ActionRequest) -> bool:
    """Whether a rule allows this act, all of it and beyond doubt."""
    if rule.kinds and not (request.kind in rule.kinds or (act.in_line and _line_kind(act) in rule.kinds)):
        return False
    if rule.tools and not (request.tool and _named(rule.tools, request.tool, fold=False)):
        return False
    if act.sort == "doubt":
        # What nobody can read is covered only by a rule that covers whatever the tool may run.
        return not (act.broken or rule.paths or rule.commands or rule.hosts)
    if rule.commands and not (act.command and any(pattern.allows(act.command) for pattern in rule.commands)):
        return False
    if rule.hosts and not _host(rule, act):
        return False
    if not rule.paths:
        return True
    if act.lost or not act.places or (act.sort == "run" and not rule.commands):
        return False
    return all(names(rule, place, request) for place in act.places)


def names(rule: Rule, place: ResolvedPath, request: ActionRequest) -> bool:
    """Whether a rule that allows speaks of this place."""
    return any(pattern.matches(place, request.bounds, tightens=False) for pattern in rule.paths)


def _kind(rule: Rule, act: RequestedAction, request: ActionRequest) -> Match:
    if request.kind in rule.kinds:
        return "yes"
    if request.kind is None:
        return "maybe"
    if act.in_line and _line_kind(act) in rule.kinds:
        return "yes"
    return _yes_or_no(
        act.sort == "run" and bool(rule.paths) and bool(_DONE_TO_PATHS.intersection(rule.kinds))
    )


def _line_kind(act: RequestedAction) -> str | None:
    """What a redirection is a kind of."""
    return {"read": "read", "write": "edit"}.get(act.sort)


def _paths(rule: Rule, act: RequestedAction, request: ActionRequest) -> Match:
    for place in act.places:
        if any(pattern.matches(place, request.bounds, tightens=True) for pattern in rule.paths):
            return "yes"
    if not (act.below or act.open_ended):
        return "maybe" if act.lost else "no"
    below = [pattern.below(place.real, request.bounds) for place in act.places for pattern in rule.paths]
    if "yes" in below and act.below:
        return "yes"
    return "maybe" if act.lost or "yes" in below or "maybe" in below else "no"


def _commands(rule: Rule, act: RequestedAction) -> Match:
    if act.command is None:
        return "maybe" if act.sort in ("run", "doubt") else "no"
    found = [pattern.forbids(act.command) for pattern in rule.commands]
    return "yes" if "yes" in found else "maybe" if "maybe" in found else "no"


def _host(rule: Rule, act: RequestedAction) -> bool:
    return act.host is not None and any(host_matches(pattern, act.host) for pattern in rule.hosts)


def _named(patterns: Iterable[str], name: str, *, fold: bool) -> bool:
    if fold:
        return any(fnmatch.fnmatchcase(name.casefold(), pattern.casefold()) for pattern in patterns)
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _yes_or_no(met: bool) -> Match:
    return "yes" if met else "no"


# MERGED policy.modes: The modes of a session, and the four words of a client: what happens to what no rule and no agreement speaks of.

Verdict = tuple[Effect, str]


def posture(act: RequestedAction, request: ActionRequest, word: PermissionDefault | None) -> Verdict:
    """What the mode says; a default from the rules can only make it stricter. Without a mode the default decides."""
    if request.mode is None:
        return _by_word(act, word or "ask")
    verdict = _by_mode(act, request, request.mode)
    if word == "none":
        return ("deny", "the rules allow nothing else")
    if word in ("ask", "reads") and request.mode == "full-access":
        asked = _by_mode(act, request, "ask")
        return asked if STRICTNESS[asked[0]] > STRICTNESS[verdict[0]] else verdict
    return verdict


def forbidden(act: RequestedAction, request: ActionRequest) -> str | None:
    """Why the mode forbids this whatever else is allowed."""
    if request.mode not in ("read-only", "plan") or _only_reads(act, request) or act.sort == "fetch":
        return None
    if request.kind == "switch_mode":
        return None
    return f"{request.mode} mode changes nothing: {act.label}"


def runs_anything(request: ActionRequest) -> bool:
    """Whether even a command that nobody can read may run: everything may, or nothing gets out of the sandbox."""
    return request.mode == "full-access" or (request.mode == "workspace-write" and request.sandboxed)


def _only_reads(act: RequestedAction, request: ActionRequest) -> bool:
    return act.sort == "read" or act.only_reads or (act.sort == "use" and request.read_only)


def _by_word(act: RequestedAction, word: PermissionDefault) -> Verdict:
    if word == "all":
        return ("allow", "everything is allowed")
    if word == "none":
        return ("deny", "nothing is allowed")
    if word == "reads" and act.sort == "read" and not act.in_line:
        return ("allow", "reading is allowed")
    return ("ask", f"{act.label} needs your permission")


def _by_mode(act: RequestedAction, request: ActionRequest, mode: Mode) -> Verdict:
    if mode == "full-access":
        return ("allow", "full-access mode allows it")
    if request.kind == "switch_mode":
        return ("ask", "changing the mode needs your permission")
    if _only_reads(act, request):
        return ("allow", "reading is allowed")
    if act.sort == "fetch":
        return ("ask", f"{act.label} for the first time in this session")
    if mode == "workspace-write":
        if act.sort == "write" and not act.in_line and act.places:
            return ("allow", "workspace-write mode allows writing in the session's folders")
        if act.in_line and request.sandboxed:
            return ("allow", "it runs inside the sandbox")
        if act.sort == "run" and not request.sandboxed:
            return ("ask", f"{act.label} would run without a sandbox")
    return ("ask", f"{act.label} needs your permission")


# MERGED policy.policy: May this be done? The one place where floor, rules, modes, agreements and confinement come together.
#
# A request is taken apart into single acts; the strictest verdict on any of them is the decision. For each act, in this order:
# the hard floor; what was refused for the session and what rules deny; what the mode forbids; what rules ask for; lines that
# cannot be read; secrets and places outside; what rules allow; what was agreed to; what the mode says. A project's rules are
# judged on their own and can only make the outcome stricter.


@dataclass(frozen=True, slots=True)
class _Verdict:
    effect: Effect
    reason: str
    rule: str
    needs: tuple[Grant, ...] | None = None
    """What would have to be agreed to for this to pass; None where no agreement helps."""


class Policy:
    """Decides requests by the user's rules and, where the user trusted them, the project's."""

    def __init__(self, user: Rules | None = None, project: Rules | None = None) -> None:
        self.user = user or Rules()
        self.project = project

    def decide(self, request: ActionRequest) -> Decision:
        """Allow, ask or deny. Never raises for what a request says: what cannot be judged is asked for or denied."""
        acts = acts_of(request)
        if reason := floor(request, acts):
            return Decision("deny", reason, "floor")
        everything = tuple(grant for act in acts.acts for grant in self._needs(act, request) or ())
        if request.grants.refuses(everything):
            return Decision("deny", "you refused this for the session", "always")
        verdicts = [self._judge(act, request) for act in acts.acts]
        worst = max(verdicts, key=lambda verdict: STRICTNESS[verdict.effect], default=None)
        if worst is None:
            return Decision("allow", "it does nothing", "nothing")
        scope = _scope(verdicts) if worst.effect == "ask" else None
        return Decision(worst.effect, worst.reason, worst.rule, scope)

    def may_show(self, path: Path, request: ActionRequest) -> bool:
        """Whether a tool that looks through many files may show this one: no secret, not denied, not asked for."""
        place = request.bounds.place(path)
        if place is None:
            return False
        act = RequestedAction("read", f"reading {path}", (place,))
        return self._judge(act, request).effect == "allow"

    def _judge(self, act: RequestedAction, request: ActionRequest) -> _Verdict:
        verdict = self._by_user(act, request)
        if self.project is None or verdict.effect == "deny":
            return verdict
        return _stricter(self._by_project(self.project, act, request), verdict)

    def _by_user(self, act: RequestedAction, request: ActionRequest) -> _Verdict:
        sure, perhaps = _forbidding(self.user, act, request)
        if sure is not None and sure.effect == "deny":
            return sure
        if reason := forbidden(act, request):
            return _Verdict("deny", reason, f"mode {request.mode}")
        return sure or _stricter(perhaps, self._otherwise(act, request))

    def _otherwise(self, act: RequestedAction, request: ActionRequest) -> _Verdict:
        """What becomes of an act that no rule denies or asks for."""
        if act.sort == "doubt":
            return self._doubtful(act, request)
        for hazard in hazards(act, request.bounds):
            if not self._lifted(hazard, act, request):
                return self._unless_denied(
                    _Verdict("ask", hazard.reason, hazard.danger, self._needs(act, request)), act, request
                )
        if act.lost and not runs_anything(request):
            asked = _Verdict("ask", f"where {act.label} leads is not certain", "outside")
            return self._unless_denied(asked, act, request)
        for name, rule in self.user.rules("allow"):
            if allows(rule, act, request):
                return _Verdict("allow", f"{act.label} is allowed by your rules", name)
        if request.grants.covers(act.main):
            return _Verdict("allow", f"{act.label} was agreed to for this session", "always")
        return self._by_posture(act, request)

    def _by_posture(self, act: RequestedAction, request: ActionRequest) -> _Verdict:
        effect, reason = posture(act, request, self.user.word)
        by = f"mode {request.mode}" if request.mode else f"default {self.user.word or 'ask'}"
        return _Verdict(effect, reason, by, self._needs(act, request))

    def _unless_denied(self, asked: _Verdict, act: RequestedAction, request: ActionRequest) -> _Verdict:
        """A question, unless the default is to deny what no rule speaks of."""
        default = self._by_posture(act, request)
        return default if default.effect == "deny" else asked

    def _doubtful(self, act: RequestedAction, request: ActionRequest) -> _Verdict:
        reason = f"this line cannot be judged: {act.label}"
        if act.broken:
            return self._unless_denied(_Verdict("ask", reason, "shell"), act, request)
        # A rule about commands may well be meant for what nobody can see here.
        speaks = [*self.user.rules("deny"), *self.user.rules("ask")]
        if any(rule.commands for _, rule in speaks):
            return self._unless_denied(_Verdict("ask", reason, "shell"), act, request)
        for name, rule in self.user.rules("allow"):
            if allows(rule, act, request):
                return _Verdict("allow", "whatever it runs is allowed by your rules", name)
        if runs_anything(request) and posture(act, request, self.user.word)[0] == "allow":
            return _Verdict("allow", "whatever it runs is allowed in this mode", f"mode {request.mode}")
        if request.mode is None and self.user.word == "all":
            return self._by_posture(act, request)
        return self._unless_denied(_Verdict("ask", reason, "shell"), act, request)

    def _by_project(self, rules: Rules, act: RequestedAction, request: ActionRequest) -> _Verdict | None:
        """What the project's rules add: a denial, a question, or nothing."""
        sure, perhaps = _forbidding(rules, act, request)
        if sure is not None:
            return sure
        harmless = act.sort == "read" or act.only_reads
        silent = rules.word in (None, "all") or (
            harmless and (rules.word == "reads" or request.mode is not None)
        )
        if (silent and rules.word != "none") or any(
            allows(rule, act, request) for _, rule in rules.rules("allow")
        ):
            return perhaps
        reason = f"{act.label}: the project's rules do not allow it"
        added = _Verdict(
            "deny" if rules.word == "none" else "ask", reason, f"default {rules.word} of the project"
        )
        return _stricter(perhaps, added)

    def _lifted(self, hazard: SensitivePath, act: RequestedAction, request: ActionRequest) -> bool:
        """Whether a place that is asked for by name was allowed by name."""
        if hazard.danger != "secret" and request.mode == "full-access":
            return True
        if request.grants.covers(hazard.grant(act, request)):
            return True
        return any(
            _by_name(rule, hazard, request) and allows(rule, act, request)
            for _, rule in self.user.rules("allow")
        )

    def _needs(self, act: RequestedAction, request: ActionRequest) -> tuple[Grant, ...] | None:
        """Everything an "always" for this act has to cover."""
        if act.sort == "doubt" or act.lost:
            return None
        named = tuple(
            hazard.grant(act, request)
            for hazard in hazards(act, request.bounds)
            if not (request.mode == "full-access" and hazard.danger != "secret")
        )
        if act.sort == "read" or act.only_reads:
            return (*((act.main,) if act.main and request.mode is None else ()), *named)
        return (act.main, *named) if act.main else None


def _by_name(rule: object, hazard: SensitivePath, request: ActionRequest) -> bool:
    from accord.policy.rules import Rule

    assert isinstance(rule, Rule)
    place: ResolvedPath = hazard.place
    for pattern in rule.paths:
        if not pattern.matches(place, request.bounds, tightens=False):
            continue
        if (pattern.leads_outside if hazard.danger == "outside" else pattern.names_it) and names(
            rule, place, request
        ):
            return True
    return False


def _forbidding(
    rules: Rules, act: RequestedAction, request: ActionRequest
) -> tuple[_Verdict | None, _Verdict | None]:
    """The strictest rule that denies or asks and is surely met; and a question for one that may be met."""
    asked: _Verdict | None = None
    perhaps: _Verdict | None = None
    for name, rule in rules.rules("deny"):
        met = tightens(rule, act, request)
        if met == "yes":
            return _Verdict("deny", f"{act.label} is denied by a rule", name), None
        if met == "maybe" and perhaps is None:
            perhaps = _Verdict("ask", f"{act.label} may be what a rule denies", name)
    for name, rule in rules.rules("ask"):
        met = tightens(rule, act, request)
        if met == "yes" and asked is None:
            asked = _Verdict("ask", f"{act.label} is asked for by a rule", name)
        elif met == "maybe" and perhaps is None:
            perhaps = _Verdict("ask", f"{act.label} may be what a rule asks for", name)
    return asked, perhaps


def _stricter(first: _Verdict | None, second: _Verdict) -> _Verdict:
    """The stricter of two; the first if they are alike."""
    return second if first is None or STRICTNESS[second.effect] > STRICTNESS[first.effect] else first


def _scope(verdicts: list[_Verdict]) -> GrantScope | None:
    """What an "always" would cover, if it would help."""
    asked = [verdict for verdict in verdicts if verdict.effect == "ask"]
    if any(not verdict.needs for verdict in asked):
        return None
    return GrantScope(tuple(dict.fromkeys(_all(asked))))


def _all(asked: list[_Verdict]) -> Iterator[Grant]:
    for verdict in asked:
        yield from verdict.needs or ()
