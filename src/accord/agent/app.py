"""`Agent`: collects handlers and options, serves clients on any transport, one `AgentConnection` each.

Loaded before `initialize` is answered: keep heavy imports out.
"""

import asyncio
import signal
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from logging import DEBUG, WARNING
from typing import Any, Final, TypeVar

from msgspec import UNSET, Struct, field
from msgspec.structs import replace

from accord.agent.agent_session import AgentSession
from accord.agent.builtin_methods import BuiltinMethods, Handshake
from accord.agent.capabilities import AgentFeatures, check_complete
from accord.agent.client import LOG, Client, ClientPeer
from accord.agent.decorators import (
    AgentHandlers,
    AuthenticateHandler,
    CloseSessionHandler,
    DeleteSessionHandler,
    ForkSessionHandler,
    Listener,
    ListSessionsHandler,
    LoadSessionHandler,
    LogoutHandler,
    MethodDecorator,
    NewSessionHandler,
    PromptHandler,
    ResumeSessionHandler,
    SetConfigOptionHandler,
    SetModeHandler,
)
from accord.agent.routes import RequestRouter, notification_routes, refusing, request_routes
from accord.clock import SYSTEM_CLOCK, Clock
from accord.errors import InvalidParams, MissingExtra, UsageError
from accord.schema.auth import AuthAccount, AuthMethod, AuthMethodAgent
from accord.schema.content import AudioContent, ContentBlock, EmbeddedResource, ImageContent
from accord.schema.initialize import Implementation, InitializeResponse
from accord.schema.message_reader import MessageReader
from accord.schema.methods import notification, request
from accord.wire.calls import ConnectionLimits, ConnectionObserver, ConnectionReport
from accord.wire.connection import Connection
from accord.wire.transport import Transport, TransportEnd

# MERGED agent.options: How an agent conducts its connections; the defaults suit nearly everybody.


class AgentOptions(Struct, frozen=True, kw_only=True):
    """Settings of a connection."""

    strict: bool = False
    """Switches the repair of known dialects off: messages are judged as sent."""
    cancel_grace: float = 5.0
    """Seconds that cancelled code is given before its turn is answered without it."""
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    """Bounds in bytes, and how long unfinished requests may hold back the end."""
    clock: Clock = SYSTEM_CLOCK
    refused_members: Mapping[str, str] = field(default_factory=dict[str, str])
    """Members that no request may carry at the top of its params, and why: it is answered -32602. `_meta` is free."""
    observer: ConnectionObserver | None = None
    """Told what a connection survived: noise, malformed messages, answers to nothing. Without one it is logged."""
    on_dialect: Callable[[int, str], None] | None = None
    """Told once per client about each dialect it speaks: the row's number and text. Without one it is logged."""


# MERGED agent.connection: One client of an agent, from the first byte to the end: what it is told, what it asks, and how it is let go.

_LEVELS: Final = {"unmatched": DEBUG, "unknown": DEBUG, "failed": DEBUG}
"""How loudly a report is logged. A failed handler has been logged with its traceback where it failed."""


class AgentConnection:
    """A connection of an `Agent`. `await` it to wait for its end."""

    def __init__(self, agent: "Agent", transport: Transport, options: AgentOptions) -> None:
        self._reader = MessageReader(strict=options.strict, report=options.on_dialect or _log_dialect)
        self._peer = peer = ClientPeer(self._reader, options.clock, options.cancel_grace)
        self.client = Client(peer)
        self._service = service = BuiltinMethods(agent, self, peer)
        self._handshake = handshake = Handshake(agent, peer, self.client, service)
        notifications = notification_routes(agent.handlers, self, service, self._reader)
        requests = request_routes(agent.handlers, handshake, service, self._reader, notifications)
        if options.refused_members:
            requests = refusing(options.refused_members, requests)
        peer.connection = self._wire = Connection(
            transport,
            requests=RequestRouter(requests, handshake),
            notifications=notifications,
            strict=options.strict,
            limits=options.limits,
            observer=options.observer or _log,
            on_end=lambda end: service.client_gone(),
            clock=options.clock,
        )
        self._wire.start()
        self._life: asyncio.Task[TransportEnd] = asyncio.get_running_loop().create_task(self._see_off())

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

    async def wait_ended(self) -> TransportEnd:
        """Wait until the client is gone and everything is cleaned up; says how it ended."""
        return await asyncio.shield(self._life)

    def __await__(self) -> Generator[Any, None, TransportEnd]:
        return self.wait_ended().__await__()

    async def aclose(self) -> None:
        """End it: turns are cancelled and answered, sessions closed. Bounded; may be called twice."""
        self._service.client_gone()
        await self._wire.aclose()
        await self.wait_ended()

    async def _see_off(self) -> TransportEnd:
        """Once the client is gone: answer what can still be answered, close the sessions, stop what runs."""
        end = await self._wire.wait_ended()
        await self._wire.finish_calls()
        await self._service.end_all()
        await self._peer.stop()
        await self._wire.aclose()
        return end


def _log(report: ConnectionReport) -> None:
    LOG.log(_LEVELS.get(report.kind, WARNING), "%s: %s", report.kind, report.detail)


def _log_dialect(row: int, text: str) -> None:
    LOG.info("the client speaks a dialect, %s", text)


# MERGED agent.app: The agent: an application object that collects what you want to serve, and serves it on any number of connections.

F = TypeVar("F", bound=Callable[..., Any])


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
    ) -> None:
        """`name` is for programs, `title` for people; `accepts` says what cannot be seen from your functions."""
        self.info = Implementation(name, version, UNSET if title is None else title)
        self.accepts = accepts or AgentFeatures()
        self.auth_methods = tuple(auth_methods)
        self.options = options or AgentOptions()
        self.handlers = AgentHandlers()
        self.connections: set[AgentConnection] = set()
        ids = [method.id for method in auth_methods]
        if len(set(ids)) != len(ids):
            raise UsageError(f"two auth methods share an id: {', '.join(ids)}")

    # -- what you serve -----------------------------------------------------------------------------------------

    def prompt(self, function: PromptHandler) -> PromptHandler:
        """Answer prompts: `async def reply(turn)`."""
        return self._hook("session/prompt", function)

    def new_session(self, function: NewSessionHandler) -> NewSessionHandler:
        """Prepare a new session: `async def begin(session)`."""
        return self._hook("session/new", function)

    def load_session(self, function: LoadSessionHandler) -> LoadSessionHandler:
        """Take a stored session up again and replay it: `async def load(session)`."""
        return self._hook("session/load", function)

    def resume_session(self, function: ResumeSessionHandler) -> ResumeSessionHandler:
        """Take a stored session up again without a replay: `async def resume(session)`."""
        return self._hook("session/resume", function)

    def fork_session(self, function: ForkSessionHandler) -> ForkSessionHandler:
        """Unstable. Begin a session with another one's context: `async def fork(session, source_id)`."""
        return self._hook("session/fork", function)

    def close_session(self, function: CloseSessionHandler) -> CloseSessionHandler:
        """Free what a session holds: `async def close(session)`. Also called when the client goes away."""
        return self._hook("session/close", function)

    def list_sessions(self, function: ListSessionsHandler) -> ListSessionsHandler:
        """List stored sessions: `async def stored(request, call)`."""
        return self._hook("session/list", function)

    def delete_session(self, function: DeleteSessionHandler) -> DeleteSessionHandler:
        """Forget a session: `async def delete(session_id, call)`. Unknown ones count as deleted."""
        return self._hook("session/delete", function)

    def set_mode(self, function: SetModeHandler) -> SetModeHandler:
        """Hear that the client changed the mode: `async def mode(session, mode_id)`. Raise to refuse."""
        return self._hook("session/set_mode", function)

    def set_config_option(self, function: SetConfigOptionHandler) -> SetConfigOptionHandler:
        """Hear that the client changed an option: `async def option(session, config_id, value)`. Raise to refuse."""
        return self._hook("session/set_config_option", function)

    def authenticate(self, function: AuthenticateHandler) -> AuthenticateHandler:
        """Sign the user in by one of your `auth_methods`: `async def login(method_id, call)`."""
        return self._hook("authenticate", function)

    def logout(self, function: LogoutHandler) -> LogoutHandler:
        """Sign the user out: `async def logout(call)`."""
        return self._hook("logout", function)

    @property
    def on(self) -> MethodDecorator:
        """Serve any method yourself: `@agent.on("session/archive")`, `@agent.on("_vendor/thing")`."""
        return MethodDecorator(self._take)

    def on_notification(self, method: str) -> Callable[[Listener], Listener]:
        """Hear a notification: `@agent.on_notification("_vendor/event")`, with `(params, connection)`."""
        if not method.startswith("_") and notification("agent", method) is None:
            raise UsageError(f"{method!r} is no notification to an agent; your own begin with an underscore")

        def register(function: Listener) -> Listener:
            self.handlers.listen(method, function)
            return function

        return register

    def _hook(self, method: str, function: F) -> F:
        self.handlers.hook(method, function)
        return function

    def _take(self, method: str, function: Callable[..., Any]) -> None:
        if not method.startswith("_") and request("agent", method) is None:
            raise UsageError(
                f"{method!r} is no method of an agent; your own begin with an underscore: `_vendor/name`"
            )
        self.handlers.take(method, function)

    # -- serving ------------------------------------------------------------------------------------------------

    def connect(self, transport: Transport, *, options: AgentOptions | None = None) -> AgentConnection:
        """Serve one client over this transport; `await` the connection to wait for its end."""
        self._check()
        connection = AgentConnection(self, transport, options or self.options)
        self.connections.add(connection)
        connection.when_ended(lambda: self.connections.discard(connection))
        return connection

    def serve(self, *, strict: bool | None = None, uvloop: bool = False) -> None:
        """Speak ACP on stdin and stdout until the client goes away. Ctrl-C and SIGTERM end it as well."""

        self._check()
        run(self.serve_stdio(strict=strict), uvloop=uvloop)

    async def serve_stdio(
        self, *, strict: bool | None = None, wrap: Callable[[Transport], Transport] | None = None
    ) -> TransportEnd:
        """The same for programs that run an event loop of their own; `wrap` stands between it and the connection."""
        from accord.wire.stdio import StdioTransport

        options = self.options if strict is None else replace(self.options, strict=strict)
        transport: Transport = StdioTransport(clock=options.clock)
        connection = self.connect(transport if wrap is None else wrap(transport), options=options)
        try:
            return await connection.wait_ended()
        except asyncio.CancelledError:
            await connection.aclose()
            raise

    def check_prompt(self, blocks: Sequence[ContentBlock]) -> None:
        """Refuse blocks that this agent did not say it takes."""
        accepts = self.accepts
        gates = (
            (ImageContent, accepts.image),
            (AudioContent, accepts.audio),
            (EmbeddedResource, accepts.embedded_context),
        )
        for block in blocks:
            for kind, accepted in gates:
                if isinstance(block, kind) and not accepted:
                    raise InvalidParams(f"prompt: this agent does not take {kind.__name__}")

    def _check(self) -> None:
        served = self.handlers.served
        prompts = self.handlers.hooks.keys() | self.handlers.taken.keys()
        if "session/prompt" not in prompts:
            raise UsageError("the agent answers no prompts: decorate a function with @agent.prompt")
        if any(isinstance(method, AuthMethodAgent) for method in self.auth_methods) != (
            "authenticate" in served
        ):
            raise UsageError(
                "auth methods of the agent and @agent.authenticate belong together; one of them is missing"
            )
        check_complete(served)


# MERGED agent.stdio: The event loop of a program that is an agent and nothing else: it ends with its client, or on a signal, without noise.


def run(main: Coroutine[Any, Any, Any], *, uvloop: bool) -> None:
    """Run it to its end; SIGINT and SIGTERM cancel it, a second SIGINT interrupts even that."""
    try:
        factory = _uvloop() if uvloop else None
    except MissingExtra:
        main.close()
        raise
    try:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(_until_signalled(main))
    except KeyboardInterrupt:
        pass


async def _until_signalled(main: Coroutine[Any, Any, Any]) -> None:
    loop = asyncio.get_running_loop()
    task = loop.create_task(main)
    handled: list[signal.Signals] = []

    def stop() -> None:
        for number in handled:
            loop.remove_signal_handler(number)
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, stop)
        except (NotImplementedError, RuntimeError, ValueError):
            continue  # Windows, or not the main thread: the default behaviour has to do
        handled.append(number)
    try:
        await task
    except asyncio.CancelledError:
        if not task.cancelled():
            raise


def _uvloop() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:
        raise MissingExtra("uvloop", "serve(uvloop=True)") from None
    return uvloop.new_event_loop
