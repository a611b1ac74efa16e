"""`Agent`: collects handlers and options, serves clients on any transport, one `AgentConnection` each.

Loaded before `initialize` is answered: keep heavy imports out.
"""

import asyncio
import gc
import signal
import sys
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from logging import DEBUG, WARNING
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import UNSET, Struct, field
from msgspec.structs import replace

from accord.agent.agent_session import AgentSession
from accord.agent.builtin_methods import BuiltinMethods, InitializeMethods
from accord.agent.capabilities import AgentFeatures, check_complete
from accord.agent.client import LOG, Client, ClientPeer
from accord.agent.decorators import (
    AgentHandlers,
    AuthenticateHandler,
    CloseSessionHandler,
    DeleteSessionHandler,
    ForkSessionHandler,
    ListSessionsHandler,
    LoadSessionHandler,
    LogoutHandler,
    NewSessionHandler,
    NotificationFunction,
    PromptHandler,
    ResumeSessionHandler,
    SetConfigOptionHandler,
    SetModeHandler,
)
from accord.agent.routes import RequestRouter, notification_routes, refuse_members, request_routes
from accord.clock import SYSTEM_CLOCK, Clock
from accord.errors import MissingExtra, UsageError
from accord.schema.auth import AuthAccount, AuthMethod, AuthMethodAgent
from accord.schema.content import ContentBlock
from accord.schema.initialize import Implementation, InitializeResponse
from accord.schema.message_reader import MessageReader
from accord.schema.methods import notification, request
from accord.wire.calls import ConnectionLimits, ConnectionObserver, ConnectionReport
from accord.wire.connection import Connection, require_asyncio
from accord.wire.transport import Transport, TransportEnd

if TYPE_CHECKING:
    from accord.agent.method_decorator import MethodDecorator

F = TypeVar("F", bound=Callable[..., Any])

_TERMINAL_HINT = '{}: waiting for an ACP client on stdin. To try the agent: accord run "Hello" -- {}\n'

_LOG_LEVELS: Final[dict[str, int]] = {"unmatched": DEBUG, "unknown": DEBUG, "failed": DEBUG}
"""Levels of connection reports; others are warnings. A failed handler has already logged its traceback."""


class AgentOptions(Struct, frozen=True, kw_only=True):
    """Settings of the connections of an agent."""

    strict: bool = False
    """Accept messages only as the protocol defines them; do not repair known dialects."""
    cancel_grace: float = 5.0
    """Seconds that canceled code may take to end. Then its turn is answered without it."""
    held_prompts: int = 0
    """How many prompts of a session may wait for its running turn. Others are refused with -32600."""
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    """Size limits in bytes, and how long unfinished requests may delay the end of the connection."""
    clock: Clock = SYSTEM_CLOCK
    refused_members: Mapping[str, str] = field(default_factory=dict[str, str])
    """Members that are not allowed at the top of any params (except `_meta`), with the reason.

    A request with such a member gets error -32602.
    """
    observer: ConnectionObserver | None = None
    """Called with each problem that a connection survived, such as a malformed message. Default: log it."""
    on_dialect: Callable[[int, str], None] | None = None
    """Called once per client and dialect with the number and text of the repair. Default: log it."""


class AgentConnection:
    """One client of an `Agent`. `await` it to wait for its end."""

    def __init__(
        self, agent: "Agent", handlers: AgentHandlers, transport: Transport, options: AgentOptions
    ) -> None:
        """Internal: use `Agent.connect`."""
        reader = MessageReader(strict=options.strict, report=options.on_dialect or _log_dialect)
        self._peer = peer = ClientPeer(reader, options.clock, options.cancel_grace)
        self.client: Client = Client(peer)
        self._methods = methods = BuiltinMethods(agent, handlers, self, peer, options.held_prompts)
        self._handshake = handshake = InitializeMethods(agent, handlers, peer, self.client, methods)
        if agent.protocol != (1,):
            from accord.agent.version_choice import versioned

            transport = peer.translation = versioned(transport, agent.protocol, strict=options.strict)
        notifications = notification_routes(handlers, self, methods, reader)
        requests = request_routes(handlers, handshake, methods, reader, notifications)
        if options.refused_members:
            requests = refuse_members(options.refused_members, requests)
        peer.connection = self._connection = Connection(
            transport,
            requests=RequestRouter(requests, handshake),
            notifications=notifications,
            strict=options.strict,
            limits=options.limits,
            observer=options.observer or _log_report,
            on_end=lambda end: methods.cancel_all_turns(),
            clock=options.clock,
        )
        self._connection.start()
        self._task: asyncio.Task[TransportEnd] = asyncio.get_running_loop().create_task(self._run())

    @property
    def sessions(self) -> Mapping[str, AgentSession]:
        """The open sessions, by id."""
        return {session_id: core.session for session_id, core in self._methods.sessions.items()}

    def describe(self) -> InitializeResponse:
        """Return the default response to `initialize`, for handlers that extend it."""
        return self._handshake.response()

    def start_turn(self, session_id: str, prompt: list[ContentBlock]) -> None:
        """Run a turn that no `session/prompt` asks for, after the turns before it.

        No response tells the client its end. If it fails, the client gets a notice.
        """
        from accord.agent.own_turn import start_turn

        start_turn(self._methods, session_id, prompt)

    async def close_session(self, session_id: str) -> None:
        """Cancel and end a session, as `session/close` does. Does nothing if it is not open."""
        await self._methods.close_if_open(session_id)

    def report_auth_status(self, state: str, accounts: list[AuthAccount] | None = None) -> None:
        """Unstable. Tell the client about a new result of `auth/status`; does nothing if it is unchanged."""
        self._handshake.report_auth_status(state, accounts)

    def when_ended(self, callback: Callable[[], None]) -> None:
        """Call a function after the connection has ended and its sessions are closed."""
        self._task.add_done_callback(lambda _: callback())

    async def wait_ended(self) -> TransportEnd:
        """Wait until the connection has ended and its sessions are closed."""
        return await asyncio.shield(self._task)

    def __await__(self) -> Generator[Any, None, TransportEnd]:
        return self.wait_ended().__await__()

    async def aclose(self) -> None:
        """Cancel and answer the turns, close the sessions, end the connection. Bounded and idempotent."""
        self._methods.cancel_all_turns()
        await self._connection.aclose()
        await self.wait_ended()

    async def _run(self) -> TransportEnd:
        end = await self._connection.wait_ended()
        await self._connection.finish_calls()
        await self._methods.end_all_sessions()
        await self._peer.tasks.end()
        await self._connection.aclose()
        return end


def _log_report(report: ConnectionReport) -> None:
    LOG.log(_LOG_LEVELS.get(report.kind, WARNING), "%s: %s", report.kind, report.detail)


def _log_dialect(row: int, text: str) -> None:
    LOG.info("the client speaks a dialect, %s", text)


class Agent:
    """An ACP agent. Register your functions with its decorators, then `serve()`."""

    def __init__(
        self,
        name: str,
        *,
        version: str = "0",
        title: str | None = None,
        accepts: AgentFeatures | None = None,
        auth_methods: Sequence[AuthMethod] = (),
        options: AgentOptions | None = None,
        protocol: Sequence[int] = (1,),
    ) -> None:
        """`name` is for programs, `title` for users. `accepts` declares what the handlers do not show.

        `protocol` lists the protocol versions to serve. Version 2 is a draft, so it is off by default.
        """
        self.info: Implementation = Implementation(name, version, UNSET if title is None else title)
        self.accepts: AgentFeatures = accepts or AgentFeatures()
        self.auth_methods: tuple[AuthMethod, ...] = tuple(auth_methods)
        self.options: AgentOptions = options or AgentOptions()
        self.protocol: tuple[int, ...] = tuple(sorted(set(protocol)))
        """The protocol versions that the agent speaks."""
        if not self.protocol or not set(self.protocol) <= {1, 2}:
            raise UsageError(f"an agent speaks version 1, 2 or both, such as (1, 2), not {protocol!r}")
        self.connections: set[AgentConnection] = set()
        """The open connections."""
        self._handlers = AgentHandlers()
        ids = [method.id for method in auth_methods]
        if len(set(ids)) != len(ids):
            raise UsageError(f"two auth methods share an id: {', '.join(ids)}")

    # -- handlers --

    def prompt(self, function: PromptHandler) -> PromptHandler:
        """Answer prompts: `async def reply(turn)`. A plain function runs in a thread of its own."""
        return self._add_hook("session/prompt", function)

    def new_session(self, function: NewSessionHandler) -> NewSessionHandler:
        """Prepare a new session: `async def begin(session)`."""
        return self._add_hook("session/new", function)

    def load_session(self, function: LoadSessionHandler) -> LoadSessionHandler:
        """Load a stored session and replay its updates: `async def load(session)`."""
        return self._add_hook("session/load", function)

    def resume_session(self, function: ResumeSessionHandler) -> ResumeSessionHandler:
        """Continue a stored session without a replay: `async def resume(session)`."""
        return self._add_hook("session/resume", function)

    def fork_session(self, function: ForkSessionHandler) -> ForkSessionHandler:
        """Unstable. Start a session with the context of another: `async def fork(session, source_id)`."""
        return self._add_hook("session/fork", function)

    def close_session(self, function: CloseSessionHandler) -> CloseSessionHandler:
        """Release the resources of a session: `async def close(session)`. Also called after a disconnect."""
        return self._add_hook("session/close", function)

    def list_sessions(self, function: ListSessionsHandler) -> ListSessionsHandler:
        """List stored sessions: `async def stored(request, call)`."""
        return self._add_hook("session/list", function)

    def delete_session(self, function: DeleteSessionHandler) -> DeleteSessionHandler:
        """Delete a stored session: `async def delete(session_id, call)`. Unknown ids are no error."""
        return self._add_hook("session/delete", function)

    def set_mode(self, function: SetModeHandler) -> SetModeHandler:
        """React to a new mode: `async def mode(session, mode_id)`. Raise to refuse it."""
        return self._add_hook("session/set_mode", function)

    def set_config_option(self, function: SetConfigOptionHandler) -> SetConfigOptionHandler:
        """React to a new option value: `async def option(session, config_id, value)`. Raise to refuse it."""
        return self._add_hook("session/set_config_option", function)

    def authenticate(self, function: AuthenticateHandler) -> AuthenticateHandler:
        """Sign the user in with one of your `auth_methods`: `async def login(method_id, call)`."""
        return self._add_hook("authenticate", function)

    def logout(self, function: LogoutHandler) -> LogoutHandler:
        """Sign the user out: `async def logout(call)`."""
        return self._add_hook("logout", function)

    @property
    def on(self) -> "MethodDecorator":
        """Serve any request yourself: `@agent.on("session/archive")`, `@agent.on("_vendor/thing")`."""
        return self._override

    def on_notification(self, method: str) -> Callable[[NotificationFunction], NotificationFunction]:
        """Handle a notification: `@agent.on_notification("_vendor/event")`, with `(params, connection)`."""
        if not method.startswith("_") and notification("agent", method) is None:
            raise UsageError(f"unknown notification {method!r}; extensions start with `_`")

        def register(function: NotificationFunction) -> NotificationFunction:
            self._handlers.add_notification(method, function)
            return function

        return register

    def _add_hook(self, method: str, function: F) -> F:
        self._handlers.add_hook(method, function)
        return function

    def _override(self, method: str) -> Any:
        if not method.startswith("_") and request("agent", method) is None:
            raise UsageError(f"unknown request {method!r}; extensions start with `_`, such as `_vendor/name`")

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            self._handlers.add_override(method, function)
            return function

        return register

    # -- serving --

    def connect(self, transport: Transport, *, options: AgentOptions | None = None) -> AgentConnection:
        """Serve one client over a transport. Raises UsageError if required handlers are missing."""
        require_asyncio("Agent.connect")
        self._check_handlers()
        connection = AgentConnection(self, self._handlers, transport, options or self.options)
        self.connections.add(connection)
        connection.when_ended(lambda: self.connections.discard(connection))
        return connection

    def serve(self, *, strict: bool | None = None, uvloop: bool = False) -> None:
        """Speak ACP on stdin and stdout until the client disconnects, or until Ctrl-C or SIGTERM."""
        self._check_handlers()
        if sys.stdin is not None and sys.stdin.isatty():  # a user started it by hand
            sys.stderr.write(_TERMINAL_HINT.format(self.info.name, " ".join(sys.orig_argv)))
        gc.freeze()  # what is loaded by now stays; the search for garbage can pass over it
        run(self.serve_stdio(strict=strict), uvloop=uvloop)

    async def serve_stdio(
        self, *, strict: bool | None = None, wrap: Callable[[Transport], Transport] | None = None
    ) -> TransportEnd:
        """Do the same inside a running event loop. `wrap` may put another transport around stdio."""
        require_asyncio("Agent.serve_stdio")
        from accord.wire.stdio import StdioTransport

        options = self.options if strict is None else replace(self.options, strict=strict)
        transport: Transport = StdioTransport(clock=options.clock)
        connection = self.connect(transport if wrap is None else wrap(transport), options=options)
        try:
            return await connection.wait_ended()
        except asyncio.CancelledError:
            await connection.aclose()
            raise

    def _check_handlers(self) -> None:
        served = self._handlers.served
        prompts = self._handlers.hooks.keys() | self._handlers.overrides.keys()
        if "session/prompt" not in prompts:
            raise UsageError("the agent has no prompt handler; decorate a function with @agent.prompt")
        if any(isinstance(method, AuthMethodAgent) for method in self.auth_methods) != (
            "authenticate" in served
        ):
            raise UsageError("an AuthMethodAgent in `auth_methods` needs @agent.authenticate, and vice versa")
        check_complete(served)


def run(main: Coroutine[Any, Any, Any], *, uvloop: bool) -> None:
    """Run a coroutine in a new event loop. SIGINT and SIGTERM cancel it; a second SIGINT interrupts it."""
    try:
        factory = _uvloop_factory() if uvloop else None
    except MissingExtra:
        main.close()
        raise
    try:
        with asyncio.Runner(loop_factory=factory) as runner:
            try:
                _run_until_signal(main, runner)
            except SystemExit:  # of a handler: what is under way ends with the program, without a report
                runner.get_loop().set_exception_handler(lambda loop, context: None)
                raise
    except KeyboardInterrupt:
        pass


def _run_until_signal(main: Coroutine[Any, Any, Any], runner: asyncio.Runner) -> None:
    loop = runner.get_loop()
    task = loop.create_task(main)

    def stop(*_: object) -> None:
        reset_handlers()
        loop.call_soon_threadsafe(task.cancel)  # a handler may run in the middle of any step of the loop

    def reset_handlers() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    try:  # not `loop.add_signal_handler`: it needs `inspect`, whose import takes a tenth of the start
        signal.signal(signal.SIGINT, stop)
        signal.signal(signal.SIGTERM, stop)
    except ValueError:
        runner.run(_wait_for(task))  # not the main thread: the default behavior applies
        return
    try:
        runner.run(_wait_for(task))
    finally:
        reset_handlers()


async def _wait_for(task: "asyncio.Task[Any]") -> None:
    try:
        await task
    except asyncio.CancelledError:
        if not task.cancelled():
            raise


def _uvloop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:
        raise MissingExtra("uvloop", "serve(uvloop=True)") from None
    return uvloop.new_event_loop
