"""Does a rule speak of this act? Generously where it tightens, strictly where it allows."""

import fnmatch
from collections.abc import Iterable

from .acts import Act
from .bounds import Place
from .patterns import Match, host_matches
from .request import Request
from .rules import Rule

# A command may do any of these to the paths it is given.
_DONE_TO_PATHS = frozenset(("read", "search", "edit", "delete", "move"))


def tightens(rule: Rule, act: Act, request: Request) -> Match:
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


def allows(rule: Rule, act: Act, request: Request) -> bool:
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


def names(rule: Rule, place: Place, request: Request) -> bool:
    """Whether a rule that allows speaks of this place."""
    return any(pattern.matches(place, request.bounds, tightens=False) for pattern in rule.paths)


def _kind(rule: Rule, act: Act, request: Request) -> Match:
    if request.kind in rule.kinds:
        return "yes"
    if request.kind is None:
        return "maybe"
    if act.in_line and _line_kind(act) in rule.kinds:
        return "yes"
    return _yes_or_no(
        act.sort == "run" and bool(rule.paths) and bool(_DONE_TO_PATHS.intersection(rule.kinds))
    )


def _line_kind(act: Act) -> str | None:
    """What a redirection is a kind of."""
    return {"read": "read", "write": "edit"}.get(act.sort)


def _paths(rule: Rule, act: Act, request: Request) -> Match:
    for place in act.places:
        if any(pattern.matches(place, request.bounds, tightens=True) for pattern in rule.paths):
            return "yes"
    if not (act.below or act.open_ended):
        return "maybe" if act.lost else "no"
    below = [pattern.below(place.real, request.bounds) for place in act.places for pattern in rule.paths]
    if "yes" in below and act.below:
        return "yes"
    return "maybe" if act.lost or "yes" in below or "maybe" in below else "no"


def _commands(rule: Rule, act: Act) -> Match:
    if act.command is None:
        return "maybe" if act.sort in ("run", "doubt") else "no"
    found = [pattern.forbids(act.command) for pattern in rule.commands]
    return "yes" if "yes" in found else "maybe" if "maybe" in found else "no"


def _host(rule: Rule, act: Act) -> bool:
    return act.host is not None and any(host_matches(pattern, act.host) for pattern in rule.hosts)


def _named(patterns: Iterable[str], name: str, *, fold: bool) -> bool:
    if fold:
        return any(fnmatch.fnmatchcase(name.casefold(), pattern.casefold()) for pattern in patterns)
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _yes_or_no(met: bool) -> Match:
    return "yes" if met else "no"
