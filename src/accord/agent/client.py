"""The connected client: its capabilities, and the calls to it that need no turn.

Loaded before `initialize` is answered: keep heavy imports out.
"""

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Mapping
from logging import getLogger
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import UNSET, Raw

from accord.clock import Clock, within
from accord.errors import MethodNotFound, NotOffered, UsageError
from accord.schema.client_requests import ReadTextFileRequest, WriteTextFileRequest
from accord.schema.codec import parse_json
from accord.schema.initialize import ClientCapabilities, Implementation
from accord.schema.message_reader import MessageReader
from accord.schema.methods import request
from accord.schema.updates import SessionNotification, SessionUpdate
from accord.wire.connection import Connection

if TYPE_CHECKING:
    from accord.agent.agent_session import AgentSession


# MERGED agent.peer: The other end of one connection, as the parts of this room share it: what it can do, and the wire to it.

T = TypeVar("T")

LOG = getLogger("accord.agent")


def run_quietly(callback: Callable[[], object]) -> None:
    """Run a function of the application that nobody waits for; what it raises is logged."""
    try:
        callback()
    except Exception:
        LOG.exception("%s failed", getattr(callback, "__qualname__", callback))


class ClientPeer:
    """One client. Its capabilities are those of its `initialize`; before that it has none."""

    def __init__(self, reader: MessageReader, clock: Clock, grace: float) -> None:
        self.capabilities = ClientCapabilities()
        self.info: Implementation | None = None
        self.reader = reader
        self.clock = clock
        self.grace = grace
        """Seconds that code is given to come to its end once it was cancelled."""
        self.connection: Connection
        self.elicitations: set[str] = set()
        """Ids of the addresses that this client was asked to open and that have not been completed."""
        self.refused: set[str] = set()
        """Extension methods that this client has shown not to serve."""
        self.mcp_news: dict[tuple[str, str], Callable[[str, Mapping[str, Any]], object]] = {}
        """Who hears about running MCP requests, by server and request."""
        self._tasks: set[asyncio.Task[Any]] = set()

    def update(self, session_id: str, update: SessionUpdate) -> None:
        """Queue one update of a session."""
        self.connection.notify("session/update", SessionNotification(session_id, update))

    async def call(self, method: str, params: Any, *, key: Hashable | None) -> Any:
        """Call a method of the client and return its result in the type that the method table names."""
        known = request("client", method)
        assert known is not None, f"{method} is no method of a client"
        return await self.connection.request(method, params, key=key, read=self.reader.result_reader(known))

    async def ask(self, method: str, params: Any, *, key: Hashable | None, read: Callable[[Raw], T]) -> T:
        """Call a method of the client whose result is read in a way of its own."""
        return await self.connection.request(method, params, key=key, read=read)

    def need(self, offered: bool, what: str) -> None:
        """Refuse a call that the client did not offer."""
        if not offered:
            name = self.info.name if self.info else "the client"
            raise NotOffered(f"{name} does not offer {what}; ask `client` what it can do before you use it")

    def own(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Run something that outlives its caller, until the connection ends."""
        task = asyncio.get_running_loop().create_task(work)
        self.adopt(task)
        return task

    def adopt(self, task: "asyncio.Task[Any]") -> None:
        """Take over a task that nobody waits for any more."""
        self._tasks.add(task)
        task.add_done_callback(self._left)

    def _left(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            LOG.error("a task of the agent failed", exc_info=error)

    async def stop(self) -> None:
        """End what is still running; bounded."""
        if self._tasks:
            for task in self._tasks:
                task.cancel()
            await within(self.clock, self.grace, asyncio.gather(*self._tasks, return_exceptions=True))


# MERGED agent.client: The client as an application sees it: who it is, what it can do, and the calls to it that need no turn.


class Client:
    """The client of one connection."""

    def __init__(self, peer: ClientPeer) -> None:
        self._peer = peer

    @property
    def info(self) -> Implementation | None:
        """Its name and version, if it gave them."""
        return self._peer.info

    @property
    def capabilities(self) -> ClientCapabilities:
        """What its `initialize` said."""
        return self._peer.capabilities

    @property
    def can_read_files(self) -> bool:
        """`read_text_file` works."""
        fs = self.capabilities.fs
        return bool(fs) and fs.read_text_file is True

    @property
    def can_write_files(self) -> bool:
        """`write_text_file` works."""
        fs = self.capabilities.fs
        return bool(fs) and fs.write_text_file is True

    @property
    def can_run_terminals(self) -> bool:
        """`terminal` and `run` work."""
        return self.capabilities.terminal is True

    @property
    def can_show_forms(self) -> bool:
        """`elicit` works."""
        return bool((asking := self.capabilities.elicitation) and asking.form)

    @property
    def can_open_urls(self) -> bool:
        """`elicit_url` works."""
        return bool((asking := self.capabilities.elicitation) and asking.url)

    @property
    def can_sign_in_by_terminal(self) -> bool:
        """It can run this program in a terminal so that the user signs in there."""
        auth = self.capabilities.auth
        if auth and auth.terminal is True:
            return True
        # How clients said so before there was a capability for it, and how the agent registry still does.
        meta = self.capabilities.meta
        return not self._peer.reader.strict and bool(meta) and meta.get("terminal-auth") is True

    @property
    def takes_boolean_options(self) -> bool:
        """Config options may be on or off, not only a choice."""
        session = self.capabilities.session
        return bool(session and session.config_options and session.config_options.boolean)

    @property
    def shows_notices(self) -> bool:
        """Notices are shown as such."""
        return bool((session := self.capabilities.session) and session.notices)

    @property
    def shows_compaction(self) -> bool:
        """The compaction of the context is shown."""
        return bool((session := self.capabilities.session) and session.compaction)

    @property
    def shows_plans(self) -> bool:
        """Unstable. Several plans are shown side by side."""
        return bool(self.capabilities.plan)

    @property
    def shows_subagents(self) -> bool:
        """Unstable. Child sessions are shown."""
        return bool(self.capabilities.subagents)

    @property
    def refused(self) -> set[str]:
        """Extension methods that it has answered as unknown since it connected; add those you will not try again."""
        return self._peer.refused

    async def request(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """Call an extension method (`_vendor/name`) and return its result as plain JSON."""
        try:
            return await self._peer.ask(_extension(method), params or {}, key=None, read=_plain)
        except MethodNotFound:
            self._peer.refused.add(method)
            raise

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send an extension notification (`_vendor/name`)."""
        self._peer.connection.notify(_extension(method), params or {})


class SessionClient(Client):
    """The client of one session: paths are resolved against the session's directory."""

    def __init__(self, peer: ClientPeer, session: "AgentSession") -> None:
        super().__init__(peer)
        self._session = session

    async def read_text_file(self, path: str, *, line: int | None = None, limit: int | None = None) -> str:
        """Read a file as the user sees it, unsaved changes included; from a line (the first is 1), so many lines."""
        self._peer.need(self.can_read_files, "fs/read_text_file")
        session = self._session
        params = ReadTextFileRequest(
            session.id,
            session.path(path),
            UNSET if line is None else _at_least(1, line, "line"),
            UNSET if limit is None else _at_least(0, limit, "limit"),
        )
        answer = await self._peer.call("fs/read_text_file", params, key=session.id)
        return answer.content

    async def write_text_file(self, path: str, content: str) -> None:
        """Replace a file's text, creating the file if need be."""
        self._peer.need(self.can_write_files, "fs/write_text_file")
        session = self._session
        params = WriteTextFileRequest(session.id, session.path(path), content)
        await self._peer.call("fs/write_text_file", params, key=session.id)


def _plain(raw: Raw) -> Any:
    return parse_json(raw)


def _extension(method: str) -> str:
    if not method.startswith("_"):
        raise UsageError(
            f"{method!r} cannot be sent: methods of your own begin with an underscore, such as `_vendor/name`"
        )
    return method


def _at_least(least: int, number: int, what: str) -> int:
    if number < least:
        raise UsageError(f"{what}={number} makes no sense: the least is {least}")
    return number
