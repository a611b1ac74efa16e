"""The browsers that get notifications by Web Push, and the secret that the gateway signs them with.

A subscription names an address that the gateway calls, and anyone with a token can send one: its size and its
number are bounded, and it ends with its token.
"""

import hashlib
import hmac
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from accord.errors import BadSettings
from accord.file_format import FileFormat
from accord.gateway.access.request_origin import RequestRefused
from accord.paths import data_dir
from accord.private_files import create_file, private_folder

NotifiedEvent: TypeAlias = Literal["waits", "done"]
"""`waits`: an agent asks for permission, or asks a question. `done`: a turn has ended."""
MAX_DEVICES: Final = 16
"""Of one token. One more replaces the oldest."""
MAX_ENDPOINT: Final = 2048
PUSH_FORMAT: Final = FileFormat()
_ID: Final = re.compile("[0-9a-f]{32}")
KEY_NAME: Final = "server-key"


class PushDevice(Struct, frozen=True, kw_only=True):
    """One browser that gets notifications."""

    endpoint: Annotated[str, Meta(max_length=MAX_ENDPOINT, pattern=r"^https://[!-~]+\Z")]
    """The address at its push service. It is a secret: a message can be sent with it."""
    browser_key: Annotated[bytes, Meta(min_length=65, max_length=65)]
    """The public key that messages are encrypted with."""
    secret: Annotated[bytes, Meta(min_length=16, max_length=16)]
    """Shared with the browser."""
    token: str
    """The id of the token that it was subscribed with."""
    events: tuple[NotifiedEvent, ...]
    created: float
    """Seconds since 1970."""

    @property
    def id(self) -> str:
        return device_id(self.endpoint)

    def __repr__(self) -> str:
        return f"PushDevice({self.id!r})"


class ServerSecret(Struct, frozen=True):
    """The secret key that notifications are signed with. A new one would end all subscriptions."""

    secret: bytes

    def __repr__(self) -> str:
        return "ServerSecret(...)"


def device_id(endpoint: str) -> str:
    """The name of a device: a hash of its endpoint."""
    return hashlib.sha256(endpoint.encode(errors="surrogatepass")).hexdigest()[:32]


def check_replacement(known: PushDevice | None, device: PushDevice) -> None:
    """Raise RequestRefused if the endpoint belongs to the device of another user.

    A browser that has logged in with another token knows the secret of its subscription.
    """
    if (
        known is not None
        and known.token != device.token
        and not hmac.compare_digest(known.secret, device.secret)
    ):
        raise RequestRefused(409, "This endpoint is subscribed with another secret; subscribe again.")


def replaced_by(device: PushDevice, devices: Iterable[PushDevice]) -> list[str]:
    """The ids of the oldest devices of a token that make room for a new one."""
    same = sorted(
        (other.created, other.id)
        for other in devices
        if other.token == device.token and other.id != device.id
    )
    return [id for _, id in same[: max(0, len(same) - MAX_DEVICES + 1)]]


class FilePushDevices:
    """The devices of one machine, one small file for each."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder: Path = data_dir() / "gateway" / "push" if folder is None else folder
        self._cache: dict[str, tuple[tuple[int, int, int], PushDevice]] = {}

    async def server_secret(self, new: Callable[[], bytes]) -> bytes:
        """Return the stored secret; store that of `new` if there is none. Raises OSError, BadSettings."""
        path = self.folder / f"{KEY_NAME}.json"
        private_folder(self.folder)
        if not path.exists():
            with suppress(FileExistsError):  # another gateway was faster
                create_file(path, PUSH_FORMAT.encode(ServerSecret(new())), 0.0)
        try:
            return PUSH_FORMAT.decode(path.read_bytes(), ServerSecret, path).secret
        except msgspec.MsgspecError as error:
            raise BadSettings(f"{path} is damaged ({error}); remove it, and subscribe again") from None

    async def add(self, device: PushDevice) -> None:
        """Store a device, or its new choice of events. Raises RequestRefused, OSError."""
        private_folder(self.folder)
        devices = self.all()
        check_replacement(self.find(device.id), device)
        for id in (*replaced_by(device, devices), device.id):
            await self.remove(id)
        create_file(self._path(device.id), PUSH_FORMAT.encode(device), device.created)

    def find(self, id: str) -> PushDevice | None:
        """Return the device with this id; None if there is none."""
        path = self._path(id)
        try:
            status = path.stat()
            version = (status.st_ino, status.st_size, status.st_mtime_ns)
            cached = self._cache.get(id)
            if cached is not None and cached[0] == version:
                return cached[1]
            device = PUSH_FORMAT.decode(path.read_bytes(), PushDevice, path)
        except (OSError, BadSettings, msgspec.MsgspecError, UnicodeDecodeError):
            self._cache.pop(id, None)
            return None
        if device.id != id:
            return None
        self._cache[id] = (version, device)
        return device

    def all(self) -> list[PushDevice]:
        """List the devices, the oldest first."""
        ids = [path.stem for path in self.folder.glob("?" * 32 + ".json")]
        found = [device for device in map(self.find, ids) if device is not None]
        return sorted(found, key=lambda device: (device.created, device.id))

    async def remove(self, id: str) -> None:
        """Delete a device, if it exists."""
        self._cache.pop(id, None)
        with suppress(OSError):
            self._path(id).unlink(missing_ok=True)

    def forget(self, token: str) -> None:
        """Delete the devices of the token with this id."""
        for device in self.all():
            if device.token == token:
                with suppress(OSError):
                    self._path(device.id).unlink(missing_ok=True)

    def _path(self, id: str) -> Path:
        return self.folder / f"{id if _ID.fullmatch(id) else '-'}.json"
