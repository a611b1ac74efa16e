"""Splits a request into single actions, and finds what is risky about each."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

from accord.policy.command_paths import HARMLESS_DEVICES, PossibleDirectories
from accord.policy.programs.command_scopes import scope_of
from accord.policy.programs.executed_commands import ExecutedCommands, runs
from accord.policy.programs.readonly_commands import (
    PrintableVariables,
    exports,
    is_reader,
    open_variables,
    reads,
)
from accord.policy.request import ActionRequest, Grant, ResolvedPath, SessionDirectories, host_of
from accord.policy.secret_files import is_secret, steers
from accord.policy.shell.command_line import line_of, read_line
from accord.policy.shell.syntax import Redirect, SimpleCommand

# MERGED policy.acts: A request, taken apart into single acts: this is read, that is written, this program runs. Each must be allowed.

Sort = Literal["read", "write", "run", "fetch", "use", "doubt"]
_TAKES_ALL: frozenset[str] = frozenset(
    ("rm", "mv", "rmdir", "shred", "rsync", "trash", "chmod", "chown", "tar", "zip", "cp")
)


@dataclass(frozen=True, slots=True)
class RequestedAction:
    """One thing that a request does."""

    sort: Sort
    label: str
    """What it is, for people."""
    places: tuple[ResolvedPath, ...] = ()
    command: SimpleCommand | None = None
    host: str | None = None
    below: bool = False
    """Whether it takes everything below its places along."""
    open_ended: bool = False
    """Whether it may mean something below one of its places instead."""
    only_reads: bool = False
    """Whether a program that runs is known to change nothing and to tell nobody."""
    lost: bool = False
    """Whether it touches a place that could not be told."""
    in_line: bool = False
    """Whether it happens in a shell line rather than by a tool of its own."""
    broken: bool = False
    """Whether the doubt is that the line is no line of shell at all."""
    main: Grant | None = None
    """What an "always" for it would have to cover, besides places that are asked for by name."""


@dataclass(frozen=True, slots=True)
class RequestedActions:
    """Everything a request does."""

    acts: tuple[RequestedAction, ...]
    bounds: SessionDirectories
    """With the folder that it happens in."""
    runs: ExecutedCommands | None = None
    """The commands of its shell line."""


def acts_of(request: ActionRequest) -> RequestedActions:
    """Take a request apart."""
    if request.category == "execute" and request.command is not None:
        return _executed(request)
    return RequestedActions(tuple(_simple(request)), request.bounds)


def _simple(request: ActionRequest) -> Iterator[RequestedAction]:
    named = request.tool or request.kind or ""
    tool = Grant("tool", (named,)) if named else None
    places = [request.bounds.place(path) for path in request.paths]
    known = tuple(place for place in places if place)
    if request.url is not None or request.kind == "fetch":
        host = host_of(request.url) if request.url is not None else None
        grant = Grant("host", (host,)) if host else None
        yield RequestedAction(
            "fetch", f"fetching from {host or 'an unclear address'}", known, host=host, main=grant
        )
        if request.category in ("read-only", "external"):
            return
    if request.category in ("execute", "external"):
        sort: Sort = "run" if request.category == "execute" else "use"
        yield RequestedAction(sort, named or "an unnamed tool", known, lost=None in places, main=tool)
        return
    sort = "read" if request.category == "read-only" else "write"
    verb, whole = "reading" if sort == "read" else "writing", request.kind in ("delete", "move")
    for path, place in zip(request.paths, places, strict=True):
        found = (place,) if place else ()
        yield RequestedAction(sort, f"{verb} {path}", found, below=whole, lost=place is None, main=tool)
    if not places:
        yield RequestedAction(sort, named or "an unnamed tool", main=tool)


def _executed(request: ActionRequest) -> RequestedActions:
    assert request.command is not None
    line = read_line(request.command) if isinstance(request.command, str) else line_of(request.command)
    found = runs(line)
    bounds = request.bounds
    acts: list[RequestedAction] = []
    if request.cwd is not None:
        place = bounds.place(request.cwd)
        bounds = replace(bounds, cwd=place.real) if place else bounds
        inside = place is not None and bounds.is_inside(place.real)
        known = (place,) if place else ()
        acts += (
            []
            if inside
            else [
                RequestedAction("read", f"running in {request.cwd}", known, lost=place is None, in_line=True)
            ]
        )
    if not found.parsed:
        acts.append(
            RequestedAction(
                "doubt", found.doubts[0] if found.doubts else "it cannot be read", broken=True, in_line=True
            )
        )
    acts += [RequestedAction("doubt", doubt, in_line=True) for doubt in found.doubts]
    shown = None if exports(found) else open_variables(found)
    for after, command in enumerate(found.commands):
        standing = PossibleDirectories.at(bounds, found, command, after)
        acts.append(_run(command, standing, shown, request))
    for redirect, command, after in found.redirects:
        act = _redirected(redirect, PossibleDirectories.at(bounds, found, command, after))
        acts += [act] if act else []
    places = [request.bounds.place(path) for path in request.paths]
    if places:
        known = tuple(place for place in places if place)
        acts.append(RequestedAction("write", "files it names", known, lost=None in places, in_line=True))
    if not line.commands and found.parsed:
        acts.append(RequestedAction("doubt", "there is no command in it", broken=True, in_line=True))
    return RequestedActions(tuple(acts), bounds, found)


def _run(
    command: SimpleCommand,
    standing: PossibleDirectories,
    shown: PrintableVariables | None,
    request: ActionRequest,
) -> RequestedAction:
    label = " ".join(word.raw for word in command.words)
    label = f"`{label[:80]}...`" if len(label) > 80 else f"`{label}`"
    command = standing.settled(command)
    read = reads(command, shown) if shown is not None else None
    if read is not None:
        places = standing.files(read.files)
        mentioned = standing.mentioned(read.mentions).places
        foreign = command.name == "git" and any(map(_is_bare_repository, standing.folders))
        if places is not None and standing.folders and not foreign:
            here = [ResolvedPath(folder, folder) for folder in standing.folders]
            trees = read.trees and (not places or any(place.real.is_dir() for place in places))
            if not trees or request.sandboxed:
                known = tuple(dict.fromkeys((*places, *mentioned, *here)))
                return RequestedAction(
                    "run", label, known, command, below=trees, only_reads=True, in_line=True
                )
    places, lost, open_ended = standing.mentioned(command.arguments)
    scope = scope_of(command, lambda path: _where(path, standing))
    uncertain = (
        command.told or not standing.folders or any(standing.texts(w) is None for w in command.arguments)
    )
    if is_reader(command) and uncertain:
        scope = None  # nobody can agree beforehand to showing whatever it may be
    return RequestedAction(
        "run",
        label,
        tuple(places),
        command,
        below=command.name in _TAKES_ALL or read is not None,
        open_ended=open_ended,
        lost=lost,
        in_line=True,
        main=Grant("command", scope) if scope else None,
    )


def _is_bare_repository(folder: Path) -> bool:
    """Whether git would take the folder, or one around it, for a repository, with settings that anybody may have written there."""
    for above in (folder, *folder.parents):
        if (above / ".git").exists():
            return False
        if (above / "HEAD").exists() and (above / "objects").exists() and (above / "refs").exists():
            return True
    return False


def _where(path: str, standing: PossibleDirectories) -> str | None:
    """A program or script by the one place it can mean, wherever the line stands."""
    places = standing.places([path])
    return str(places[0].real) if places and len({place.real for place in places}) == 1 else None


def _redirected(redirect: Redirect, standing: PossibleDirectories) -> RequestedAction | None:
    texts = standing.texts(redirect.target)
    if texts is not None and all(text in HARMLESS_DEVICES for text in texts):
        return None
    if redirect.target.raw.startswith(("<(", ">(")):
        return None  # a command, which is an act of its own
    places = standing.places(texts) if texts is not None else None
    sort: Sort = "write" if redirect.writes else "read"
    label = f"{'writing' if redirect.writes else 'reading'} {redirect.target.raw[:80]}"
    single = Grant("path", (sort, str(places[0].real))) if places and len(places) == 1 else None
    return RequestedAction(sort, label, tuple(places or ()), lost=places is None, in_line=True, main=single)


# MERGED policy.hazards: Places that are asked for by name: outside the roots, secrets, files that steer other programs.

Danger = Literal["secret", "outside", "steering"]


class SensitivePath(NamedTuple):
    """One place and why it is asked for."""

    danger: Danger
    place: ResolvedPath

    @property
    def reason(self) -> str:
        """In one line."""
        named = self.place.named
        leads = f" (which leads to {self.place.real})" if self.place.real != named else ""
        match self.danger:
            case "secret":
                return f"{named}{leads} may hold secrets"
            case "outside":
                return f"{named}{leads} lies outside the session's folders"
            case _:
                return f"{named}{leads} decides what other programs run"

    def grant(self, act: RequestedAction, request: ActionRequest) -> Grant:
        """What an "always" for it covers: this place, for this tool or program."""
        who = act.command.name if act.command else request.tool or request.kind or act.sort
        return Grant("path", (self.danger, who, str(self.place.real)))


def hazards(act: RequestedAction, bounds: SessionDirectories) -> Iterator[SensitivePath]:
    """Everything about the places of an act that needs a word of its own."""
    writes = act.sort in ("write", "use") or (act.sort == "run" and not act.only_reads)
    for place in act.places:
        if _secret(place, bounds):
            yield SensitivePath("secret", place)
        if not bounds.is_inside(place.real):
            yield SensitivePath("outside", place)
        elif writes and _steering(place, bounds):
            yield SensitivePath("steering", place)


def _secret(place: ResolvedPath, bounds: SessionDirectories) -> bool:
    if any(place.real.is_relative_to(folder) for folder in bounds.private):
        return True
    return is_secret(place.real) or is_secret(place.named)


def _steering(place: ResolvedPath, bounds: SessionDirectories) -> bool:
    # Only what lies inside the roots counts: a root may itself lie in such a folder.
    inside = [root for root in bounds.roots if place.real.is_relative_to(root)]
    named = [root for root in bounds.roots if place.named.is_relative_to(root)]
    return any(steers(place.real.relative_to(root)) for root in inside) or any(
        steers(place.named.relative_to(root)) for root in named
    )
