"""One client of an agent, from the first byte to the end: what it is told, what it asks, and how it is let go."""

import asyncio
from collections.abc import Callable, Generator, Mapping
from logging import DEBUG, WARNING
from typing import TYPE_CHECKING, Any, Final

from accord.schema.auth import AuthAccount
from accord.schema.initialize import InitializeResponse
from accord.schema.reader import Reader
from accord.wire.connection import Connection
from accord.wire.routes import Report
from accord.wire.transport import End, Transport

from .client import Client
from .handshake import Handshake
from .options import AgentOptions
from .peer import LOG, Peer
from .routes import Requests, notification_routes, refusing, request_routes
from .service import Service
from .session import AgentSession

if TYPE_CHECKING:
    from .app import Agent

_LEVELS: Final = {"unmatched": DEBUG, "unknown": DEBUG, "failed": DEBUG}
"""How loudly a report is logged. A failed handler has been logged with its traceback where it failed."""


class AgentConnection:
    """A connection of an `Agent`. `await` it to wait for its end."""

    def __init__(self, agent: "Agent", transport: Transport, options: AgentOptions) -> None:
        self._reader = Reader(strict=options.strict, report=options.on_dialect or _log_dialect)
        self._peer = peer = Peer(self._reader, options.clock, options.cancel_grace)
        self.client = Client(peer)
        self._service = service = Service(agent, self, peer)
        self._handshake = handshake = Handshake(agent, peer, self.client, service)
        notifications = notification_routes(agent.handlers, self, service, self._reader)
        requests = request_routes(agent.handlers, handshake, service, self._reader, notifications)
        if options.refused_members:
            requests = refusing(options.refused_members, requests)
        peer.connection = self._wire = Connection(
            transport,
            requests=Requests(requests, handshake),
            notifications=notifications,
            strict=options.strict,
            limits=options.limits,
            observer=options.observer or _log,
            on_end=lambda end: service.client_gone(),
            clock=options.clock,
        )
        self._wire.start()
        self._life: asyncio.Task[End] = asyncio.get_running_loop().create_task(self._see_off())

    @property
    def sessions(self) -> Mapping[str, AgentSession]:
        """The open sessions, by id."""
        return self._service.sessions

    def describe(self) -> InitializeResponse:
        """What `initialize` answers to this client; for handlers that take it over and add to it."""
        return self._handshake.answer()

    def report_auth_status(self, state: str, accounts: list[AuthAccount] | None = None) -> None:
        """Unstable. Tell the client that the answer of `auth/status` changed; the same is not told twice."""
        self._handshake.report_auth_status(state, accounts)

    def when_ended(self, callback: Callable[[], None]) -> None:
        """Run something once it has ended and everything is cleaned up."""
        self._life.add_done_callback(lambda _: callback())

    async def wait_ended(self) -> End:
        """Wait until the client is gone and everything is cleaned up; says how it ended."""
        return await asyncio.shield(self._life)

    def __await__(self) -> Generator[Any, None, End]:
        return self.wait_ended().__await__()

    async def aclose(self) -> None:
        """End it: turns are cancelled and answered, sessions closed. Bounded; may be called twice."""
        self._service.client_gone()
        await self._wire.aclose()
        await self.wait_ended()

    async def _see_off(self) -> End:
        """Once the client is gone: answer what can still be answered, close the sessions, stop what runs."""
        end = await self._wire.wait_ended()
        await self._wire.finish_calls()
        await self._service.end_all()
        await self._peer.stop()
        await self._wire.aclose()
        return end


def _log(report: Report) -> None:
    LOG.log(_LEVELS.get(report.kind, WARNING), "%s: %s", report.kind, report.detail)


def _log_dialect(row: int, text: str) -> None:
    LOG.info("the client speaks a dialect, %s", text)
