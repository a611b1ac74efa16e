"""What is sent for an alert: a Web Push message, a message to an ntfy topic, or a signed webhook.

Nothing says what a session is about, unless the settings ask for it: a lock screen and a relay show it to
others.
"""

import base64
import hashlib
import hmac
import secrets
from binascii import Error as Base64Error
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias
from urllib.parse import quote, urlsplit

from msgspec import Struct

from accord.errors import BadSettings
from accord.frontend.web_client import Url, parse_url
from accord.gateway.access.push_devices import NotifiedEvent, PushDevice
from accord.gateway.notifications.notification_settings import NtfySettings, WebhookSettings, shown_url
from accord.paths import data_dir
from accord.private_files import create_file, private_folder
from accord.schema.codec import encode

AlertKind: TypeAlias = Literal["permission_requested", "question_asked", "turn_ended", "turn_failed", "test"]

WAIT_SECONDS: Final = 12 * 3600
"""How long a push service keeps a message for a device that sleeps."""
_SECRET_PREFIX: Final = "whsec_"
_TITLE: Final = "Accord"
_TEXTS: Final[dict[AlertKind, str]] = {
    "permission_requested": "A session asks for permission.",
    "question_asked": "A session has a question for you.",
    "turn_ended": "A session is done.",
    "turn_failed": "A turn has failed.",
    "test": "Notifications work.",
}
_TAGS: Final[dict[AlertKind, str]] = {"turn_ended": "white_check_mark", "turn_failed": "warning"}


class Alert(Struct, frozen=True, kw_only=True):
    """Something that users are told."""

    id: str
    kind: AlertKind
    at: str
    """An ISO time."""
    agent: str = ""
    session_id: str = ""
    request_id: str = ""
    """The id of the question in the inbox."""
    title: str = ""
    """Of the session. Sent only where the settings say so, and so is `summary`."""
    summary: str = ""
    """What the agent asks for."""

    @property
    def event(self) -> NotifiedEvent:
        return "done" if self.kind in ("turn_ended", "turn_failed") else "waits"

    @property
    def route(self) -> str:
        """The part of the page's address after the path: the question, or the session."""
        if self.request_id:
            return f"#/inbox/{quote(self.request_id, safe='')}"
        if not self.session_id:
            return "#/"
        return f"#/session/{quote(self.agent, safe='')}/{quote(self.session_id, safe='')}"


class OutgoingRequest(Struct, frozen=True):
    """One POST."""

    url: Url
    headers: dict[str, str]
    body: bytes


class Target(Protocol):
    """A place that alerts are sent to."""

    @property
    def name(self) -> str:
        """For the log: without what is secret."""
        ...

    @property
    def events(self) -> tuple[NotifiedEvent, ...]: ...

    def request(self, alert: Alert, now: float) -> OutgoingRequest:
        """Return the request of one try. `now` is in seconds since 1970. Raises UsageError, OSError."""
        ...


class WebPushTarget:
    """One browser, through its push service."""

    def __init__(self, device: PushDevice, server_secret: bytes, contact: str, pending: int) -> None:
        """`pending` is the number of questions that wait for this user."""
        self.device: PushDevice = device
        self.name: str = f"push service {shown_url(device.endpoint)}"
        self.events: tuple[NotifiedEvent, ...] = device.events
        self._server_secret = server_secret
        self._contact = contact
        self._pending = pending

    def request(self, alert: Alert, now: float) -> OutgoingRequest:
        from accord.gateway.notifications import web_push

        members: dict[str, Any] = {"kind": alert.kind, "pending": self._pending, "route": alert.route}
        message = encode(members)
        if len(message) > web_push.PADDED_BYTES:
            message = encode({**members, "route": "#/inbox" if alert.event == "waits" else "#/"})
        url = parse_url(self.device.endpoint)
        key = web_push.ServerKey(self._server_secret)
        topic = hashlib.sha256(f"{alert.agent}\0{alert.session_id}".encode()).digest()[:24]
        headers = {
            "TTL": str(WAIT_SECONDS),
            "Urgency": "high" if alert.event == "waits" else "normal",
            "Topic": web_push.to_base64(topic),
            "Content-Encoding": "aes128gcm",
            "Content-Type": "application/octet-stream",
            "Authorization": key.authorization(f"{url.scheme}://{url.authority}", self._contact, now),
        }
        body = web_push.encrypt(message, self.device.browser_key, self.device.secret)
        return OutgoingRequest(url, headers, body)


class NtfyTarget:
    """A topic of an ntfy server."""

    def __init__(self, settings: NtfySettings, link: str | None) -> None:
        """`link` is the gateway's address for other devices, if it has one."""
        self.name: str = f"ntfy {shown_url(settings.url)}"
        self.events: tuple[NotifiedEvent, ...] = settings.events
        self._settings = settings
        self._link = link

    def request(self, alert: Alert, now: float) -> OutgoingRequest:
        settings = self._settings
        parts = urlsplit(settings.url)
        path, _, topic = parts.path.rstrip("/").rpartition("/")
        members: dict[str, Any] = {
            "topic": topic,
            "title": _TITLE,
            "message": _TEXTS[alert.kind],
            "tags": [_TAGS.get(alert.kind, "bell")],
            "priority": 4 if alert.event == "waits" else 3,
        }
        if settings.content:
            members["title"] = alert.title or alert.agent or _TITLE
            members["message"] = " ".join(filter(None, (_TEXTS[alert.kind], alert.summary)))
        if self._link is not None:
            members["click"] = f"{self._link}/{alert.route}"
        headers = {"Content-Type": "application/json"}
        if settings.token_file is not None:
            headers["Authorization"] = f"Bearer {_secret_of(settings.token_file)}"
        return OutgoingRequest(parse_url(f"{parts.scheme}://{parts.netloc}{path}/"), headers, encode(members))


class WebhookTarget:
    """Another program. Signed as in the Standard Webhooks specification."""

    def __init__(self, settings: WebhookSettings, link: str | None) -> None:
        self.name: str = f"webhook {shown_url(settings.url)}"
        self.events: tuple[NotifiedEvent, ...] = settings.events
        self._settings = settings
        self._link = link

    def request(self, alert: Alert, now: float) -> OutgoingRequest:
        settings = self._settings
        members: dict[str, Any] = {
            "version": 1,
            "id": alert.id,
            "event": alert.kind,
            "at": alert.at,
            "agent": alert.agent,
            "sessionId": alert.session_id,
            "url": None if self._link is None else f"{self._link}/{alert.route}",
        }
        if settings.content:
            members |= {"title": alert.title, "summary": alert.summary}
        body = encode(members)
        timestamp = str(int(now))
        if settings.secret_file is not None:
            secret = _secret_of(settings.secret_file)
        else:
            secret = webhook_secret(webhook_secret_file())
        headers = {
            "Content-Type": "application/json",
            "webhook-id": alert.id,
            "webhook-timestamp": timestamp,
            "webhook-signature": sign(secret, alert.id, timestamp, body),
        }
        return OutgoingRequest(parse_url(settings.url), headers, body)


def sign(secret: str, id: str, timestamp: str, body: bytes) -> str:
    """Return the signature of a webhook. Raises BadSettings for a secret that is none."""
    try:
        key = base64.b64decode(secret.removeprefix(_SECRET_PREFIX), validate=True)
    except Base64Error:
        key = b""
    if len(key) < 16:
        raise BadSettings(
            "the secret of a webhook is not `whsec_` and base64 of at least 16 bytes; "
            "remove its file to get a new one"
        )
    digest = hmac.digest(key, f"{id}.{timestamp}.".encode() + body, hashlib.sha256)
    return f"v1,{base64.b64encode(digest).decode()}"


def webhook_secret_file() -> Path:
    """The file with the secret of webhooks that name no other one."""
    return data_dir() / "gateway" / "webhook-secret"


def webhook_secret(file: Path) -> str:
    """Return the secret in the file, which is created if it is missing. Raises OSError, BadSettings."""
    if not file.exists():
        private_folder(file.parent)
        secret = _SECRET_PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()
        try:
            create_file(file, f"{secret}\n".encode(), 0.0)
        except FileExistsError:
            pass  # another gateway was faster
    return _secret_of(str(file))


def _secret_of(file: str) -> str:
    path = Path(file).expanduser()
    try:
        text = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadSettings(f"cannot read {path}: {error}; write the secret into it") from None
    if not text or not text.isascii() or not text.isprintable():
        raise BadSettings(f"{path} contains no secret: one line of ASCII is expected")
    return text
