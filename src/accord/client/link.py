"""One life of the agent's program: a transport, the connection on it, and what was agreed in `initialize`.

A restart replaces the link; the agent's handle and its sessions stay. Whatever ends a link, every open call on it gets
an error that says how the agent ended.
"""

from collections import deque
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from msgspec import Raw

from accord.client.limits import Deadlines, bounded
from accord.client.options import ClientOptions
from accord.errors import (
    AuthRequired,
    BadAnswer,
    ConnectionClosed,
    Crashed,
    HandshakeFailed,
    Killed,
    NeverStarted,
    RequestTimeout,
    RpcError,
)
from accord.schema import (
    AgentCapabilities,
    AuthMethod,
    ClientCapabilities,
    InitializeRequest,
    InitializeResponse,
)
from accord.schema.methods import request
from accord.schema.reader import Reader
from accord.wire.connection import Connection
from accord.wire.routes import Report, Route
from accord.wire.transport import End, Transport

T = TypeVar("T")

PROTOCOL_VERSION: Final = 1

_NOISE_KEPT: Final = 5
_NOISE_SHOWN: Final = 200


@dataclass(frozen=True, slots=True)
class Wiring:
    """What a link needs from the handle it belongs to."""

    name: str
    """What errors call the agent."""
    options: ClientOptions
    reader: Reader
    """Reads what this agent sends; kept over restarts, so that a dialect is reported once."""
    requests: Mapping[str, Route]
    notifications: Mapping[str, Route]
    asking: Callable[[], bool]
    """Whether the agent waits for the user."""
    ended: "Callable[[Link, End], None]"


class Link:
    """Made by `open_link`; usable until it has ended."""

    def __init__(self, transport: Transport, wiring: Wiring) -> None:
        self.options = wiring.options
        self.closing = False
        self._transport = transport
        self._wiring = wiring
        self._noise: deque[str] = deque(maxlen=_NOISE_KEPT)
        self._agreed: InitializeResponse | None = None
        self._results: dict[str, Callable[[Raw], Any]] = {}
        self._limit = self.options.limits.request
        self._deadlines = Deadlines(self.options.clock, self._limit, wiring.asking)
        self.reader = wiring.reader
        self.connection = Connection(
            transport,
            requests=wiring.requests,
            notifications=wiring.notifications,
            answers_noise=False,
            strict=self.options.strict,
            limits=self.options.buffers,
            observer=self._observe,
            on_end=self._ended,
            closed_error=self.closed_error,
            clock=self.options.clock,
        )

    @property
    def agreed(self) -> InitializeResponse:
        """The agent's answer to `initialize`."""
        assert self._agreed is not None, "a link is handed out once it has been agreed on"
        return self._agreed

    @property
    def capabilities(self) -> AgentCapabilities:
        """What the agent can do; what it left out it cannot."""
        return self.agreed.agent_capabilities or AgentCapabilities()

    @property
    def auth_methods(self) -> tuple[AuthMethod, ...]:
        """The ways to sign in."""
        return tuple(self.agreed.auth_methods or ())

    # -- the handshake ------------------------------------------------------------------------------------------

    async def handshake(self, capabilities: ClientCapabilities) -> None:
        """Say `initialize`; raises HandshakeFailed when that does not lead to a version both speak."""
        self.connection.start()
        opening = InitializeRequest(PROTOCOL_VERSION, capabilities, self.options.info)
        read = self.reader.result_reader(_method("initialize"))
        try:
            agreed: InitializeResponse = await self.connection.request("initialize", opening, read=read)
        except (RpcError, BadAnswer) as error:
            raise self._handshake_failed(f"initialize failed: {error}") from error
        if agreed.protocol_version != PROTOCOL_VERSION:
            raise self._handshake_failed(
                f"it speaks version {agreed.protocol_version} of the protocol, this client speaks {PROTOCOL_VERSION}"
            )
        self._agreed = agreed

    def startup_expired(self) -> Exception:
        """The error when the start-up limit has run out."""
        limit = self.options.limits.startup or 0.0
        why = f"initialize was not answered within {limit:g} s"
        if self._noise:
            return self._handshake_failed(why)
        words = getattr(self._transport, "stderr", "").rstrip()
        said = f"; its last words on stderr:\n{words}" if words else "; is this an ACP agent?"
        return RequestTimeout(f"{self._wiring.name}: {why}{said}")

    def _handshake_failed(self, why: str, end: End | None = None) -> HandshakeFailed:
        said = "".join(f"\n  {line}" for line in self._noise)
        said = f"; it printed instead of speaking the protocol:{said}" if said else ""
        if not why.startswith(f"{self._wiring.name}: "):
            why = f"{self._wiring.name}: {why}"
        if end is None:
            stderr: str = getattr(self._transport, "stderr", "")
            return HandshakeFailed(f"{why}{said}", stderr=stderr)
        return HandshakeFailed(f"{why}{said}", exit_code=end.exit_code, signal=end.signal, stderr=end.stderr)

    # -- calling ------------------------------------------------------------------------------------------------

    async def call(
        self,
        method: str,
        params: Any,
        *,
        read: Callable[[Raw], T] | None = None,
        key: Hashable | None = None,
    ) -> Any:
        """An ordinary call, answered within the limit for requests."""
        work = self.connection.request(method, params, read=read or self.result_of(method), key=key)
        try:
            return await self._deadlines.keep(work, method)
        except AuthRequired as error:
            error.methods = self.auth_methods
            raise

    async def patient_call(self, method: str, params: Any) -> Any:
        """A call that may take as long as a person does."""
        return await self.checked(self.connection.request(method, params, read=self.result_of(method)))

    async def streaming_call(
        self, method: str, params: Any, *, read: Callable[[Raw], T], key: str, still: Callable[[], bool]
    ) -> T:
        """A call whose updates are the point: only silence ends it."""
        seconds = self._limit
        return await self.checked(
            bounded(
                self.connection.request(method, params, read=read, key=key, streaming=True),
                lambda: RequestTimeout(
                    f"{method}: the agent was silent for {seconds:g} s before it answered"
                ),
                self.options.clock,
                seconds,
                heard=lambda: self.connection.heard,
                still=lambda: self.connection.paused or still(),
            )
        )

    async def checked(self, work: Any) -> Any:
        """Await a call; where the agent wants the user to sign in, the error carries the ways it offers."""
        try:
            return await work
        except AuthRequired as error:
            error.methods = self.auth_methods
            raise

    def result_of(self, method: str) -> Callable[[Raw], Any]:
        """How the result of a method is read."""
        read = self._results.get(method)
        if read is None:
            read = self._results[method] = self.reader.result_reader(_method(method))
        return read

    def notify(self, method: str, params: Any) -> None:
        """Send a notification."""
        self.connection.notify(method, params)

    async def aclose(self) -> None:
        """End the program; bounded, harmless twice."""
        # An agent that has died by itself before stays a dead one: its errors go on telling how.
        self.closing = self.closing or self.connection.end is None
        self._deadlines.stop()
        await self.connection.aclose()

    # -- the end ------------------------------------------------------------------------------------------------

    def closed_error(self, method: str, end: End) -> ConnectionClosed:
        """What the end of the agent means for a call that was open, or comes too late."""
        details: dict[str, Any] = {"exit_code": end.exit_code, "signal": end.signal, "stderr": end.stderr}
        if self.closing:
            return ConnectionClosed(f"{method} was not answered: {end.reason}", **details)
        if self._agreed is None:
            if not end.connected:
                return NeverStarted(end.reason)
            comma = "," if end.exit_code is None and end.signal is None else ""
            return self._handshake_failed(f"{end.reason}{comma} before initialize was answered", end)
        return type(self.death(end))(f"{method} was not answered: {end.reason}", **details)

    def death(self, end: End) -> ConnectionClosed:
        """The end of the agent by itself."""
        kind = (
            Killed if end.signal is not None else Crashed if end.exit_code is not None else ConnectionClosed
        )
        return kind(end.reason, exit_code=end.exit_code, signal=end.signal, stderr=end.stderr)

    def _ended(self, end: End) -> None:
        self._wiring.ended(self, end)

    def _observe(self, report: Report) -> None:
        if self._agreed is None and report.kind in ("noise", "invalid"):
            self._noise.append(report.frame[:_NOISE_SHOWN].decode(errors="replace"))
        self.options.observe(report)


def _method(name: str) -> Any:
    found = request("agent", name)
    assert found is not None, f"{name} is in the method table"
    return found
