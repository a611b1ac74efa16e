"""The connection of a node to the NATS servers.

It reconnects for good, buffers nothing while it is not connected, and notices a silent server within seconds.
A request that was not answered raises `NatsUnavailable`: whether it was carried out is unknown.
"""

import asyncio
import re
import ssl
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from logging import getLogger
from pathlib import Path
from typing import Any, Final, Protocol, cast

from nats.aio.client import DEFAULT_FLUSH_TIMEOUT, Client
from nats.aio.msg import Msg
from nats.errors import (
    AuthorizationError,
    Error,
    MaxPayloadError,
    NoRespondersError,
    NoServersError,
    OutboundBufferLimitError,
    SlowConsumerError,
    StaleConnectionError,
)

from accord.clock import SYSTEM_CLOCK, Clock, OwnedTasks, within
from accord.cluster.settings import ClusterSettings, shown_server
from accord.errors import AccordError, StoreError, UsageError
from accord.safe_text import clean_line

LOG = getLogger("accord.cluster")

OLDEST_SERVER: Final = (2, 12)
MIN_PAYLOAD: Final = 1024 * 1024
"""The smallest `max_payload` of a server: parts of 512 KiB and their headers must fit."""
REQUEST_SECONDS: Final = 5.0
CONNECT_SECONDS: Final = 5.0
"""How long the first connection may take, for servers that start at the same time."""
INBOX: Final = "_INBOX."
"""Begins the subjects of answers."""
_RECONNECT_PAUSE: Final = 0.2
_REPLACE_PAUSE: Final = 1.0
_PING_SECONDS: Final = 2
_PENDING_MESSAGES: Final = 65_536
_PENDING_BYTES: Final = 64 * 1024 * 1024
_CLOSE_SECONDS: Final = 2.0
_AUTHORIZATION: Final = re.compile(r"authorization|authentication|user credentials", re.IGNORECASE)
_PERMISSION: Final = re.compile(r"permissions violation", re.IGNORECASE)


def boot_time() -> float:
    """Seconds of a clock that never goes back and also counts while the machine sleeps."""
    clock_id = getattr(time, "CLOCK_BOOTTIME", None)
    if clock_id is None:
        clock_id = getattr(time, "CLOCK_MONOTONIC", None)  # counts sleep on macOS, unlike time.monotonic
    return time.monotonic() if clock_id is None else time.clock_gettime(clock_id)


class NatsUnavailable(StoreError):
    """No NATS server answered. Whether it carried the request out is unknown."""


class NoResponders(NatsUnavailable):
    """No process serves the subject now."""


class NatsRefused(StoreError):
    """A NATS server refused a request; `code` is JetStream's error code."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code: int = code


class NatsMessage(Protocol):
    """A received message."""

    subject: str
    reply: str
    data: bytes
    headers: dict[str, str] | None


class NatsSubscription:
    """A subject whose messages go to a callback, in order. It outlasts the connection."""

    def __init__(self, subject: str, receive: Callable[[NatsMessage], None]) -> None:
        self.subject: str = subject
        self.receive: Callable[[NatsMessage], None] = receive
        self.current: Any = None
        """The subscription of the current client."""

    async def on_message(self, message: Msg) -> None:
        self.receive(cast(NatsMessage, message))


class _NotEncrypted(Error):
    """The server does not use TLS, and the settings require it."""


class _NatsClient(Client):
    """A client that sends no credentials over an unencrypted connection if it must use TLS."""

    def __init__(self, requires_tls: bool) -> None:
        super().__init__()
        self._requires_tls = requires_tls

    @property
    def is_encrypted(self) -> bool:
        scheme = "" if self._current_server is None else self._current_server.uri.scheme
        return scheme == "wss" or (bool(self._server_info.get("tls_required")) and scheme != "ws")

    def _connect_command(self) -> bytes:
        if self._requires_tls and not self.is_encrypted:
            raise _NotEncrypted("the server does not use TLS")
        return super()._connect_command()

    async def flush(self, timeout: int = DEFAULT_FLUSH_TIMEOUT) -> None:
        await self._flush_pending(force_flush=True)  # the library's PING overtakes what is not yet written
        await super().flush(timeout)


class NatsConnection:
    """A connection to a NATS cluster; created by `connect`."""

    def __init__(
        self,
        settings: ClusterSettings,
        name: str,
        password: str | None,
        clock: Clock,
    ) -> None:
        self.settings: ClusterSettings = settings
        self.clock: Clock = clock
        self.on_change: list[Callable[[bool], None]] = []
        """Called with whether a server is connected, after each change and when messages were dropped."""
        self.reconnects: int = 0
        self.dropped_messages: int = 0
        """How many messages were dropped because this process read too slowly."""
        self._name = name
        self._password = password
        self._subscriptions: list[NatsSubscription] = []
        self._last_error: Exception | None = None
        self._first_failure: asyncio.Future[Exception] | None = None
        """While the first connection is made: the error after which trying again is useless."""
        self._closing = False
        self._reported = True
        self._lost_at: float | None = None
        self._replacing: asyncio.Task[None] | None = None
        self._tasks = OwnedTasks(clock, grace=_CLOSE_SECONDS)
        self._client = _NatsClient(settings.uses_tls)

    # -- connecting

    async def open(self, seconds: float = CONNECT_SECONDS) -> None:
        """Connect for the first time. Raises UsageError with one clear line."""
        shown = ", ".join(map(shown_server, self.settings.servers))
        self._first_failure = asyncio.get_running_loop().create_future()
        connecting = self._tasks.start(self._connect())
        first = asyncio.ensure_future(
            asyncio.wait((connecting, self._first_failure), return_when=asyncio.FIRST_COMPLETED)
        )
        try:
            in_time = await within(self.clock, seconds, first)
            if connecting.done() and connecting.exception() is None:
                self._check_server(shown)
                return
            if self._first_failure.done():
                error: BaseException | None = self._first_failure.result()
            else:
                error = connecting.exception() if connecting.done() else self._last_error
        except BaseException:
            await self.aclose()
            raise
        finally:
            first.cancel()
            self._first_failure = None
        await self._tasks.end((connecting,))
        await self.aclose()
        if isinstance(error, AccordError):
            raise error
        raise UsageError(_explain(error, shown, in_time))

    async def _connect(self) -> None:
        settings = self.settings
        options: dict[str, Any] = {}
        if settings.credentials is not None:
            options["user_credentials"] = credentials_file(settings.credentials)
        if settings.user is not None:
            options["user"] = settings.user
            options["password"] = self._password
        if (context := _tls_context(settings)) is not None:
            options["tls"] = context
        try:
            await self._client.connect(
                list(settings.servers),
                name=self._name,
                error_cb=self._on_error,
                disconnected_cb=self._on_disconnect,
                reconnected_cb=self._on_reconnect,
                closed_cb=self._on_closed,
                connect_timeout=2,
                reconnect_time_wait=cast(int, _RECONNECT_PAUSE),
                max_reconnect_attempts=-1,
                ping_interval=_PING_SECONDS,
                max_outstanding_pings=2,
                pending_size=0,  # what is sent while no server is connected must fail, not come later
                inbox_prefix=f"{INBOX}{self._name}",
                **options,
            )
        except ModuleNotFoundError:
            raise UsageError(
                "cluster: credentials need `pip install 'nats-py[nkeys]'`; or use a client certificate"
            ) from None

    def _check_server(self, shown: str) -> None:
        version = self._client.connected_server_version
        if (version.major, version.minor) < OLDEST_SERVER:
            self._closing = True
            raise UsageError(
                f"the NATS server at {shown} is too old ({version.major}.{version.minor}.{version.patch}); "
                f"use {OLDEST_SERVER[0]}.{OLDEST_SERVER[1]} or newer"
            )
        if self._client.max_payload < MIN_PAYLOAD:
            raise UsageError(
                f"the NATS server at {shown} has max_payload {self._client.max_payload}; set it to 1MB"
            )

    @property
    def is_connected(self) -> bool:
        return self._client.is_connected

    @property
    def silent_seconds(self) -> float:
        """How long no server has been connected; 0 while one is."""
        return 0.0 if self._lost_at is None else boot_time() - self._lost_at

    @property
    def server_version(self) -> str:
        """The version of the connected server."""
        version = self._client.connected_server_version
        return f"{version.major}.{version.minor}.{version.patch}"

    @property
    def is_encrypted(self) -> bool:
        """Whether the connection uses TLS."""
        return self._client.is_connected and self._client.is_encrypted

    async def aclose(self) -> None:
        """Close the connection, in bounded time."""
        self._closing = True
        closing = self._tasks.start(self._close_client())
        await within(self.clock, _CLOSE_SECONDS, closing)
        await self._tasks.end()

    async def _close_client(self) -> None:
        try:
            await self._client.close()
        except (AssertionError, Error, OSError):
            pass  # it never connected, or the connection is lost
        _close_transport(self._client)

    # -- messages

    async def request(
        self,
        subject: str,
        data: bytes = b"",
        headers: dict[str, str] | None = None,
        seconds: float = REQUEST_SECONDS,
    ) -> NatsMessage:
        """Send a request and wait for its answer. Raises NatsUnavailable, NatsRefused."""
        if not self._client.is_connected:
            self._replace_if_closed()
            raise NatsUnavailable("no NATS server is connected")
        try:
            with _keeps_cancel():
                answer = await self._client.request(subject, data, timeout=seconds, headers=headers)
            return cast(NatsMessage, answer)
        except NoRespondersError:
            raise NoResponders(f"no NATS server serves {subject} now") from None
        except MaxPayloadError:
            raise NatsRefused(f"a message of {len(data)} bytes is too large for the NATS server") from None
        except OutboundBufferLimitError:
            raise NatsUnavailable("no NATS server is connected") from None
        except (Error, OSError) as error:
            self._replace_if_closed()
            raise NatsUnavailable(f"no NATS server answered ({_text(error)})") from None

    async def publish(self, subject: str, data: bytes, reply: str = "", **headers: str) -> bool:
        """Send a message that needs no answer; return False if no server is connected."""
        try:
            await self._client.publish(subject, data, reply, headers or None)
        except (Error, OSError):
            self._replace_if_closed()
            return False
        return True

    async def subscribe(self, subject: str, receive: Callable[[NatsMessage], None]) -> NatsSubscription:
        """Call back with every message of a subject, also after reconnecting. Messages can be missed."""
        subscription = NatsSubscription(subject, receive)
        self._subscriptions.append(subscription)
        await self._subscribe(subscription)
        return subscription

    async def _subscribe(self, subscription: NatsSubscription) -> None:
        try:
            subscribe = cast(Callable[..., Awaitable[Any]], getattr(self._client, "subscribe"))  # noqa: B009
            subscription.current = await subscribe(
                subscription.subject,
                cb=subscription.on_message,
                pending_msgs_limit=_PENDING_MESSAGES,
                pending_bytes_limit=_PENDING_BYTES,
            )
        except (Error, OSError) as error:
            raise NatsUnavailable(f"cannot subscribe to {subscription.subject} ({_text(error)})") from None

    async def unsubscribe(self, subscription: NatsSubscription) -> None:
        """End a subscription; may be repeated."""
        if subscription not in self._subscriptions:
            return
        self._subscriptions.remove(subscription)
        try:
            await cast(Awaitable[None], subscription.current.unsubscribe())
        except (Error, OSError):
            pass  # the connection is closed, and the subscription with it

    def new_inbox(self) -> str:
        """A subject for answers to this connection."""
        return self._client.new_inbox()

    async def flush(self) -> None:
        """Wait until the server has everything sent so far. Raises NatsUnavailable."""
        try:
            with _keeps_cancel():
                await self._client.flush(timeout=int(REQUEST_SECONDS))
        except (Error, OSError) as error:
            raise NatsUnavailable(f"no NATS server answered ({_text(error)})") from None

    # -- what the client library reports

    async def _on_error(self, error: Exception) -> None:
        self._last_error = error
        if not self._client.is_connected:
            _close_transport(self._client)  # of the failed attempt
        if isinstance(error, SlowConsumerError):
            self.dropped_messages += 1
            if self.dropped_messages == 1:
                LOG.warning("messages of the NATS server were dropped: this process reads too slowly")
            for callback in tuple(self.on_change):
                callback(self._client.is_connected)
        elif self._first_failure is not None:
            if _is_final(error) and not self._first_failure.done():
                self._first_failure.set_result(error)
        elif _PERMISSION.search(str(error)):
            LOG.error("the NATS server forbids what this node needs: %s", _text(error))
        elif _AUTHORIZATION.search(str(error)):
            LOG.error("the NATS server rejects this node's credentials; trying on")

    async def _on_disconnect(self) -> None:
        open_requests = cast("dict[str, asyncio.Future[Any]]", getattr(self._client, "_resp_map", {}))
        for future in tuple(open_requests.values()):
            if not future.done():  # its caller would wait for its time limit
                future.set_exception(StaleConnectionError())
                future.exception()  # its caller may have given up
        if not self._closing and self._first_failure is None:
            LOG.warning("the connection to the NATS server is lost; connecting again")
            self._report(False)

    async def _on_reconnect(self) -> None:
        self.reconnects += 1
        LOG.info("connected to a NATS server again")
        self._report(True)

    async def _on_closed(self) -> None:
        self._replace_if_closed()

    def _replace_if_closed(self) -> None:
        """Replace a client that gave up, as it does after some errors that a server reports."""
        if (
            self._client.is_closed
            and not self._closing
            and self._first_failure is None
            and self._replacing is None
        ):
            LOG.error("the NATS server closed the connection (%s); connecting anew", _text(self._last_error))
            self._report(False)
            self._replacing = self._tasks.start(self._replace_client())

    async def _replace_client(self) -> None:
        while True:
            _close_transport(self._client)
            self._client = _NatsClient(self.settings.uses_tls)
            try:
                await self._connect()
                for subscription in tuple(self._subscriptions):
                    await self._subscribe(subscription)
                break
            except (AccordError, Error, OSError) as error:
                LOG.error("no new connection to the NATS servers (%s); trying on", _text(error))
                await self.clock.sleep(_REPLACE_PAUSE)
        self._replacing = None
        await self._on_reconnect()

    def _report(self, connected: bool) -> None:
        if self._reported == connected:
            return
        self._reported = connected
        self._lost_at = None if connected else boot_time()
        for callback in tuple(self.on_change):
            callback(connected)


async def connect(
    settings: ClusterSettings,
    name: str,
    *,
    password: str | None = None,
    seconds: float = CONNECT_SECONDS,
    clock: Clock = SYSTEM_CLOCK,
) -> NatsConnection:
    """Connect to the servers of the settings; `name` is shown by the servers. Raises UsageError."""
    if settings.password_file is not None:
        password = read_password(settings.password_file)
    connection = NatsConnection(settings, name, password, clock)
    await connection.open(seconds)
    return connection


def read_password(path: str) -> str:
    """The password in a file. Raises UsageError."""
    try:
        return Path(path).expanduser().read_text().strip()
    except (OSError, UnicodeError) as error:
        raise UsageError(f"cluster: cannot read passwordFile {path!r} ({error})") from None


def readable_file(path: str, name: str) -> str:
    """The path of a file in the settings. Raises UsageError."""
    file = Path(path).expanduser()
    if not file.is_file():
        raise UsageError(f"cluster: the {name} file {path!r} does not exist")
    return str(file)


def credentials_file(path: str) -> str:
    """The path of a `.creds` file. Raises UsageError."""
    file = readable_file(path, "credentials")
    try:
        text = Path(file).read_text()
    except (OSError, UnicodeError) as error:
        raise UsageError(f"cluster: cannot read credentials {path!r} ({error})") from None
    if "BEGIN NATS USER JWT" not in text or "BEGIN USER NKEY SEED" not in text:
        raise UsageError(f"cluster: {path!r} is not a .creds file; `nsc generate creds` makes one")
    return file


def _tls_context(settings: ClusterSettings) -> ssl.SSLContext | None:
    if not settings.uses_tls:
        return None
    try:
        context = ssl.create_default_context(
            cafile=None if settings.tls_ca is None else readable_file(settings.tls_ca, "tlsCa")
        )
        if settings.tls_cert is not None and settings.tls_key is not None:
            context.load_cert_chain(
                readable_file(settings.tls_cert, "tlsCert"), readable_file(settings.tls_key, "tlsKey")
            )
    except (ssl.SSLError, OSError) as error:
        raise UsageError(f"cluster: cannot use the TLS files ({error})") from None
    return context


@contextmanager
def _keeps_cancel() -> Generator[None]:
    """Raise CancelledError if the task was canceled in the block.

    `asyncio.wait_for` of Python 3.11 loses a cancel that comes together with the answer, or with its error.
    """
    task = asyncio.current_task()
    cancels = 0 if task is None else task.cancelling()
    try:
        yield
    finally:
        if task is not None and task.cancelling() > cancels:
            raise asyncio.CancelledError


def _close_transport(client: Client) -> None:
    """Close the socket, which the client library leaves open after some errors."""
    transport = getattr(client, "_transport", None)
    if transport is not None and transport:  # false before its first connection
        transport.close()


def _is_final(error: Exception) -> bool:
    """Whether trying again at the start is useless."""
    return isinstance(error, AuthorizationError | ssl.SSLError | _NotEncrypted) or bool(
        _AUTHORIZATION.search(str(error))
    )


def _explain(error: BaseException | None, shown: str, in_time: bool) -> str:
    if error is not None and _AUTHORIZATION.search(str(error)):
        return (
            f"the NATS server at {shown} rejects this node; check user and passwordFile, credentials or "
            "tlsCert in the cluster settings"
        )
    if isinstance(error, _NotEncrypted):
        return (
            f"the NATS server at {shown} does not use TLS; set it up there, or use nats:// addresses and "
            "insecure in a network that you trust"
        )
    if isinstance(error, ssl.SSLError):
        return (
            f"no encrypted connection to the NATS server at {shown} ({_text(error)}); check tlsCa, tlsCert "
            "and tlsKey in the cluster settings"
        )
    if error is None or isinstance(error, NoServersError | OSError) or not in_time:
        reason = f" ({_text(error)})" if error is not None else ""
        return f"no NATS server answers at {shown}{reason}; start one, or check the address"
    return f"cannot connect to the NATS server at {shown} ({_text(error)})"


def _text(error: BaseException | None) -> str:
    text = str(error or "").removeprefix("nats: ").strip(" '\"") or type(error).__name__
    return clean_line(text)[:200]
