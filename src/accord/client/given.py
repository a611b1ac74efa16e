"""A permission that was given: it covers what its tool call then does through this client, so that nobody is asked twice.

It covers no more than was shown and agreed to: the very files that were named, the very command, in its folder, and only until
the call is over. A yes to something that names neither covers nothing here, and an "always" is for the policy to remember.
"""

import shlex
from typing import Final

from accord.client.judging import command_in
from accord.client.permissions import READING, PermissionRequest
from accord.client.session import ClientSession
from accord.policy.bounds import Place
from accord.policy.request import Request

_CHANGING: Final = frozenset(("edit", "delete", "move"))
_SHELLS: Final = frozenset(("sh", "bash", "zsh", "dash", "ksh"))
_RUN: Final = frozenset(("-c", "-lc"))


class Given:
    """One of them."""

    def __init__(self, asked: PermissionRequest, request: Request) -> None:
        self._session = asked.session
        self._call_id = asked.call.tool_call_id
        self._kind = request.kind
        self._places = {place.real for path in request.paths if (place := request.bounds.place(path))}
        self._command = command_in(asked)
        self._where = _where(request)

    @property
    def lasts(self) -> bool:
        """Whether its tool call is not over yet."""
        call = self._session.state.tool_calls.get(self._call_id)
        return call is None or call.open

    def covers(self, session: ClientSession, wanted: Request) -> bool:
        """Whether this was part of what was agreed to."""
        if session is not self._session or not self.lasts:
            return False
        if wanted.kind == "read":
            return self._names(wanted) or (self._kind in READING and not self._places)
        if wanted.kind == "execute":
            return self._kind == "execute" and self._runs(wanted)
        return self._kind in _CHANGING and self._names(wanted)

    def _names(self, wanted: Request) -> bool:
        places = [wanted.bounds.place(path) for path in wanted.paths]
        return bool(places) and all(place is not None and place.real in self._places for place in places)

    def _runs(self, wanted: Request) -> bool:
        if self._command is None or wanted.command is None or _where(wanted) != self._where:
            return False
        return bool(_lines(self._command) & _lines(wanted.command))


def _where(request: Request) -> Place | None:
    return request.bounds.place(request.cwd or request.bounds.cwd)


def _lines(command: str | tuple[str, ...]) -> set[str]:
    """The shell lines that mean exactly this: agents ask for a line and run it in a shell, or the other way round."""
    if isinstance(command, str):
        return {command}
    if len(command) == 3 and command[0].rpartition("/")[2] in _SHELLS and command[1] in _RUN:
        return {command[2], shlex.join(command)}
    return {shlex.join(command)}
