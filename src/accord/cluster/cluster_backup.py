"""Backs the streams of a cluster up to files, and restores them: the snapshots of the NATS servers.

A snapshot is consistent within one stream. Logs are saved before the index, so that the index can only lack
what a rebuild finds in the logs. Leases, open requests and tickets are not saved: they mean nothing later.
"""

import asyncio
import os
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec
from msgspec import Struct

from accord.clock import within
from accord.cluster.connection import NatsMessage, NatsRefused, NatsUnavailable
from accord.cluster.jetstream import STREAM_NOT_FOUND, JetStream, with_retries
from accord.cluster.streams import BUCKETS, StreamNames, stream_names
from accord.errors import StoreError, UsageError
from accord.file_format import FileFormat
from accord.private_files import private_opener

_FORMAT: Final = FileFormat()
MANIFEST: Final = "backup.json"
_NOT_SAVED: Final = frozenset({"nodes", "inbox", "tickets"})
_CHUNK_BYTES: Final = 128 * 1024
_SILENCE_SECONDS: Final = 30.0


class SavedStream(Struct, frozen=True):
    """One stream of a backup: what a server needs to restore it."""

    name: str
    file: str
    config: dict[str, Any]
    state: dict[str, Any]
    bytes: int


class BackupManifest(Struct, frozen=True):
    """The file `backup.json` of a backup."""

    prefix: str
    streams: list[SavedStream]


class _SnapshotAnswer(Struct, frozen=True):
    config: dict[str, Any]
    state: dict[str, Any]


class _RestoreAnswer(Struct, frozen=True):
    deliver_subject: str


async def back_up(jetstream: JetStream, prefix: str, folder: Path) -> BackupManifest:
    """Write all streams to a new folder. Raises UsageError, StoreError."""
    names = StreamNames(prefix)
    logs = sorted(await stream_names(jetstream, names.log_subject("*", "*")))
    if not logs:
        raise UsageError(f"there is no cluster with the prefix {prefix!r} at these servers")
    buckets = [f"KV_{names.bucket(name)}" for name in BUCKETS if name not in _NOT_SAVED]
    _create_folder(folder)
    saved = [await _save(jetstream, name, folder) for name in (*logs, *buckets, names.audit_stream)]
    manifest = BackupManifest(prefix, saved)
    _FORMAT.write(folder / MANIFEST, manifest)
    return manifest


def _create_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, mode=0o700)
    except OSError as error:
        raise UsageError(f"cannot create the folder {folder} ({error.strerror}); name a new one") from None


def _create_file(path: Path) -> BinaryIO:
    return open(path, "xb", opener=private_opener)


async def _save(jetstream: JetStream, name: str, folder: Path) -> SavedStream:
    connection = jetstream.connection
    path = folder / f"{name}.snapshot"
    chunks: asyncio.Queue[NatsMessage] = asyncio.Queue()
    inbox = connection.new_inbox()
    subscription = await connection.subscribe(inbox, chunks.put_nowait)
    size = 0
    try:
        request = {"deliver_subject": inbox, "no_consumers": True, "chunk_size": _CHUNK_BYTES, "jsck": True}
        answer = await jetstream.api(f"STREAM.SNAPSHOT.{name}", request)
        described = msgspec.json.decode(answer, type=_SnapshotAnswer)
        with _create_file(path) as file:
            while data := (chunk := await _next(jetstream, chunks, name)).data:
                await asyncio.to_thread(file.write, data)
                size += len(data)
                if chunk.reply:
                    await connection.publish(chunk.reply, b"")
            status = (chunk.headers or {}).get("Status", "")
            if status:
                raise NatsUnavailable(f"the NATS server ended the snapshot of {name} ({status})")
            file.flush()
            os.fsync(file.fileno())
    except msgspec.MsgspecError as error:
        raise StoreError(
            f"the NATS server described the snapshot of {name} in an unknown way ({error})"
        ) from None
    except OSError as error:
        raise UsageError(f"cannot write {path} ({error.strerror})") from None
    finally:
        await connection.unsubscribe(subscription)
    return SavedStream(name, path.name, described.config, described.state, size)


async def _next(jetstream: JetStream, chunks: "asyncio.Queue[NatsMessage]", name: str) -> NatsMessage:
    waiting = asyncio.ensure_future(chunks.get())
    try:
        if not await within(jetstream.connection.clock, _SILENCE_SECONDS, waiting):
            raise NatsUnavailable(f"the NATS server stopped sending the snapshot of {name}")
        return waiting.result()
    finally:
        waiting.cancel()


def read_manifest(folder: Path, prefix: str) -> BackupManifest:
    """The description of a backup. Raises UsageError."""
    path = folder / MANIFEST
    try:
        manifest = _FORMAT.decode(path.read_bytes(), BackupManifest, path)
    except OSError as error:
        raise UsageError(
            f"{str(folder)!r} is not a whole backup: cannot read {MANIFEST} ({error.strerror})"
        ) from None
    except msgspec.MsgspecError as error:
        raise UsageError(f"{path} is damaged ({error})") from None
    if manifest.prefix != prefix:
        raise UsageError(f"the backup has the prefix {manifest.prefix!r}, the cluster settings {prefix!r}")
    if any("/" in stream.file or stream.file.startswith(".") for stream in manifest.streams):
        raise UsageError(f"{path} names files outside its folder")
    return manifest


async def restore(jetstream: JetStream, folder: Path, prefix: str, replicas: int) -> BackupManifest:
    """Create the streams of a backup at servers that have none of them. Raises UsageError, StoreError."""
    manifest = read_manifest(folder, prefix)
    for stream in manifest.streams:
        try:
            await with_retries(lambda name=stream.name: jetstream.api(f"STREAM.INFO.{name}"), jetstream)
        except NatsRefused as error:
            if error.code == STREAM_NOT_FOUND:
                continue
            raise
        raise UsageError(
            f"stream {stream.name} exists at these servers; a backup is restored where there is no cluster "
            "with its prefix"
        )
    for stream in manifest.streams:
        await _load(jetstream, stream, folder, replicas)
    return manifest


async def _load(jetstream: JetStream, stream: SavedStream, folder: Path, replicas: int) -> None:
    request = {"config": {**stream.config, "num_replicas": replicas}, "state": stream.state}
    answer = await jetstream.api(f"STREAM.RESTORE.{stream.name}", request)
    subject = msgspec.json.decode(answer, type=_RestoreAnswer).deliver_subject
    try:
        with (folder / stream.file).open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                await jetstream.send_chunk(subject, chunk)
        await jetstream.send_chunk(subject, b"", seconds=_SILENCE_SECONDS)
    except OSError as error:
        raise UsageError(f"cannot read {folder / stream.file} ({error.strerror})") from None
