"""Handles what agents send: updates to log and clients, requests, file and terminal calls, exit."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from logging import getLogger
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from msgspec import Raw

from accord.client import agent_requests
from accord.client.client_events import TerminalPrinted, TerminalViews
from accord.errors import InvalidParams, MethodNotFound, NotFound, RpcError, to_rpc_error
from accord.gateway.access.resource_limits import LimitLease
from accord.gateway.client_connection import PACE, OutgoingFrame
from accord.gateway.gateway_client import GATED, GatewayClient
from accord.gateway.hosted_agent import HostedAgent
from accord.gateway.live_sessions import LiveSession
from accord.gateway.upstream import CANCEL_REQUEST, Upstream, plain
from accord.schema import (
    AgentMessageChunk,
    AgentThoughtChunk,
    ConfigOptionUpdate,
    ElicitationFormMode,
    ElicitationUrlMode,
    SessionNotification,
    SessionUpdate,
)
from accord.schema.codec import encode
from accord.schema.methods import Alias, notification, request
from accord.session import turn_failed
from accord.session.protocol_v1 import updates_of
from accord.wire.envelope import RequestId
from accord.wire.transport import TransportEnd
from accord.workspace.roots import Roots
from accord.workspace.terminals import Terminals
from accord.workspace.workspace import LocalWorkspace

if TYPE_CHECKING:
    from accord.gateway.gateway import Gateway


# MERGED gateway.workplace: Files and terminals of a session, on the gateway's machine: what an agent asks of its client, `fs/*` and `terminal/*`.

Serve: TypeAlias = Callable[["GatewayWorkspace", Any], Awaitable[Any]]

SERVED: Final[dict[str, Serve]] = {
    "fs/read_text_file": agent_requests.read_text_file,
    "fs/write_text_file": agent_requests.write_text_file,
    "terminal/create": agent_requests.create_terminal,
    "terminal/output": agent_requests.terminal_output,
    "terminal/wait_for_exit": agent_requests.wait_for_exit,
    "terminal/kill": agent_requests.kill_terminal,
    "terminal/release": agent_requests.release_terminal,
}
"""What the gateway does itself, by method."""


class GatewayWorkspace:
    """The folders of one session; what was started in it ends with it."""

    def __init__(self, folders: tuple[str, ...], printed: Callable[[TerminalPrinted], None]) -> None:
        self.folders = folders
        self.terminals = TerminalViews(printed)
        self._roots = Roots(folders[0], folders[1:])
        self._made: LocalWorkspace | None = None
        self._jobs: set[asyncio.Task[Any]] = set()

    @property
    def workspace(self) -> "GatewayWorkspace":
        """Itself: it lends what it makes."""
        return self

    def use(self) -> LocalWorkspace:
        """Files and terminals, made when they are first needed."""
        if self._made is None:
            self._made = LocalWorkspace(
                self._roots, terminals=Terminals(self._roots, on_output=self.terminals.printed)
            )
        return self._made

    def run(self, work: Awaitable[None]) -> None:
        """Serve a request; it ends, at the latest, with this workplace."""
        job = asyncio.ensure_future(work)
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)

    async def aclose(self) -> None:
        """End everything that was started here."""
        for job in tuple(self._jobs):
            job.cancel()
        if self._jobs:
            await asyncio.wait(self._jobs)
        made, self._made = self._made, None
        if made is not None:
            await made.aclose()


# MERGED gateway.hearing: What agents say: updates into the log and to everybody attached, requests to whoever serves them, and their end.

LOG = getLogger("accord.gateway")

_ORPHANS_MOST: Final = 256
_ORPHANS_BYTES: Final = 4 << 20
_PUBLIC: Final = ("elicitation/complete",)
"""Notifications that name no session, and tell nothing to who was not asked."""
_LONGEST_NAME: Final = 100
_ENDING: Final = ("terminal/output", "terminal/wait_for_exit", "terminal/kill", "terminal/release")
_PLAIN: Final = frozenset({AgentMessageChunk, AgentThoughtChunk})
"""Updates that everybody gets, and that change nothing but the conversation."""
_CHOSEN: Final = GATED | {ConfigOptionUpdate}
"""Updates that not every client gets, or not all of them."""


class AgentEvents:
    """The gateway's ears, for all agents."""

    def __init__(self, gateway: "Gateway") -> None:
        self._gateway = gateway
        self._orphans: dict[str, list[tuple[SessionNotification, bytes]]] = {}
        self._latest: LiveSession | None = (
            None  # updates come in bursts: most are of the same session as the one before
        )

    def batch_over(self) -> None:
        """All of one read has been heard: log it, then send it."""
        self._latest = None
        self._gateway.flush()

    def update(self, agent: HostedAgent, notification: SessionNotification, frame: bytes) -> None:
        """An update: into the log, and to everybody attached. The end of the batch sends it."""
        session = self._latest
        if session is None or session.id != notification.session_id or session.agent is not agent:
            session = self._gateway.sessions.find(agent.name, notification.session_id)
            if session is None:
                self._orphan(agent, notification, frame)
                return
            self._latest = session
        if session.silent:
            return
        out = OutgoingFrame(frame)
        if type(notification.update) in _PLAIN and session.loading is None:  # most of all updates, by far
            session.log.note(cast(SessionUpdate, notification.update))
            if session.visitors:
                self._gateway.later(session.visitors, out, session.id)
            return
        if session.heard(notification, out) and session.loader is None:
            return
        visitors: Sequence[GatewayClient] = session.visitors
        if session.loader is not None:
            if session.held is None and session.loading and session.loader.line.unsent > PACE:
                session.held = len(session.loading) - 1
            if session.held is not None:
                return
            visitors = (session.loader,)
        kind = type(notification.update)
        if kind in _CHOSEN:
            if kind is ConfigOptionUpdate:
                self._options(session, cast(ConfigOptionUpdate, notification.update), out, visitors)
                return
            visitors = tuple(visitor for visitor in visitors if visitor.shows(notification.update))
        if visitors:
            self._gateway.later(visitors, out, session.id)

    def _options(
        self,
        session: LiveSession,
        update: ConfigOptionUpdate,
        out: OutgoingFrame,
        visitors: Sequence[GatewayClient],
    ) -> None:
        """Not every client knows every kind of option."""
        for visitor in visitors:
            told = visitor.fitting(update)
            if told is update:
                self._gateway.post((visitor,), out, session.id)
            else:
                self._gateway.tell(session, told, (visitor,))

    def _orphan(self, agent: HostedAgent, notification: SessionNotification, frame: bytes) -> None:
        """Some agents speak of a session before they have named it: kept while they are about to name one."""
        kept = self._orphans.setdefault(agent.name, [])
        upstream = agent.upstream
        if upstream is None or not upstream.naming:
            kept.clear()
        elif len(kept) < _ORPHANS_MOST and sum(len(known) for _, known in kept) < _ORPHANS_BYTES:
            kept.append((notification, frame))

    def adopt(self, agent: HostedAgent, session: LiveSession) -> None:
        """A session got its name: what was said of it before is heard now."""
        kept = self._orphans.pop(agent.name, [])
        for said, frame in kept:
            if said.session_id == session.id:
                self.update(agent, said, frame)
            else:
                self._orphan(agent, said, frame)

    def requested(
        self, agent: HostedAgent, id: RequestId, method: str, params: Raw | None, alias: Alias | None
    ) -> None:
        """A request of an agent: files and terminals are served here, all else by whoever is attached."""
        upstream = agent.upstream
        if upstream is None:
            return
        try:
            entry = request("client", method)
            if entry is None and not method.startswith("_"):
                raise MethodNotFound(data={"method": method})
            body, value = plain(params) if entry is None else upstream.official.params(entry, params, alias)
            if method in SERVED:
                self._serve(agent, upstream, id, method, value)
            else:
                self._ask(agent, upstream, id, method, body, value)
        except RpcError as error:
            upstream.refuse(id, error)

    def _serve(self, agent: HostedAgent, upstream: Upstream, id: RequestId, method: str, value: Any) -> None:
        session = self._session(agent, value.session_id)
        place = session.workplace
        if place is None or place.folders != session.folders:
            if place is not None:
                self._gateway.own(place.aclose())

            def printed(event: TerminalPrinted) -> None:
                self._printed(session, event)

            place = session.workplace = GatewayWorkspace(session.folders, printed)

        async def work() -> None:
            try:
                result = encode(await SERVED[method](place, value))
            except Exception as error:  # noqa: BLE001 - the boundary of a request: whatever it was, it is answered
                upstream.refuse(id, to_rpc_error(error))
            else:
                upstream.answer(id, result)
                if method in _ENDING:
                    self._terminal_ended(session, value.terminal_id)

        place.run(work())

    def _terminal_ended(self, session: LiveSession, terminal_id: str) -> None:
        """Clients that cannot look at the gateway's terminals are told what was printed."""
        plain = [visitor for visitor in session.visitors if not visitor.announced.get("terminal")]
        told = session.terminal_ended(terminal_id)
        if plain and told is not None:
            self._gateway.tell(session, told, plain)

    def _ask(
        self, agent: HostedAgent, upstream: Upstream, id: RequestId, method: str, body: bytes, value: Any
    ) -> None:
        if isinstance(value, ElicitationFormMode | ElicitationUrlMode) and not value.session_id:
            for visitor in self._gateway.visitors:
                own = visitor.client_id(upstream, value.request_id)
                if own is not None:
                    value.request_id = own
                    self._gateway.asks.put(None, upstream, id, method, encode(value), value, [visitor])
                    return
            raise InvalidParams("the request that this question belongs to is not open")
        named = _members(value).get("sessionId") or getattr(value, "session_id", None)
        if not isinstance(named, str):
            raise MethodNotFound(data={"method": method})
        session = self._session(agent, named)
        self._gateway.asks.put(session, upstream, id, method, body, value, list(session.visitors))
        self._gateway.overview.changed(session)

    def notified(self, agent: HostedAgent, method: str, params: Raw | None, frame: bytes) -> None:
        """Any other notification: to those it concerns."""
        try:
            value = plain(params).value
        except RpcError:
            return
        facts = _members(value)
        upstream = agent.upstream
        if method == CANCEL_REQUEST:
            asked = facts.get("requestId")
            if upstream is not None and isinstance(asked, int | str):
                self._gateway.asks.withdraw(asked, upstream)
            return
        entry = notification("client", method)
        if upstream is None:
            return
        if entry is None and not method.startswith("_"):
            LOG.info("agent %s sent an unknown notification: %s", agent.name, method[:_LONGEST_NAME])
            return
        if entry is not None:
            try:
                body = upstream.official.params(entry, params).body
            except RpcError as error:
                agent.odd(f"{method}: {error}")
                return
            if params is None or body != bytes(params):
                frame = b'{"jsonrpc":"2.0","method":%s,"params":%s}' % (encode(method), body)
        named = facts.get("sessionId")
        session = self._gateway.sessions.find(agent.name, named) if isinstance(named, str) else None
        if session is not None:
            self._gateway.post(session.visitors, OutgoingFrame(frame), session.id)
        elif named is None:
            # It may concern any of them: only for who may see them all.
            folders = {folder for one in self._gateway.sessions.of(agent) for folder in one.folders}
            here = tuple(
                visitor
                for visitor in self._gateway.visitors
                if visitor.agent is agent
                and visitor.capabilities
                and (method in _PUBLIC or visitor.visa.covers(agent.name, folders))
            )
            self._gateway.post(here, OutgoingFrame(frame), None)

    def process(self, agent: HostedAgent) -> LimitLease:
        """A program is about to be started. Raises LimitReached."""
        meter, metrics = self._gateway.meter, self._gateway.metrics
        lease = meter.process(agent.name)
        metrics.processes = meter.processes

        def ended() -> None:
            lease.release()
            metrics.processes = meter.processes

        return LimitLease(ended)

    def agent_ended(self, agent: HostedAgent, end: TransportEnd) -> None:
        """Its sessions are no longer live, and nobody waits for it any more. The prompts were answered before this."""
        for session in self._gateway.sessions.of(agent):
            session.live = False
            session.uncount()
            session.silent, session.loading, session.loader, session.held = False, None, None, None
            while session.turns:
                session.end_turn(turn_failed(RpcError(end.reason)))
            for event in session.log.close_open():
                for update in updates_of(event):
                    self._gateway.tell(session, cast(SessionUpdate, update), session.visitors)
            for ask in tuple(session.asks.values()):
                self._gateway.asks.lost(ask.upstream, "the agent ended")
            if session.workplace is not None:
                self._gateway.own(session.workplace.aclose())
                session.workplace = None
            self._gateway.overview.changed(session)
        self._orphans.pop(agent.name, None)
        self._gateway.flush()

    def _session(self, agent: HostedAgent, session_id: str) -> LiveSession:
        session = self._gateway.sessions.find(agent.name, session_id)
        if session is None:
            raise NotFound("There is no such session", {"sessionId": session_id})
        return session

    def _printed(self, session: LiveSession, event: TerminalPrinted) -> None:
        knowing = tuple(visitor for visitor in session.visitors if visitor.announced.get("terminal"))
        if knowing:
            facts = {"sessionId": session.id, "terminalId": event.terminal_id, "data": event.text}
            body = b'{"jsonrpc":"2.0","method":"_accord/terminal","params":%s}' % encode(facts)
            self._gateway.post(knowing, OutgoingFrame(body), session.id)


def _members(value: Any) -> dict[str, Any]:
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}
