"""Sends alerts: to the browsers that subscribed, to ntfy topics and to webhooks.

A question is sent once its record is in the log and it has been open for a moment, the end of a turn once
that is in the log. In a cluster, only the node that has the session sends.
"""

import asyncio
import ssl
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from importlib import import_module
from logging import getLogger
from secrets import token_hex
from typing import Final, NamedTuple, Protocol
from urllib.parse import urlsplit

from accord.clock import Clock, OwnedTasks, Timer, with_timeout
from accord.errors import AccordError, MissingExtra, StoreError
from accord.extras import is_installed
from accord.frontend.web_client import (
    BadUrl,
    ForbiddenHost,
    WebAccess,
    WebRefused,
    call_api,
    check_host,
    parse_url,
)
from accord.gateway.access.access_contracts import PushDevices, Tokens
from accord.gateway.access.access_tokens import TokenRights
from accord.gateway.access.push_devices import PushDevice
from accord.gateway.access.request_origin import RequestRefused
from accord.gateway.contracts import SessionLog
from accord.gateway.live_sessions import LiveSession
from accord.gateway.notifications.notification_settings import NotificationSettings
from accord.gateway.notifications.notification_targets import (
    Alert,
    AlertKind,
    NtfyTarget,
    OutgoingRequest,
    Target,
    WebhookTarget,
    WebPushTarget,
)
from accord.gateway.pending_requests import PERMISSION_METHOD, PendingRequest
from accord.safe_text import one_line
from accord.schema import RequestPermissionRequest

LOG = getLogger("accord.gateway.notifications")

RETRY_SECONDS: Final = (1.0, 10.0, 60.0)
"""Between the tries to send one alert to one target."""
_TRY_SECONDS: Final = 10.0
_MAX_RETRY_AFTER: Final = 600.0
_MAX_UNSENT: Final = 256
"""Alerts that are being sent. More are dropped."""
_MAX_ANSWER: Final = 512
_DEFAULT_CONTACT: Final = "mailto:accord@example.org"
_GONE: Final = (404, 410)
_NEW_TOKEN_SECONDS: Final = 60.0
"""Another node may have created a token that this one does not know yet."""


class CountPending(Protocol):
    """Counts the questions that wait for the user of a token."""

    def __call__(self, rights: TokenRights) -> int: ...


class TryResult(NamedTuple):
    """What came of one try to send."""

    error: str = ""
    """Empty if the target accepted it."""
    status: int = 0
    retry_after: float | None = None
    """Seconds; None if another try is useless."""


class Notifier:
    """Tells users on their devices, and other programs, about sessions."""

    def __init__(
        self,
        settings: NotificationSettings,
        devices: PushDevices,
        tokens: Tokens,
        count_pending: CountPending,
        *,
        clock: Clock,
        folders: tuple[str, ...] | None = None,
        now: Callable[[], float] = time.time,
        retry_seconds: Sequence[float] = RETRY_SECONDS,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`folders` bound every token. `tls` are the trusted certificates; by default those of the system."""
        self.devices: PushDevices = devices
        self.link: str | None = None
        """The gateway's address for other devices, if it has one."""
        self._settings = settings
        self._tokens = tokens
        self._count_pending = count_pending
        self._clock = clock
        self._folders = folders
        self._now = now
        self._retry_seconds = retry_seconds
        self._access = WebAccess(allowed=settings.allow_hosts, tls=tls)
        self._tasks = OwnedTasks(clock, grace=1.0, on_failure=_log_failure)
        self._open: dict[str, Timer | None] = {}
        """The open questions by their id, with the timer until they are sent."""

    async def aclose(self) -> None:
        """Stop; what is not sent is dropped."""
        for timer in self._open.values():
            if timer is not None:
                timer.cancel()
        self._open.clear()
        await self._tasks.end()

    # -- what happens in sessions

    def request_added(self, pending: PendingRequest) -> None:
        """Send a question if it is still open after a moment."""
        session, id = pending.session, pending.inbox_id
        if session is None:
            return
        self._open[id] = None

        def send() -> None:
            if id in self._open:
                self._open[id] = None
                self._send_to_all(_question_alert(pending, session), session.folders)

        def on_commit() -> None:
            if id in self._open:
                self._open[id] = self._clock.call_later(self._settings.delay, send)

        _when_committed(session.log, on_commit)

    def request_removed(self, pending: PendingRequest) -> None:
        """A question is not open any more."""
        timer = self._open.pop(pending.inbox_id, None)
        if timer is not None:
            timer.cancel()

    def turn_ended(self, session: LiveSession) -> None:
        """Send that a turn has ended, unless a user has canceled it."""
        end = session.last_end
        if end is None or end.stop_reason == "cancelled":
            return
        kind: AlertKind = "turn_ended" if end.error is None else "turn_failed"
        alert = _alert(kind, session)
        _when_committed(session.log, lambda: self._send_to_all(alert, session.folders))

    # -- sending

    def _send_to_all(self, alert: Alert, folders: Iterable[str]) -> None:
        if len(self._tasks.keys) >= _MAX_UNSENT:
            LOG.warning("an alert is dropped: %d others are being sent", _MAX_UNSENT)
            return
        for target in self.own_targets():
            if alert.event in target.events:
                self._tasks.start(self._send(target, alert))
        self._tasks.start(self._send_to_devices(alert, tuple(folders)))

    def own_targets(self) -> list[Target]:
        """The topics and webhooks of the settings."""
        return [
            *(NtfyTarget(settings, self.link) for settings in self._settings.ntfy),
            *(WebhookTarget(settings, self.link) for settings in self._settings.webhooks),
        ]

    async def _send_to_devices(self, alert: Alert, folders: tuple[str, ...]) -> None:
        for device in self.devices.all():
            rights = await self._rights_of(device)
            if (
                rights is not None
                and alert.event in device.events
                and rights.may_see(alert.agent, alert.session_id, folders)
                and not (alert.event == "waits" and rights.read_only)
            ):
                self._tasks.start(self._send_to_device(device, rights, alert))

    async def _rights_of(self, device: PushDevice) -> TokenRights | None:
        """The rights of the device's user; None, and the device is removed, if its token has ended."""
        token = self._tokens.get(device.token)
        now = self._now()
        if token is not None and self._tokens.is_valid(token.id):
            return token.rights().restricted_to(self._folders)
        if now - device.created > _NEW_TOKEN_SECONDS:
            await self._remove(device)
        return None

    async def _remove(self, device: PushDevice) -> None:
        try:
            await self.devices.remove(device.id)
        except StoreError as error:
            LOG.debug("device %s is removed later: %s", device.id, error)

    async def _send_to_device(self, device: PushDevice, rights: TokenRights, alert: Alert) -> str:
        try:
            target = await self._push_target(device, self._count_pending(rights))
        except (AccordError, OSError, ValueError) as error:
            LOG.warning("no device is notified: %s", error)
            return str(error)
        result = await self._send(target, alert)
        if result.status in _GONE:
            await self._remove(device)
        return result.error

    async def _push_target(self, device: PushDevice, pending: int) -> WebPushTarget:
        secret = await self.server_secret()
        return WebPushTarget(device, secret, self.contact, pending)

    @property
    def contact(self) -> str:
        """The address for the push services."""
        if self._settings.contact is not None:
            return self._settings.contact
        link = urlsplit(self.link or "")
        host = link.hostname or ""
        is_name = host[-1:].isalpha() and ":" not in host  # push services refuse addresses
        return f"https://{host}" if link.scheme == "https" and is_name else _DEFAULT_CONTACT

    async def server_secret(self) -> bytes:
        """The secret of the key that subscriptions are bound to. Raises MissingExtra, OSError, StoreError."""
        if not is_installed("push"):
            raise MissingExtra("push", "Web Push")
        # Importing the library takes a while.
        web_push = await asyncio.to_thread(import_module, "accord.gateway.notifications.web_push")
        return await self.devices.server_secret(web_push.new_secret)

    def check_endpoint(self, endpoint: str) -> None:
        """Raise RequestRefused for the address of a push service that may not be called."""
        try:
            check_host(parse_url(endpoint), self._access)
        except (BadUrl, WebRefused) as error:
            raise RequestRefused(400, f"The endpoint cannot be used: {error}.") from None

    async def send_test(self, target: Target | PushDevice) -> str:
        """Send a test alert, once; return why it failed, or an empty text."""
        alert = Alert(id=_new_id(), kind="test", at=_iso_now())
        if isinstance(target, PushDevice):
            token = self._tokens.get(target.token)
            pending = 0 if token is None else self._count_pending(token.rights().restricted_to(self._folders))
            target = await self._push_target(target, pending)
        result = await self._try(target, alert)
        if isinstance(target, WebPushTarget) and result.status in _GONE:
            await self._remove(target.device)
        return result.error

    async def _send(self, target: Target, alert: Alert) -> TryResult:
        """Send an alert, again after a temporary failure while it is of use."""
        pauses = iter(self._retry_seconds)
        while True:
            result = await self._try(target, alert)
            if not result.error:
                return result
            pause = next(pauses, None)
            if result.retry_after is None or pause is None:
                break
            await self._clock.sleep(max(pause, min(result.retry_after, _MAX_RETRY_AFTER)))
            if alert.request_id and alert.request_id not in self._open:
                return result  # it was answered meanwhile
        if result.status not in _GONE:
            LOG.warning("%s was not notified: %s", target.name, result.error)
        return result

    async def _try(self, target: Target, alert: Alert) -> TryResult:
        try:
            request = target.request(alert, self._now())
            return await with_timeout(self._post(request), _TRY_SECONDS, self._clock)
        except TimeoutError:
            return TryResult(f"no answer in {_TRY_SECONDS:g} seconds", retry_after=0)
        except ForbiddenHost as error:
            return TryResult(f"{error}; name it in allowHosts of serve.json if you trust it")
        except WebRefused as error:
            return TryResult(str(error), retry_after=0)
        except (AccordError, OSError, ValueError) as error:
            return TryResult(str(error))

    async def _post(self, request: OutgoingRequest) -> TryResult:
        url = request.url
        if url.scheme != "https" and not self._access.is_listed(url.host, url.host):
            return TryResult(f"{url.host} is not encrypted; use https, or name the host in allowHosts")
        page = await call_api(url, self._access, request.headers, request.body, limit=_MAX_ANSWER)
        status = page.head.status
        if 200 <= status < 300:
            return TryResult(status=status)
        text = one_line(page.data.decode(errors="replace"), 200)
        error = f"status {status}" + (f": {text}" if text else "")
        if status == 429 or status >= 500:
            return TryResult(error, status, _seconds(page.head.headers.get("retry-after", "")))
        return TryResult(error, status)


def _question_alert(pending: PendingRequest, session: LiveSession) -> Alert:
    is_permission = pending.method == PERMISSION_METHOD
    if isinstance(pending.params, RequestPermissionRequest):
        call = pending.call
        summary = call.title if call is not None and call.title else ""
    else:
        message = getattr(pending.params, "message", "")
        summary = message if isinstance(message, str) else ""
    kind: AlertKind = "permission_requested" if is_permission else "question_asked"
    return _alert(kind, session, pending.inbox_id, summary)


def _alert(kind: AlertKind, session: LiveSession, request_id: str = "", summary: str = "") -> Alert:
    recorded = session.log.summary
    title = session.title or (recorded.title if recorded is not None else None)
    return Alert(
        id=_new_id(),
        kind=kind,
        at=_iso_now(),
        agent=session.agent.name,
        session_id=session.id,
        request_id=request_id,
        title=one_line(title or ""),
        summary=one_line(summary),
    )


def _when_committed(log: SessionLog, then: Callable[[], None]) -> None:
    """Call `then` once everything appended so far is committed; not at all if that fails."""

    def on_commit(error: StoreError | None) -> None:
        if error is None:
            then()

    log.when(log.noted, on_commit)


def _new_id() -> str:
    return f"msg_{token_hex(16)}"


def _iso_now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _seconds(text: str) -> float:
    """The value of `Retry-After`; 0 for a date, or none."""
    return float(text) if text.isascii() and text.isdecimal() and len(text) < 7 else 0.0


def _log_failure(error: BaseException) -> None:
    LOG.error("sending an alert failed: %s", type(error).__name__)
