"""Servers that are programs: started in a tree of their own, without the agent's credentials, ended whole."""

import logging
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from accord.coder.mcp.cleaning import clean_line
from accord.coder.mcp.live.streams import ProcessStreams
from accord.coder.mcp.terms import Terms
from accord.policy.sandbox.environment import without_credentials
from accord.schema.mcp import McpServerStdio
from accord.wire.children import Patience
from accord.wire.process import spawn
from accord.wire.transport import End

_LOG: Final = logging.getLogger("accord.coder.mcp")
_SHOWN: Final = 500
_LAST_WORDS: Final = 200


@asynccontextmanager
async def stdio_streams(server: McpServerStdio, terms: Terms) -> AsyncGenerator[tuple[Any, Any], None]:
    """The streams to a program, which runs as long. Raises NeverStarted."""
    limits = terms.limits
    transport = await spawn(
        (server.command, *server.args),
        cwd=terms.cwd,
        env=_environment(server, terms.environment),
        name="it",
        on_stderr=_Errors(terms),
        limit=limits.message_bytes,
        patience=Patience(limits.leave_seconds, limits.leave_seconds),
        clock=terms.clock,
    )

    def ended(end: End) -> None:
        said = terms.secrets.masked(end.stderr).strip().rpartition("\n")[2]
        last = clean_line(said, _LAST_WORDS)
        terms.lost(f"{end.reason}; its last words: {last}" if last else end.reason)

    streams = ProcessStreams(transport, ended)
    try:
        yield streams.inbox, streams
    finally:
        await transport.aclose()


def _environment(server: McpServerStdio, ours: Mapping[str, str] | None) -> dict[str, str | None]:
    """What differs from our own environment: no credentials, and what the client gave, whatever that is."""
    passing = without_credentials(os.environ if ours is None else ours)
    withheld: dict[str, str | None] = dict.fromkeys(os.environ.keys() - passing.keys())
    return withheld | passing | {variable.name: variable.value for variable in server.env}


class _Errors:
    """Takes the stderr of a server into the log, as much as there is room for."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._left = terms.limits.log_lines

    def __call__(self, line: str) -> None:
        if self._left > 0:
            self._left -= 1
            shown = clean_line(self._terms.secrets.masked(line), _SHOWN)
            _LOG.info("%s, stderr: %s", self._terms.name, shown)
            if not self._left:
                _LOG.info("%s, stderr: no more of it is logged", self._terms.name)
