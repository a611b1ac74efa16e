"""What a sandboxed command sees of the file system, in terms that every backend understands.

A view is worked out before the first command runs and then only ever narrowed: a command that could swap a folder of
the roots for a link must not decide what the next one sees. Paths are real (links resolved); what is hidden lies inside
something that would otherwise be seen.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from accord.errors import UsageError
from accord.policy.sandbox.environment import holds_credential
from accord.policy.sandbox.places import GIT_CONFIGS, SYSTEM, is_within, name_service, tool_folders

_GUARDED_IN_GIT: Final = ("hooks", "config")
_GUARDED_IN_ROOT: Final = (".accord",)
_SYSTEM: Final = ("/usr", "/etc", "/proc", "/sys", "/dev", "/run", "/bin", "/sbin", "/lib", "/boot")


@dataclass(frozen=True, slots=True)
class View:
    """The reach of a command. What is in none of these is not there."""

    home: str
    """The user's home folder."""
    home_is_shown: bool = True
    """Whether the real one is seen, because a root or a readable folder holds it; else a private one stands in its place."""
    writable: tuple[str, ...] = ()
    """None of them inside another."""
    readable: tuple[str, ...] = ()
    """None of them inside something writable."""
    asked: tuple[str, ...] = ()
    """Those of them that were asked for by name."""
    aliases: tuple[str, ...] = ()
    """Names in the home folder under which the user's tools are known; where they lead is readable."""
    guarded: tuple[str, ...] = ()
    """Read-only, though inside something writable: what makes git or Accord run programs later, outside."""
    pinned: tuple[str, ...] = ()
    """Writable, but not to be moved away, because something guarded is in them."""
    hidden: tuple[str, ...] = ()
    searched: bool = True
    """Whether the roots were searched for secrets to the end."""

    def hiding(self, secrets: Iterable[str], *, searched: bool) -> "View":
        """This view without the secrets; those that it does not show anyway are left out. UsageError if nothing is left."""
        seen = (*self.writable, *self.readable)
        real = {os.path.realpath(path) for path in secrets if os.path.lexists(path)}
        within = (path for path in real if any(is_within(path, place) for place in seen))
        kept = tuple(_topmost(path for path in within if path not in self.asked))
        for path in kept:
            if path in self.writable:
                raise UsageError(
                    f"a sandbox cannot open {path} for writing: secrets are kept there; choose another folder"
                )
        return replace(self, hidden=kept, searched=searched)

    def hidden_in_writable(self) -> tuple[str, ...]:
        """Those secrets that lie in a folder the command may write to."""
        return tuple(path for path in self.hidden if self.writes(path))

    def writes(self, path: str) -> bool:
        """Whether a real path lies in a folder that commands may write to."""
        return any(is_within(path, place) for place in self.writable)


def first_view(writable: Iterable[str], readable: Iterable[str], home: str, path: str) -> View:
    """The view of commands whose PATH is `path`, with nothing hidden yet; raises UsageError for what cannot be confined."""
    home = os.path.realpath(home)
    open_for_writing = tuple(_topmost(_existing(writable)))
    _check(open_for_writing)
    asked = tuple(_existing(readable))
    if "/" in asked:
        raise UsageError(
            "a sandbox cannot open / for reading: that would be everything; name the folders you need"
        )
    home_is_shown = any(is_within(home, place) for place in (*open_for_writing, *asked))

    def is_outside(place: str) -> bool:
        return not any(is_within(place, root) for root in open_for_writing)

    # What a root holds may have been put there to be followed, so a name in a root leads nowhere.
    tools = [
        place
        for place in tool_folders(home, path)
        if is_outside(place) and not is_within(home, os.path.realpath(place))
    ]
    aliases = [place for place in tools if is_within(place, home)]
    aliases += [config for name in GIT_CONFIGS if _is_harmless(config := os.path.join(home, name))]
    places = _existing((*SYSTEM, *name_service(), *tools, *aliases, *asked))
    repositories = [git for root in open_for_writing if _is_folder(git := os.path.join(root, ".git"))]
    guarded = [os.path.join(git, name) for git in repositories for name in _GUARDED_IN_GIT]
    guarded += [os.path.join(root, name) for root in open_for_writing for name in _GUARDED_IN_ROOT]
    return View(
        home=home,
        home_is_shown=home_is_shown,
        writable=open_for_writing,
        readable=tuple(place for place in places if is_outside(place)),
        asked=asked,
        aliases=() if home_is_shown else tuple(aliases),
        guarded=tuple(place for place in guarded if os.path.exists(place) and not os.path.islink(place)),
        pinned=tuple(repositories),
    )


def _check(writable: tuple[str, ...]) -> None:
    for root in writable:
        if not os.path.isdir(root):
            raise UsageError(f"a sandbox cannot open {root} for writing: it is not a folder")
        if is_system(root):
            raise UsageError(
                f"a sandbox cannot open {root} for writing: it is part of the system; choose a folder of yours"
            )


def is_system(path: str) -> bool:
    """Whether a real path is part of the system, where nobody's work lies."""
    return path == "/" or any(is_within(path, system) for system in _SYSTEM)


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def _is_harmless(config: str) -> bool:
    """Whether a git configuration can be read and holds no login."""
    try:
        with open(config, encoding="utf-8", errors="replace") as file:
            text = file.read(1 << 20)
    except OSError:
        return False
    return not holds_credential(text) and "extraheader" not in text.lower()


def _existing(paths: Iterable[str]) -> Iterator[str]:
    return iter(dict.fromkeys(os.path.realpath(path) for path in paths if os.path.exists(path)))


def _topmost(paths: Iterable[str]) -> Iterator[str]:
    """Those that do not lie below another of them."""
    last = None
    for path in sorted(paths, key=lambda path: path.split("/")):
        if last is None or not is_within(path, last):
            last = path
            yield path
