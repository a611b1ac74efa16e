"""The connected client: its capabilities, and the calls to it that need no turn.

Loaded before `initialize` is answered: keep heavy imports out.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Hashable, Mapping
from logging import Logger, getLogger
from os import PathLike
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final

from accord.clock import Clock, OwnedTasks
from accord.errors import ConnectionClosed, MethodNotFound, NotOffered, UsageError
from accord.schema.client_requests import ReadTextFileRequest, WriteTextFileRequest
from accord.schema.codec import DECODE_ERRORS, check_type, parse_json
from accord.schema.initialize import ClientCapabilities, Implementation
from accord.schema.message_reader import MessageReader
from accord.schema.methods import check_extension_name, request
from accord.schema.updates import SessionNotification, SessionUpdate
from accord.wire.connection import Connection

if TYPE_CHECKING:
    from accord.agent.agent_session import AgentSession
    from accord.wire.translation import TranslatingTransport


LOG: Final[Logger] = getLogger("accord.agent")


class Client:
    """The client of one connection."""

    def __init__(self, peer: "ClientPeer") -> None:
        self._peer = peer

    @property
    def info(self) -> Implementation | None:
        """The name and version of the client, if known."""
        return self._peer.info

    @property
    def capabilities(self) -> ClientCapabilities:
        """The capabilities from `initialize`."""
        return self._peer.capabilities

    @property
    def can_read_files(self) -> bool:
        """Whether `read_text_file` works."""
        return bool(fs := self.capabilities.fs) and fs.read_text_file is True

    @property
    def can_write_files(self) -> bool:
        """Whether `write_text_file` works."""
        return bool(fs := self.capabilities.fs) and fs.write_text_file is True

    @property
    def can_run_terminals(self) -> bool:
        """Whether `terminal` and `run` work."""
        return self.capabilities.terminal is True

    @property
    def can_show_forms(self) -> bool:
        """Whether `elicit` works."""
        return bool((elicitation := self.capabilities.elicitation) and elicitation.form)

    @property
    def can_open_urls(self) -> bool:
        """Whether `elicit_url` works."""
        return bool((elicitation := self.capabilities.elicitation) and elicitation.url)

    @property
    def can_sign_in_by_terminal(self) -> bool:
        """Whether the client can run this program in a terminal, for the user to sign in there."""
        auth = self.capabilities.auth
        if auth and auth.terminal is True:
            return True
        # The form from before the capability existed; the agent registry still uses it.
        meta = self.capabilities.meta
        return not self._peer.reader.strict and bool(meta) and meta.get("terminal-auth") is True

    @property
    def takes_boolean_options(self) -> bool:
        """Whether the client supports boolean config options."""
        session = self.capabilities.session
        return bool(session and session.config_options and session.config_options.boolean)

    @property
    def shows_notices(self) -> bool:
        """Whether the client shows notices."""
        return bool((session := self.capabilities.session) and session.notices)

    @property
    def shows_compaction(self) -> bool:
        """Whether the client shows compactions of the context."""
        return bool((session := self.capabilities.session) and session.compaction)

    @property
    def shows_agent_terminals(self) -> bool:
        """Whether the client shows terminals of the agent. Only version 2 has them."""
        return self._peer.takes_events

    @property
    def shows_several_plans(self) -> bool:
        """Unstable. Whether the client shows several plans."""
        return bool(self.capabilities.plan)

    @property
    def shows_subagents(self) -> bool:
        """Unstable. Whether the client shows child sessions."""
        return bool(self.capabilities.subagents)

    @property
    def unsupported_methods(self) -> set[str]:
        """Extension methods that the client answered with "method not found". You may add to it."""
        return self._peer.unsupported_methods

    async def request(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """Call an extension method (`_vendor/name`) and return its result as plain JSON."""
        check_extension_name(method)
        try:
            return await self._peer.connection.request(
                method, params or {}, key=None, read=parse_json, translated=False
            )
        except MethodNotFound:
            self._peer.unsupported_methods.add(method)
            raise

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send an extension notification (`_vendor/name`); raise ConnectionClosed once the client is gone."""
        check_extension_name(method)
        if self._peer.hand_over(self.notify, method, params):
            return
        self._peer.connection.notify(method, params or {})
        self._peer.connection.check_open()


class SessionClient(Client):
    """The client of one session: paths are resolved against the session's directory."""

    def __init__(self, peer: "ClientPeer", session: "AgentSession") -> None:
        super().__init__(peer)
        self._session = session

    async def read_text_file(
        self, path: "str | PathLike[str]", *, line: int | None = None, limit: int | None = None
    ) -> str:
        """Read a file with the user's unsaved changes: `limit` lines from `line` on (the first is 1)."""
        self._peer.require(self.can_read_files, "fs/read_text_file")
        session = self._session
        params = ReadTextFileRequest(session.id, session.path(path))
        if line is not None:
            params.line = _at_least(1, line, "line")
        if limit is not None:
            params.limit = _at_least(0, limit, "limit")
        is_plain = line is None and limit is None  # such a path is a string, which needs no check
        response = await self._peer.call("fs/read_text_file", params, key=session.id, valid=is_plain)
        return response.content

    async def write_text_file(self, path: "str | PathLike[str]", content: str) -> None:
        """Write a file; creates it if it does not exist."""
        self._peer.require(self.can_write_files, "fs/write_text_file")
        session = self._session
        params = WriteTextFileRequest(session.id, session.path(path), content)
        await self._peer.call("fs/write_text_file", params, key=session.id)


class ClientPeer:
    """The connection to one client, shared by the classes of this package, and the tasks that it owns."""

    def __init__(self, reader: MessageReader, clock: Clock, cancel_grace: float) -> None:
        self.capabilities: ClientCapabilities = ClientCapabilities()
        """Empty until `initialize`."""
        self.info: Implementation | None = None
        self.reader: MessageReader = reader
        self.clock: Clock = clock
        self.cancel_grace: float = cancel_grace
        """Seconds that canceled code may take to end."""
        self.connection: Connection
        self.translation: TranslatingTransport | None = None
        """What translates between the protocol versions, if the agent speaks several."""
        self.elicitations: set[str] = set()
        """Ids of the pages that the client was asked to open and that are not completed."""
        self.unsupported_methods: set[str] = set()
        """Extension methods that the client answered with "method not found"."""
        self.mcp_listeners: dict[tuple[str, str], Callable[[str, Mapping[str, Any]], object]] = {}
        """Listeners for the progress of running MCP requests, by server id and request id."""
        self.tasks: OwnedTasks = OwnedTasks(clock, cancel_grace, self._task_failed)
        """The tasks that end with the connection at the latest."""
        self._result_readers: dict[str, Callable[[Any], Any]] = {}
        self._loop = asyncio.get_running_loop()
        self._thread = get_ident()

    @property
    def in_other_thread(self) -> bool:
        """Whether this is not the thread of the event loop."""
        return get_ident() != self._thread

    def hand_over(self, function: Callable[..., object], *args: Any) -> bool:
        """From another thread, let the event loop call a function, and return True.

        Calls keep their order. Raises ConnectionClosed once the client is gone. On the thread of the event
        loop, it does nothing and returns False.
        """
        if not self.in_other_thread:
            return False
        self.connection.check_open()
        try:
            self._loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            raise ConnectionClosed("the agent has stopped") from None
        return True

    def send_update(self, session_id: str, update: SessionUpdate) -> None:
        self.connection.notify("session/update", SessionNotification(session_id, update))

    @property
    def takes_events(self) -> bool:
        """Whether the client is told more than version 1 can say."""
        return self.translation is not None and self.translation.takes_events

    def report_event(self, session_id: str, event: str, members: Mapping[str, Any]) -> None:
        """Tell the translation of another protocol version what a client in version 1 is not told."""
        if self.takes_events:
            update = {"sessionUpdate": f"_accord/{event}", **members}
            self.connection.notify("session/update", {"sessionId": session_id, "update": update})

    def call(
        self, method: str, params: Any, *, key: Hashable, read: Any = None, valid: bool = False
    ) -> Coroutine[Any, Any, Any]:
        """Call a method of the client. Without a reader, the result has the type of the method table.

        `valid` parameters need no check.
        """
        if not valid:
            check_valid(params)
        read = read or self._result_readers.get(method)
        if read is None:
            known = request("client", method)
            assert known is not None, f"{method} is not a method of a client"
            read = self._result_readers[method] = self.reader.result_reader(known)
        if (telemetry := sys.modules.get("accord.telemetry")) and (trace := telemetry.injected()):
            params.meta = {**(params.meta or {}), **trace}  # agents without telemetry do not load it
        return self.connection.request(method, params, key=key, read=read)

    def require(self, offered: bool, what: str) -> None:
        """Raise NotOffered unless the client offers a capability."""
        if not offered:
            name = self.info.name if self.info else "the client"
            raise NotOffered(f"{name} does not offer {what}; check `client` before you use it")

    def _task_failed(self, error: BaseException) -> None:
        if self.connection.end is None or not isinstance(error, ConnectionClosed):
            LOG.error("a task of the agent failed", exc_info=error)


def check_valid(message: object) -> None:
    """Raise UsageError for a message that breaks the schema, such as a number in the place of a text."""
    try:
        check_type(message)
    except (TypeError, *DECODE_ERRORS) as error:
        from accord.schema.validation import explain_message_error  # imported on first use

        raise UsageError(explain_message_error(message, error)) from None


def run_callback(callback: Callable[[], object]) -> None:
    """Call a function of the application; log what it raises."""
    try:
        callback()
    except Exception:
        LOG.exception("%s failed", getattr(callback, "__qualname__", callback))


def _at_least(minimum: int, number: int, name: str) -> int:
    if number < minimum:
        raise UsageError(f"{name}={number} is too small; the minimum is {minimum}")
    return number
