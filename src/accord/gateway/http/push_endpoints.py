"""The endpoints of Web Push: the gateway's key, and the browsers that get notifications.

HTTP and not ACP, because a service worker calls them while no page is open.
"""

import time
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct

from accord.errors import AccordError, BadSettings, MissingExtra, StoreError
from accord.gateway.access.access_tokens import TokenRights
from accord.gateway.access.push_devices import MAX_ENDPOINT, NotifiedEvent, PushDevice, device_id
from accord.gateway.access.request_origin import RequestRefused
from accord.gateway.access.resource_limits import TokenBucket
from accord.gateway.http.http_exchange import HttpExchange, answer_later, send_error, send_response
from accord.gateway.http.server_state import HttpServerState
from accord.gateway.notifications.notifier import Notifier
from accord.schema.codec import encode

T = TypeVar("T")
_Handler: TypeAlias = Callable[[HttpExchange, TokenRights, T], Coroutine[Any, Any, None]]

_MAX_BODY: Final = 8 * 1024
_MAX_KEY: Final = 128
_TESTS_PER_SECOND: Final = 0.2
_TESTS_AT_ONCE: Final = 5.0


class _Keys(Struct, frozen=True):
    p256dh: Annotated[str, Meta(max_length=_MAX_KEY)]
    auth: Annotated[str, Meta(max_length=_MAX_KEY)]


class _Subscription(Struct, frozen=True):
    """What `PushSubscription.toJSON` of a browser returns, and which events the user chose."""

    endpoint: Annotated[str, Meta(max_length=MAX_ENDPOINT)]
    keys: _Keys
    events: Annotated[tuple[NotifiedEvent, ...], Meta(max_length=2)]
    previous: Annotated[str, Meta(max_length=MAX_ENDPOINT)] = ""
    """The endpoint that the browser had before."""


class _Endpoint(Struct, frozen=True):
    endpoint: Annotated[str, Meta(max_length=MAX_ENDPOINT)]


class PushEndpoints:
    """They raise RequestRefused."""

    def __init__(self, server_state: HttpServerState) -> None:
        self._server_state = server_state
        self._tests = TokenBucket(server_state.clock, _TESTS_PER_SECOND, _TESTS_AT_ONCE)

    def key(self, exchange: HttpExchange) -> None:
        """Answer with the public key that subscriptions are bound to."""
        self._server_state.authenticate_user(exchange)
        answer_later(self._server_state, exchange, self._send_key(exchange))

    def subscribe(self, exchange: HttpExchange) -> None:
        """Add a browser, or change which events it gets."""
        self._read(exchange, _Subscription, self._subscribe)

    def remove(self, exchange: HttpExchange) -> None:
        """Remove a browser of this token."""
        self._read(exchange, _Endpoint, self._remove)

    def test(self, exchange: HttpExchange) -> None:
        """Send a notification to a browser of this token now."""
        self._read(exchange, _Endpoint, self._test)

    def _read(self, exchange: HttpExchange, kind: type[T], handler: _Handler[T]) -> None:
        """Read the body of an authenticated request, and run its handler as a task."""
        server_state = self._server_state
        rights = server_state.authenticate_user(exchange)

        def on_body(body: bytes | None) -> None:
            try:
                value = _decode(body, kind)
            except RequestRefused as refusal:
                send_error(server_state, exchange, refusal)
            else:
                answer_later(server_state, exchange, handler(exchange, rights, value))

        exchange.read_body(_MAX_BODY, on_body)

    async def _send_key(self, exchange: HttpExchange) -> None:
        secret = await self._server_secret()
        from accord.gateway.notifications import web_push

        key = web_push.to_base64(web_push.ServerKey(secret).public)
        self._answer(exchange, {"key": key})

    async def _subscribe(
        self, exchange: HttpExchange, rights: TokenRights, subscription: _Subscription
    ) -> None:
        await self._server_secret()
        devices = self._notifier.devices
        device = _device(subscription, rights.token)
        self._notifier.check_endpoint(device.endpoint)
        known = devices.find(device.id)
        if known is not None and msgspec.structs.replace(known, created=device.created) == device:
            self._answer(exchange, {"id": device.id})  # a page tells it at each start
            return
        try:
            previous = devices.find(device_id(subscription.previous))
            if previous is not None and previous.token == rights.token and previous.id != device.id:
                await devices.remove(previous.id)
            await devices.add(device)
        except (OSError, StoreError) as error:
            raise RequestRefused(507, f"Cannot store the subscription: {error}.") from None
        self._record(rights, "notifications on", device)
        self._answer(exchange, {"id": device.id})

    async def _remove(self, exchange: HttpExchange, rights: TokenRights, named: _Endpoint) -> None:
        device = self._own_device(rights, named)
        if device is not None:
            try:
                await self._notifier.devices.remove(device.id)
            except StoreError as error:
                raise RequestRefused(503, f"Cannot remove the subscription: {error}.") from None
            self._record(rights, "notifications off", device)
        send_response(self._server_state, exchange, 204)

    async def _test(self, exchange: HttpExchange, rights: TokenRights, named: _Endpoint) -> None:
        device = self._own_device(rights, named)
        if device is None:
            raise RequestRefused(404, "This browser is not subscribed; turn notifications on again.")
        if wait := self._tests.take(1):
            raise RequestRefused(429, "Too many tests; try again later.", {"Retry-After": str(int(wait) + 1)})
        try:
            error = await self._notifier.send_test(device)
        except (AccordError, OSError) as failure:
            error = str(failure)
        if error:
            raise RequestRefused(502, f"The push service did not accept it: {error}")
        send_response(self._server_state, exchange, 204)

    def _own_device(self, rights: TokenRights, named: _Endpoint) -> PushDevice | None:
        """The browser with this endpoint, if this token has subscribed it."""
        device = self._notifier.devices.find(device_id(named.endpoint))
        return device if device is not None and device.token == rights.token else None

    @property
    def _notifier(self) -> Notifier:
        if self._server_state.notifier is None:
            raise RequestRefused(501, "This server sends no notifications.")
        return self._server_state.notifier

    async def _server_secret(self) -> bytes:
        try:
            return await self._notifier.server_secret()
        except MissingExtra as error:
            raise RequestRefused(501, f"{error}.") from None
        except (OSError, StoreError, BadSettings) as error:
            raise RequestRefused(503, f"Cannot store the key of notifications: {error}.") from None

    def _record(self, rights: TokenRights, event: str, device: PushDevice) -> None:
        audit = self._server_state.authenticator.audit
        if audit is not None:
            audit.record(rights, event, device=device.id, events=", ".join(device.events))

    def _answer(self, exchange: HttpExchange, value: object) -> None:
        send_response(self._server_state, exchange, 200, encode(value), "application/json")


def _device(subscription: _Subscription, token: str) -> PushDevice:
    """The device of a subscription. Raises RequestRefused for one that cannot be used."""
    from accord.gateway.notifications import web_push

    try:
        key = web_push.from_base64(subscription.keys.p256dh)
        web_push.check_public_key(key)
        device = {
            "endpoint": subscription.endpoint,
            "browser_key": key,
            "secret": web_push.from_base64(subscription.keys.auth),
            "token": token,
            "events": subscription.events,
            "created": time.time(),
        }
        return msgspec.convert(device, PushDevice)
    except (ValueError, msgspec.MsgspecError, AccordError) as error:
        raise RequestRefused(400, f"The subscription cannot be used: {error}.") from None


def _decode(body: bytes | None, kind: type[T]) -> T:
    if body is None:
        raise RequestRefused(413, f"The body is larger than {_MAX_BODY} bytes.")
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.MsgspecError as error:
        raise RequestRefused(400, f"The body is not as expected: {error}.") from None
