"""The settings of notifications: the object `notifications` of `serve.json`, `--ntfy` and `--webhook`."""

from typing import Annotated, Final
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from accord.errors import UsageError
from accord.gateway.access.push_devices import NotifiedEvent

_LIMIT: Final = 16
_BOTH: Final[tuple[NotifiedEvent, ...]] = ("waits", "done")

Seconds = Annotated[float, Meta(ge=0, le=3600)]


class NtfySettings(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A topic of an ntfy server."""

    url: str
    """The address with the topic, such as `https://ntfy.sh/my-secret-topic`."""
    token_file: str | None = None
    """The file with the access token, if the topic needs one."""
    events: tuple[NotifiedEvent, ...] = _BOTH
    """Which events are sent: `waits`, `done`."""
    content: bool = False
    """Also send the title of the session and what the agent asks for."""


class WebhookSettings(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """An address of another program."""

    url: str
    """Where to send a POST for each event."""
    secret_file: str | None = None
    """The file with the secret that signs; by default one that is created in the data folder."""
    events: tuple[NotifiedEvent, ...] = _BOTH
    """Which events are sent: `waits`, `done`."""
    content: bool = False
    """Also send the title of the session and what the agent asks for."""


class NotificationSettings(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """How users are told that a session waits for them or is done."""

    contact: str | None = None
    """A `mailto:` or `https:` address of yours, for the push services; Apple's needs a real one."""
    delay: Seconds = 2.0
    """Seconds that a question must be open before it is sent."""
    allow_hosts: tuple[str, ...] = ()
    """Hosts and networks that may be called although they are not public, such as `192.168.1.5`."""
    ntfy: Annotated[tuple[NtfySettings, ...], Meta(max_length=_LIMIT)] = ()
    """Topics of ntfy servers."""
    webhooks: Annotated[tuple[WebhookSettings, ...], Meta(max_length=_LIMIT)] = ()
    """Addresses of other programs."""

    def checked(self) -> "NotificationSettings":
        """Check what the types cannot say. Raises UsageError."""
        contact = self.contact
        if contact is not None and not contact.startswith(("mailto:", "https://")):
            raise UsageError(
                f"notifications: contact {contact!r} is no address; use mailto:me@example.org or https://..."
            )
        for kind, targets in (("ntfy", self.ntfy), ("webhooks", self.webhooks)):
            for target in targets:
                _check_url(kind, target.url)
                if not target.events:
                    raise UsageError(
                        f"notifications: {kind} {shown_url(target.url)} has no events; name some"
                    )
        for ntfy in self.ntfy:
            if not urlsplit(ntfy.url).path.strip("/"):
                raise UsageError(
                    f"notifications: ntfy {shown_url(ntfy.url)} has no topic; use https://ntfy.sh/TOPIC"
                )
        return self


def shown_url(url: str) -> str:
    """An address without what may be secret: only scheme and host."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _check_url(kind: str, url: str) -> None:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise UsageError(f"notifications: {kind}: {url!r} is not an address; use https://HOST/...")
