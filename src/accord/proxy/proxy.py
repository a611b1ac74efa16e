"""`Proxy`: forwards messages between a client and an agent, through the hooks of middlewares.

A message without a hook is forwarded as it came, without a task or a queue. Messages of one session keep
their order: while a hook waits, later messages of its session wait too (see `accord.wire.lanes`). Ids stay as
they are, so that cancellations and responses pass without a table.
"""

import asyncio
import logging
import os
import sys
import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal, TypeGuard, cast

from msgspec import UNSET, Raw, Struct, json

from accord.clock import OwnedTasks
from accord.errors import InvalidRequest, RpcError, UsageError
from accord.proxy.hooked_call import ForwardedRequest, HookedCall, describe
from accord.proxy.middleware import CANCEL_TURN, HookRoute, Middleware, ServedBy, find_routes, hook_name
from accord.proxy.typed_message import TypedMessage, TypedReader
from accord.schema import methods as method_table
from accord.schema.codec import DECODE_ERRORS, encode
from accord.schema.methods import Kind, Method
from accord.trace.recorder import exit_like, forwarded_signals
from accord.wire.calls import BackPressure, ConnectionLimits
from accord.wire.connection import CANCEL_REQUEST
from accord.wire.envelope import (
    ENCODE_ERRORS,
    Envelope,
    Notification,
    Request,
    RequestId,
    Response,
    RpcCore,
    connection_closed,
    encode_failure,
    unsendable_error,
)
from accord.wire.lanes import Lanes, Step
from accord.wire.process import ProcessTransport, spawn
from accord.wire.process_tree import StopTimeouts
from accord.wire.stdio import StdioTransport
from accord.wire.transport import Frame, OversizedFrame, Transport, TransportEnd

LOG: Final = logging.getLogger("accord.proxy")

AGENT_TIMEOUTS: Final = StopTimeouts(leave=10.0)
"""Agents may finish their last answers after the client has closed its side."""
FLUSH_SECONDS: Final = 600.0
"""How long a slow client may read what an agent wrote before it ended."""
_HOOK_SECONDS: Final = 5.0
"""How long hooks may run after the agent has ended."""


class _SessionParams(Struct):
    sessionId: str | None = None  # noqa: N815 - the wire's own spelling
    requestId: RequestId = None  # noqa: N815


class _SessionMessage(Struct):
    params: _SessionParams | None = None


class _MethodOnly(Struct, gc=False):
    method: str = ""
    """Empty for a response."""


_ID: Final = b'"id"'

_decode_session = json.Decoder(_SessionMessage).decode
_decode_method = json.Decoder(_MethodOnly).decode


def run_proxy(
    *middlewares: Middleware,
    command: Sequence[str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str | None] | None = None,
    report: Callable[[str], None] | None = None,
    translate: Callable[[Transport], Transport] | None = None,
) -> int:
    """Start an agent and be its proxy on stdin and stdout. Returns its exit code. Raises NeverStarted.

    Without a command, be a part of a chain: a conductor starts this program and connects the agent with
    `proxy/successor`. The first middleware is next to the client. `env` changes the environment of the
    agent; None removes a variable. `report` gets failures of middlewares, one line each; by default they go
    to stderr. `translate` wraps the transport of the agent, so that middlewares see another protocol version.
    """
    client = StdioTransport(flush=FLUSH_SECONDS)
    if command is None:
        asyncio.run(_run_in_chain(client, middlewares, report or _print_report))
        return 0
    if not command:
        raise UsageError("run_proxy needs the agent's command, or None to be a part of a chain")
    return asyncio.run(_run(client, middlewares, list(command), cwd, env, report or _print_report, translate))


async def _run(
    client: Transport,
    middlewares: Sequence[Middleware],
    command: list[str],
    cwd: str | os.PathLike[str] | None,
    env: Mapping[str, str | None] | None,
    report: Callable[[str], None],
    translate: Callable[[Transport], Transport] | None,
) -> int:
    agent = await spawn(command, cwd=cwd, env=env, on_stderr=print_line, timeouts=AGENT_TIMEOUTS)
    transport = agent if translate is None else translate(agent)
    running = asyncio.ensure_future(Proxy(client, transport, middlewares, report=report).run())

    def stop() -> None:
        running.cancel()

    with forwarded_signals(agent.tree, stop):
        await asyncio.wait((running,))
    if not running.cancelled():
        running.result()
    exit = agent.tree.exit
    return 1 if exit is None else exit_like(exit)


async def _run_in_chain(
    conductor: Transport, middlewares: Sequence[Middleware], report: Callable[[str], None]
) -> None:
    from accord.proxy.chain import ChainLink  # on first use: most proxies start their agent

    link = ChainLink(conductor)
    await Proxy(link.client, link.agent, middlewares, report=report, keep_version=True).run()


class Proxy:
    """Connects the transport of a client with the transport of an agent; closes both at the end."""

    def __init__(
        self,
        client: Transport,
        agent: Transport,
        middlewares: Sequence[Middleware],
        *,
        report: Callable[[str], None] = LOG.warning,
        limits: ConnectionLimits | None = None,
        keep_version: bool = False,
    ) -> None:
        """Hooks see messages of version 1, so that with hooks the agent is asked for no later version.

        `keep_version` leaves the version to the client: for a part of a chain, which must not change it.
        """
        self.report: Callable[[str], None] = report
        self.calls: set[HookedCall] = set()
        """The requests in hooks."""
        self.tasks: OwnedTasks = OwnedTasks(grace=_HOOK_SECONDS)
        self._transports = (client, agent)
        self._id_prefix = f"accord-proxy-{uuid.uuid4().hex[:12]}"
        self._last_id = 0
        limits = limits or ConnectionLimits()
        self._to_agent = Flow(self, client, agent, "agent", find_routes(middlewares, "agent"), limits)
        self._to_client = Flow(self, agent, client, "client", find_routes(middlewares, "client"), limits)
        self._to_agent.opposite, self._to_client.opposite = self._to_client, self._to_agent
        has_hooks = self._to_agent.has_hooks or self._to_client.has_hooks
        self._to_agent.asks_for_version_1 = has_hooks and not keep_version
        for middleware in middlewares:
            middleware.peers = self

    async def run(self) -> TransportEnd:
        """Forward until the agent has ended and the client has everything. Returns how the agent ended."""
        self._agent_end: asyncio.Future[TransportEnd] = asyncio.get_running_loop().create_future()
        client, agent = self._transports
        try:
            agent.start(self._to_client)
            client.start(self._to_agent)
            end = await self._agent_end
            if not await self.tasks.wait():
                await self.tasks.end()
            await asyncio.sleep(0)  # the last hooks are answered in callbacks
            return end
        finally:
            self.tasks.cancel()
            await asyncio.gather(client.aclose(), agent.aclose())

    def new_id(self) -> str:
        """Return an id that no peer uses, also not another proxy in the same chain."""
        self._last_id += 1
        return f"{self._id_prefix}-{self._last_id}"

    def side_ended(self, flow: "Flow", end: TransportEnd) -> None:
        """Handle the end of a flow, after everything in it was forwarded."""
        if flow is self._to_agent:
            self.tasks.start(self._transports[1].aclose())
        elif not self._agent_end.done():
            self._agent_end.set_result(end)

    # -- messages of middlewares

    async def ask_client(self, method: str, params: Any) -> Any:
        return await self._to_client.ask(method, params)

    async def ask_agent(self, method: str, params: Any) -> Any:
        return await self._to_agent.ask(method, params)

    def notify_client(self, method: str, params: Any) -> None:
        self._to_client.target.send(_encoded(method, Notification(method, params)))

    def notify_agent(self, method: str, params: Any) -> None:
        self._to_agent.target.send(_encoded(method, Notification(method, params)))


class Flow:
    """One direction of a proxy: reads from `source`, sends to `target`."""

    opposite: "Flow"

    def __init__(
        self,
        proxy: Proxy,
        source: Transport,
        target: Transport,
        to: ServedBy,
        routes: dict[tuple[str, Kind], HookRoute],
        limits: ConnectionLimits,
    ) -> None:
        self.proxy: Proxy = proxy
        self.source: Transport = source
        self.target: Transport = target
        self.lanes: Lanes = Lanes()
        self.asks_for_version_1: bool = False
        """Whether to ask for version 1 in `initialize`, because hooks see only messages of version 1."""
        self.reader: TypedReader = TypedReader()
        self._target_is_pipe = isinstance(target, StdioTransport | ProcessTransport)
        self._to: ServedBy = to
        self._routes = routes
        self._core = RpcCore[ForwardedRequest](answer_invalid=False)
        self._pressure = BackPressure(source, limits, output=target)
        kinds: tuple[Kind, Kind] = ("request", "notification")
        self._aliases = {
            (alias.sent, kind): alias for kind in kinds for alias in self.reader.messages.aliases(to, kind)
        }
        names = {CANCEL_TURN, CANCEL_REQUEST, *(name for name, _ in routes)}
        self._handled = names | {sent for (sent, _), alias in self._aliases.items() if alias.method in names}
        notified = {name for name, kind in routes if kind == "notification"} | {CANCEL_TURN, CANCEL_REQUEST}
        notified |= {sent for (sent, _), alias in self._aliases.items() if alias.method in notified}
        self._words = [_ID, *(name.rpartition("/")[2].encode() for name in notified)]

    @property
    def has_hooks(self) -> bool:
        """Whether middlewares have hooks for messages of this direction."""
        return bool(self._routes)

    def frames(self, frames: list[Frame]) -> None:
        """Forward all frames of one read."""
        # Only the client cancels turns, so that its messages concern all hooks.
        decodes = bool(self._routes or self._core.calls or (self._to == "agent" and self.proxy.calls))
        decodes = decodes or self.asks_for_version_1
        if self.lanes.busy or not _are_whole(frames):
            self._forward_each(frames)
        else:
            lines = b"\n".join(frames)
            if decodes and self._may_be_handled(lines):
                self._forward_each(frames)
            elif self._target_is_pipe:
                self.target.send(lines)  # a pipe has a line for each frame, so these are several
            else:
                for frame in frames:
                    self.target.send(frame)
        if self._pressure.pause_for_output():
            self.proxy.tasks.start(self._pressure.drain())

    def _may_be_handled(self, lines: bytes) -> bool:
        """Whether a hook, a cancellation or an open request may concern one of these frames.

        Requests and responses have an id, and notifications have their name, unless a letter of it is
        escaped. To search for these words is several times as fast as to decode the frames.
        """
        has_escapes = b"\\" in lines and b"\\u" in lines  # one letter is found faster than two
        return has_escapes or any(word in lines for word in self._words)

    def _forward_each(self, frames: Sequence[Frame]) -> None:
        send, busy, calls, handled = self.target.send, self.lanes.busy, self._core.calls, self._handled
        if self.asks_for_version_1:
            handled = handled | {"initialize"}
        for frame in frames:
            if not isinstance(frame, bytes) or busy:
                self._receive(frame)
                continue
            try:
                method = _decode_method(frame).method
            except DECODE_ERRORS:
                method = ""  # no message, or a response whose faults the core explains
            if method in handled or (calls and not method):
                self._receive(frame)
            else:
                send(frame)

    def ended(self, end: TransportEnd) -> None:
        """Fail the open requests to this peer, and end the proxy after everything was forwarded."""
        for request in self._core.close(end):
            self._deliver(Response(request, error=connection_closed(request.method, end)), b"")
        self.lanes.run_after(None, partial(self.proxy.side_ended, self, end))

    # -- requests of the proxy itself, and of hooks; this flow brings the responses

    def expect(
        self,
        id: RequestId,
        method: str,
        session_id: str | None,
        on_response: Callable[[], None] | None = None,
    ) -> "asyncio.Future[tuple[Response[ForwardedRequest], bytes]]":
        """Return the future response to a request that is about to be sent. Raises ConnectionClosed."""
        if self._core.end is not None:
            raise connection_closed(method, self._core.end)
        answer: asyncio.Future[tuple[Response[ForwardedRequest], bytes]]
        answer = asyncio.get_running_loop().create_future()
        self._core.expect_response(id, ForwardedRequest(method, session_id, answer, on_response))
        return answer

    async def wait(
        self, id: RequestId, answer: "asyncio.Future[tuple[Response[ForwardedRequest], bytes]]"
    ) -> tuple[Response[ForwardedRequest], bytes]:
        """Wait for the response; if the caller is canceled, cancel the request."""
        try:
            return await answer
        except asyncio.CancelledError:
            request = self._core.calls.get(id)
            if request is not None:
                request.abandoned = True
                self.source.send(encode(Notification(CANCEL_REQUEST, {"requestId": id})))
            raise

    async def ask(self, method: str, params: Any) -> Any:
        """Send a request of a middleware. Raises RpcError, ConnectionClosed, BadAnswer."""
        id = self.proxy.new_id()
        frame = _encoded(method, Request(id, method, params))
        back = self.opposite
        answer = back.expect(id, method, None)
        self.target.send(frame)
        back._pressure.awaited += 1
        back._pressure.call_sent()
        try:
            response, answer_frame = await back.wait(id, answer)
        finally:
            back._pressure.awaited -= 1
        if response.error is not None:
            raise response.error
        entry = method_table.request(self._to, method) or Method(method, self._to, "request", Any, Any)
        return back.reader.result(entry, response.result, answer_frame).value

    # -- receiving

    def _receive(self, frame: Frame) -> None:
        event = self._core.receive(frame)
        if isinstance(event, Envelope):
            assert isinstance(frame, bytes)
            self._receive_call(event, frame)
        elif isinstance(event, Response):
            self._deliver(event, frame if isinstance(frame, bytes) else b"")
        elif isinstance(frame, bytes):
            # A response to a request without hooks, or no message: it passes as without a proxy.
            if self.lanes:
                self._hold(len(frame), partial(self.target.send, frame), None)
            else:
                self.target.send(frame)
        else:
            self.proxy.report(f"dropped {event.detail}")
            if event.answer is not None:
                self.source.send(event.answer)

    def _receive_call(self, envelope: Envelope, frame: bytes) -> None:
        kind: Literal["request", "notification"] = "notification" if envelope.id is UNSET else "request"
        method = envelope.method
        assert method is not UNSET
        alias = self._aliases.get((method, kind))
        name = method if alias is None else alias.method
        if self.asks_for_version_1 and name == "initialize":
            envelope.params, frame = _in_version_1(envelope, frame)
        if self.proxy.calls and name in (CANCEL_TURN, CANCEL_REQUEST) and not self._cancel(name, frame):
            return
        route = self._routes.get((name, kind))
        if route is None:
            if self.lanes.busy:
                self._in_order(_session_of(frame), len(frame), partial(self.target.send, frame))
            else:
                self.target.send(frame)
            return
        try:
            if kind == "request" and envelope.id is None:
                raise InvalidRequest(data="the id of a request is null")
            messages = self.reader.params(route.method, envelope.params, frame, alias)
        except RpcError as error:
            if kind == "request":
                self.source.send(encode_failure(envelope.id or None, error))
            else:
                self.proxy.report(f"dropped an unreadable {name}: {error}")
            return
        if envelope.id is not UNSET:
            step = partial(self._start_call, envelope.id, route, messages[0], frame)
        else:
            step = partial(self._run_notification, route, messages, frame)
        self._in_order(getattr(messages[0].value, "session_id", None), len(frame), step)

    def _in_order(self, session_id: str | None, size: int, step: Step) -> None:
        """Run a step now, or after what its session has unfinished."""
        if session_id in self.lanes.busy:
            self._hold(size, step, (session_id,))
        else:
            step()

    def _hold(self, size: int, step: Step, sessions: tuple[str | None, ...] | None) -> None:
        def run_step() -> None:
            self._pressure.release(size)
            step()

        self._pressure.hold(size)
        self.lanes.run_after(sessions, run_step)

    def _cancel(self, name: str, frame: bytes) -> bool:
        """End the hooks that a cancellation concerns. Returns whether the message goes on."""
        try:
            params = _decode_session(frame).params or _SessionParams()
        except DECODE_ERRORS:
            return True
        for call in list(self.proxy.calls):
            if name == CANCEL_TURN and call.session_id == params.sessionId and self._to == "agent":
                call.cancel_turn()
            elif name == CANCEL_REQUEST and call.id == params.requestId and call.flow is self:
                return call.cancel()
        return True

    def _start_call(self, id: RequestId, route: HookRoute, message: TypedMessage, frame: bytes) -> None:
        call = HookedCall(self, id, route, message, frame)
        self.proxy.calls.add(call)
        call.start()

    def _deliver(self, response: Response[ForwardedRequest], frame: bytes) -> None:
        request = response.call
        on_response = request.on_response

        def deliver() -> None:
            if not request.answer.done() and not request.abandoned:
                if on_response is not None:
                    on_response()
                request.answer.set_result((response, frame))

        if on_response is None or not self.lanes:
            deliver()
        else:
            self._hold(len(frame), deliver, (request.session_id, None))

    # -- notifications

    def _run_notification(self, route: HookRoute, messages: list[TypedMessage], frame: bytes) -> None:
        steps = _notification_steps(route, messages, frame)
        try:
            awaitable = next(steps)
        except StopIteration as done:
            for changed in done.value:
                self.target.send(changed)
        except Exception as error:  # noqa: BLE001 - the boundary to the middleware's code
            self._report_dropped(route, error)
        else:
            lane = self.lanes.block(getattr(messages[0].value, "session_id", None))
            self._pressure.hold(len(frame))
            self.proxy.tasks.start(self._await_notification(route, steps, awaitable)).add_done_callback(
                lambda _: (self._pressure.release(len(frame)), self.lanes.unblock(lane))
            )

    async def _await_notification(
        self, route: HookRoute, steps: "Generator[Any, Any, list[bytes]]", awaitable: Any
    ) -> None:
        frames: list[bytes] | None = None
        while frames is None:
            try:
                awaitable = steps.send(await awaitable)
            except StopIteration as done:
                frames = done.value
            except Exception as error:  # noqa: BLE001 - the boundary to the middleware's code
                self._report_dropped(route, error)
                return
        for frame in frames:
            self.target.send(frame)

    def _report_dropped(self, route: HookRoute, error: Exception) -> None:
        names = ", ".join(map(hook_name, route.hooks))
        self.proxy.report(f"{names} failed: {describe(error)}; the {route.method.name} was dropped")


def _notification_steps(
    route: HookRoute, messages: list[TypedMessage], frame: bytes
) -> "Generator[Any, Any, list[bytes]]":
    """Run the hooks of a notification: yield awaitables of async hooks, and return the frames to send."""
    changed: list[bytes] = []
    is_changed = False
    for message in messages:
        value = message.value
        for hook in route.hooks:
            value = hook(value)
            if hasattr(value, "__await__"):
                value = yield value
            if value is None:
                break
        if value is None:
            is_changed = True
            continue
        is_changed = is_changed or not message.is_unchanged(value)
        if is_changed or len(messages) > 1:
            changed.append(message.changed_frame(value, {"jsonrpc": "2.0", "method": route.method.name}))
    return changed if is_changed else [frame]


def _are_whole(frames: list[Frame]) -> TypeGuard[list[bytes]]:
    return OversizedFrame not in set(map(type, frames))


def _in_version_1(envelope: Envelope, frame: bytes) -> tuple[Raw, bytes]:
    """The params of `initialize` and its frame, at most for version 1."""
    try:
        params: Any = json.decode(envelope.params)
    except DECODE_ERRORS:
        return envelope.params, frame
    version: Any = cast("dict[str, Any]", params).get("protocolVersion") if isinstance(params, dict) else None
    if not isinstance(version, int) or version <= 1:
        return envelope.params, frame
    body = Raw(encode({**params, "protocolVersion": 1}))
    return body, encode(Request(cast(RequestId, envelope.id), "initialize", body))


def _session_of(frame: bytes) -> str | None:
    try:
        params = _decode_session(frame).params
    except DECODE_ERRORS:
        return None
    return None if params is None else params.sessionId


def _encoded(method: str, message: Request | Notification) -> bytes:
    try:
        return encode(message)
    except ENCODE_ERRORS as error:
        raise unsendable_error(method, error) from None


def _print_report(text: str) -> None:
    print_line(f"accord proxy: {text}")


def print_line(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
