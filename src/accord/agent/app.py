"""The agent: an application object that collects what you want to serve, and serves it on any number of connections."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from msgspec import UNSET
from msgspec.structs import replace

from accord.errors import InvalidParams, UsageError
from accord.schema.auth import AuthMethod, AuthMethodAgent
from accord.schema.content import AudioContent, ContentBlock, EmbeddedResource, ImageContent
from accord.schema.initialize import Implementation
from accord.schema.methods import notification, request
from accord.wire.transport import End, Transport

from .capabilities import Accepts, check_complete
from .connection import AgentConnection
from .handlers import (
    AuthenticateHandler,
    CloseSessionHandler,
    DeleteSessionHandler,
    ForkSessionHandler,
    Handlers,
    Listener,
    ListSessionsHandler,
    LoadSessionHandler,
    LogoutHandler,
    NewSessionHandler,
    PromptHandler,
    ResumeSessionHandler,
    SetConfigOptionHandler,
    SetModeHandler,
)
from .on import On
from .options import AgentOptions

F = TypeVar("F", bound=Callable[..., Any])


class Agent:
    """An ACP agent. Register your functions with its decorators, then `serve()`."""

    def __init__(
        self,
        name: str,
        *,
        version: str = "0",
        title: str | None = None,
        accepts: Accepts | None = None,
        auth_methods: Sequence[AuthMethod] = (),
        options: AgentOptions | None = None,
    ) -> None:
        """`name` is for programs, `title` for people; `accepts` says what cannot be seen from your functions."""
        self.info = Implementation(name, version, UNSET if title is None else title)
        self.accepts = accepts or Accepts()
        self.auth_methods = tuple(auth_methods)
        self.options = options or AgentOptions()
        self.handlers = Handlers()
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
    def on(self) -> On:
        """Serve any method yourself: `@agent.on("session/archive")`, `@agent.on("_vendor/thing")`."""
        return On(self._take)

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
        from .stdio import run

        self._check()
        run(self.serve_stdio(strict=strict), uvloop=uvloop)

    async def serve_stdio(
        self, *, strict: bool | None = None, wrap: Callable[[Transport], Transport] | None = None
    ) -> End:
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
