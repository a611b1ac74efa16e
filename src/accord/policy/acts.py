"""A request, taken apart into single acts: this is read, that is written, this program runs. Each must be allowed."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from .bounds import Bounds, Place
from .grants import Grant
from .naming import HARMLESS_DEVICES, Standing
from .programs.readonly import is_reader, reads
from .programs.runs import Runs, runs
from .programs.scopes import scope_of
from .programs.shown import Shown, exports, open_variables
from .request import Request, host_of
from .shell.line import line_of, read_line
from .shell.words import Command, Redirect

Sort = Literal["read", "write", "run", "fetch", "use", "doubt"]
_TAKES_ALL: frozenset[str] = frozenset(
    ("rm", "mv", "rmdir", "shred", "rsync", "trash", "chmod", "chown", "tar", "zip", "cp")
)


@dataclass(frozen=True, slots=True)
class Act:
    """One thing that a request does."""

    sort: Sort
    label: str
    """What it is, for people."""
    places: tuple[Place, ...] = ()
    command: Command | None = None
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
class Acts:
    """Everything a request does."""

    acts: tuple[Act, ...]
    bounds: Bounds
    """With the folder that it happens in."""
    runs: Runs | None = None
    """The commands of its shell line."""


def acts_of(request: Request) -> Acts:
    """Take a request apart."""
    if request.category == "execute" and request.command is not None:
        return _executed(request)
    return Acts(tuple(_simple(request)), request.bounds)


def _simple(request: Request) -> Iterator[Act]:
    named = request.tool or request.kind or ""
    tool = Grant("tool", (named,)) if named else None
    places = [request.bounds.place(path) for path in request.paths]
    known = tuple(place for place in places if place)
    if request.url is not None or request.kind == "fetch":
        host = host_of(request.url) if request.url is not None else None
        grant = Grant("host", (host,)) if host else None
        yield Act("fetch", f"fetching from {host or 'an unclear address'}", known, host=host, main=grant)
        if request.category in ("read-only", "external"):
            return
    if request.category in ("execute", "external"):
        sort: Sort = "run" if request.category == "execute" else "use"
        yield Act(sort, named or "an unnamed tool", known, lost=None in places, main=tool)
        return
    sort = "read" if request.category == "read-only" else "write"
    verb, whole = "reading" if sort == "read" else "writing", request.kind in ("delete", "move")
    for path, place in zip(request.paths, places, strict=True):
        found = (place,) if place else ()
        yield Act(sort, f"{verb} {path}", found, below=whole, lost=place is None, main=tool)
    if not places:
        yield Act(sort, named or "an unnamed tool", main=tool)


def _executed(request: Request) -> Acts:
    assert request.command is not None
    line = read_line(request.command) if isinstance(request.command, str) else line_of(request.command)
    found = runs(line)
    bounds = request.bounds
    acts: list[Act] = []
    if request.cwd is not None:
        place = bounds.place(request.cwd)
        bounds = replace(bounds, cwd=place.real) if place else bounds
        inside = place is not None and bounds.is_inside(place.real)
        known = (place,) if place else ()
        acts += (
            []
            if inside
            else [Act("read", f"running in {request.cwd}", known, lost=place is None, in_line=True)]
        )
    if not found.parsed:
        acts.append(
            Act("doubt", found.doubts[0] if found.doubts else "it cannot be read", broken=True, in_line=True)
        )
    acts += [Act("doubt", doubt, in_line=True) for doubt in found.doubts]
    shown = None if exports(found) else open_variables(found)
    for after, command in enumerate(found.commands):
        standing = Standing.at(bounds, found, command, after)
        acts.append(_run(command, standing, shown, request))
    for redirect, command, after in found.redirects:
        act = _redirected(redirect, Standing.at(bounds, found, command, after))
        acts += [act] if act else []
    places = [request.bounds.place(path) for path in request.paths]
    if places:
        known = tuple(place for place in places if place)
        acts.append(Act("write", "files it names", known, lost=None in places, in_line=True))
    if not line.commands and found.parsed:
        acts.append(Act("doubt", "there is no command in it", broken=True, in_line=True))
    return Acts(tuple(acts), bounds, found)


def _run(command: Command, standing: Standing, shown: Shown | None, request: Request) -> Act:
    label = " ".join(word.raw for word in command.words)
    label = f"`{label[:80]}...`" if len(label) > 80 else f"`{label}`"
    command = standing.settled(command)
    read = reads(command, shown) if shown is not None else None
    if read is not None:
        places = standing.files(read.files)
        mentioned = standing.mentioned(read.mentions).places
        foreign = command.name == "git" and any(map(_is_bare_repository, standing.folders))
        if places is not None and standing.folders and not foreign:
            here = [Place(folder, folder) for folder in standing.folders]
            trees = read.trees and (not places or any(place.real.is_dir() for place in places))
            if not trees or request.sandboxed:
                known = tuple(dict.fromkeys((*places, *mentioned, *here)))
                return Act("run", label, known, command, below=trees, only_reads=True, in_line=True)
    places, lost, open_ended = standing.mentioned(command.arguments)
    scope = scope_of(command, lambda path: _where(path, standing))
    uncertain = (
        command.told or not standing.folders or any(standing.texts(w) is None for w in command.arguments)
    )
    if is_reader(command) and uncertain:
        scope = None  # nobody can agree beforehand to showing whatever it may be
    return Act(
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


def _where(path: str, standing: Standing) -> str | None:
    """A program or script by the one place it can mean, wherever the line stands."""
    places = standing.places([path])
    return str(places[0].real) if places and len({place.real for place in places}) == 1 else None


def _redirected(redirect: Redirect, standing: Standing) -> Act | None:
    texts = standing.texts(redirect.target)
    if texts is not None and all(text in HARMLESS_DEVICES for text in texts):
        return None
    if redirect.target.raw.startswith(("<(", ">(")):
        return None  # a command, which is an act of its own
    places = standing.places(texts) if texts is not None else None
    sort: Sort = "write" if redirect.writes else "read"
    label = f"{'writing' if redirect.writes else 'reading'} {redirect.target.raw[:80]}"
    single = Grant("path", (sort, str(places[0].real))) if places and len(places) == 1 else None
    return Act(sort, label, tuple(places or ()), lost=places is None, in_line=True, main=single)
