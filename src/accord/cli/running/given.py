"""A permission that was given: it covers what its tool call then does through this client, so that nobody is asked twice.

It covers no more than was agreed to: the same sort of thing, the files that were named, the command that was shown, and
only until the call is over. What it does not cover is asked about like anything else.
"""

from typing import Final

from accord.client import PermissionRequest
from accord.client.judging import command_in
from accord.client.permissions import READING
from accord.client.session import ClientSession
from accord.policy.request import Request

_CHANGING: Final = frozenset(("edit", "delete", "move"))
_SHELLS: Final = frozenset(("sh", "bash", "zsh", "dash", "ksh"))
_RUN: Final = frozenset(("-c", "-lc", "-ic", "-lic", "-cl"))


class Given:
    """One of them."""

    def __init__(self, asked: PermissionRequest, request: Request, *, always: bool) -> None:
        self._session = asked.session
        self._call_id = asked.call.tool_call_id
        self._kind = request.kind
        self._always = always
        self._places = {place.real for path in request.paths if (place := request.bounds.place(path))}
        self._command = _words(command_in(asked))

    def covers(self, session: ClientSession, wanted: Request) -> bool:
        """Whether this was part of what was agreed to."""
        if session is not self._session or not self._lasts():
            return False
        if wanted.kind == "read":
            return self._names(wanted) or (self._kind in READING and not self._places)
        if self._kind in READING:
            return False
        if wanted.kind == "execute":
            return self._runs(wanted)
        return self._names(wanted) or (self._kind in _CHANGING and (self._always or not self._places))

    def _lasts(self) -> bool:
        call = self._session.state.tool_calls.get(self._call_id)
        return self._always or call is None or call.open

    def _names(self, wanted: Request) -> bool:
        places = [wanted.bounds.place(path) for path in wanted.paths]
        return bool(places) and all(
            place is not None and any(place.real.is_relative_to(named) for named in self._places)
            for place in places
        )

    def _runs(self, wanted: Request) -> bool:
        if self._kind == "execute" and (self._always or not self._command):
            return True
        return bool(self._command) and _words(wanted.command) == self._command


def _words(command: str | tuple[str, ...] | None) -> list[str]:
    """A command in its words, without the shell that runs it: agents ask for a line and then run it in one."""
    words = [command] if isinstance(command, str) else list(command or ())
    if len(words) >= 3 and words[0].rpartition("/")[2] in _SHELLS and words[1] in _RUN:
        words = words[2:3]
    return [word for part in words for word in part.split()]
