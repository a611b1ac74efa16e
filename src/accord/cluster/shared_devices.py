"""The browsers that get notifications, and the secret to sign them with, in a bucket: `PushDevices` of all
nodes. The node of a session notifies every device, so each event is sent once.
"""

from collections.abc import Callable
from logging import getLogger
from typing import Final

import msgspec

from accord.clock import OwnedTasks
from accord.cluster.bucket_copy import BucketCopy
from accord.cluster.streams import ClusterStreams
from accord.errors import BadSettings, StoreError
from accord.gateway.access.push_devices import (
    KEY_NAME,
    PUSH_FORMAT,
    PushDevice,
    ServerSecret,
    check_replacement,
    replaced_by,
)

LOG = getLogger("accord.cluster")

_TRIES: Final = 3


class ClusterPushDevices:
    """The devices of all nodes."""

    def __init__(self, streams: ClusterStreams, tasks: OwnedTasks) -> None:
        self._tasks = tasks
        self._copy: BucketCopy[PushDevice | ServerSecret] = BucketCopy(streams, "push", tasks, _decoded)

    async def start(self) -> None:
        await self._copy.start()

    async def stop(self) -> None:
        await self._copy.stop()

    async def refresh(self) -> None:
        """Read what other nodes have written until now. Raises StoreError."""
        await self._copy.refresh()

    async def server_secret(self, new: Callable[[], bytes]) -> bytes:
        """Return the secret of the cluster; store that of `new` if there is none. Raises StoreError."""
        if KEY_NAME not in self._copy.values:
            await self._copy.refresh()
        if KEY_NAME not in self._copy.values:
            await self._copy.create(KEY_NAME, PUSH_FORMAT.encode(ServerSecret(new())))
            await self._copy.refresh()  # another node may have been faster
        value = self._copy.values.get(KEY_NAME)
        if not isinstance(value, ServerSecret):
            raise StoreError(f"the key {KEY_NAME} of bucket {self._copy.bucket.name} cannot be read")
        return value.secret

    async def add(self, device: PushDevice) -> None:
        for _ in range(_TRIES):
            check_replacement(self.find(device.id), device)
            for id in replaced_by(device, self.all()):
                await self._copy.delete(id)
            if await self._copy.replace(device.id, PUSH_FORMAT.encode(device)):
                return
            await self._copy.refresh()  # another node has changed it
        raise StoreError("the device changes all the time; try again")

    def find(self, id: str) -> PushDevice | None:
        value = self._copy.values.get(id)
        return value if isinstance(value, PushDevice) else None

    def all(self) -> list[PushDevice]:
        devices = [value for value in self._copy.values.values() if isinstance(value, PushDevice)]
        return sorted(devices, key=lambda device: (device.created, device.id))

    async def remove(self, id: str) -> None:
        if id != KEY_NAME:
            await self._copy.delete(id)

    def forget(self, token: str) -> None:
        ids = [device.id for device in self.all() if device.token == token]
        if ids:
            self._tasks.start(self._delete(ids))

    async def _delete(self, ids: list[str]) -> None:
        try:
            for id in ids:
                await self._copy.delete(id)
        except StoreError as error:
            LOG.warning("a device of a revoked token is removed later: %s", error)


def _decoded(key: str, data: bytes) -> PushDevice | ServerSecret:
    try:
        if key == KEY_NAME:
            return PUSH_FORMAT.decode(data, ServerSecret, key)
        device = PUSH_FORMAT.decode(data, PushDevice, f"device {key}")
    except BadSettings as error:
        raise ValueError(str(error)) from None
    except msgspec.MsgspecError:
        raise ValueError("it is no device") from None
    if device.id != key:
        raise ValueError("it is the entry of another device")
    return device
