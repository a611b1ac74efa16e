"""May this be done? The one place where floor, rules, modes, agreements and confinement come together.

A request is taken apart into single acts; the strictest verdict on any of them is the decision. For each act, in this order:
the hard floor; what was refused for the session and what rules deny; what the mode forbids; what rules ask for; lines that
cannot be read; secrets and places outside; what rules allow; what was agreed to; what the mode says. A project's rules are
judged on their own and can only make the outcome stricter.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .acts import Act, acts_of
from .bounds import Place
from .floor import floor
from .grants import Grant, Scope
from .hazards import Hazard, hazards
from .matching import allows, names, tightens
from .modes import forbidden, posture, runs_anything
from .request import STRICTNESS, Decision, Effect, Request
from .rules import Rules


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

    def decide(self, request: Request) -> Decision:
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

    def may_show(self, path: Path, request: Request) -> bool:
        """Whether a tool that looks through many files may show this one: no secret, not denied, not asked for."""
        place = request.bounds.place(path)
        if place is None:
            return False
        act = Act("read", f"reading {path}", (place,))
        return self._judge(act, request).effect == "allow"

    def _judge(self, act: Act, request: Request) -> _Verdict:
        verdict = self._by_user(act, request)
        if self.project is None or verdict.effect == "deny":
            return verdict
        return _stricter(self._by_project(self.project, act, request), verdict)

    def _by_user(self, act: Act, request: Request) -> _Verdict:
        sure, perhaps = _forbidding(self.user, act, request)
        if sure is not None and sure.effect == "deny":
            return sure
        if reason := forbidden(act, request):
            return _Verdict("deny", reason, f"mode {request.mode}")
        return sure or _stricter(perhaps, self._otherwise(act, request))

    def _otherwise(self, act: Act, request: Request) -> _Verdict:
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

    def _by_posture(self, act: Act, request: Request) -> _Verdict:
        effect, reason = posture(act, request, self.user.word)
        by = f"mode {request.mode}" if request.mode else f"default {self.user.word or 'ask'}"
        return _Verdict(effect, reason, by, self._needs(act, request))

    def _unless_denied(self, asked: _Verdict, act: Act, request: Request) -> _Verdict:
        """A question, unless the default is to deny what no rule speaks of."""
        default = self._by_posture(act, request)
        return default if default.effect == "deny" else asked

    def _doubtful(self, act: Act, request: Request) -> _Verdict:
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

    def _by_project(self, rules: Rules, act: Act, request: Request) -> _Verdict | None:
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

    def _lifted(self, hazard: Hazard, act: Act, request: Request) -> bool:
        """Whether a place that is asked for by name was allowed by name."""
        if hazard.danger != "secret" and request.mode == "full-access":
            return True
        if request.grants.covers(hazard.grant(act, request)):
            return True
        return any(
            _by_name(rule, hazard, request) and allows(rule, act, request)
            for _, rule in self.user.rules("allow")
        )

    def _needs(self, act: Act, request: Request) -> tuple[Grant, ...] | None:
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


def _by_name(rule: object, hazard: Hazard, request: Request) -> bool:
    from .rules import Rule

    assert isinstance(rule, Rule)
    place: Place = hazard.place
    for pattern in rule.paths:
        if not pattern.matches(place, request.bounds, tightens=False):
            continue
        if (pattern.leads_outside if hazard.danger == "outside" else pattern.names_it) and names(
            rule, place, request
        ):
            return True
    return False


def _forbidding(rules: Rules, act: Act, request: Request) -> tuple[_Verdict | None, _Verdict | None]:
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


def _scope(verdicts: list[_Verdict]) -> Scope | None:
    """What an "always" would cover, if it would help."""
    asked = [verdict for verdict in verdicts if verdict.effect == "ask"]
    if any(not verdict.needs for verdict in asked):
        return None
    return Scope(tuple(dict.fromkeys(_all(asked))))


def _all(asked: list[_Verdict]) -> Iterator[Grant]:
    for verdict in asked:
        yield from verdict.needs or ()
