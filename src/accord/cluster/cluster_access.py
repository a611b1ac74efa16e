"""What commands do with a cluster without being one of its nodes."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from accord.cluster.cluster_report import ClusterReport, read_report
from accord.cluster.connection import connect
from accord.cluster.jetstream import JetStream
from accord.cluster.settings import ClusterSettings
from accord.cluster.shared_access import SharedAccess, shared_access
from accord.cluster.streams import prepare_streams

_NAME: Final = "accord-command"
"""Shown by the NATS servers."""


@asynccontextmanager
async def cluster_access(settings: ClusterSettings) -> AsyncGenerator[SharedAccess]:
    """Use the tokens and logins of a cluster for the block. Raises UsageError, StoreError."""
    async with _jetstream(settings) as jetstream:
        streams = await prepare_streams(jetstream, settings)
        async with shared_access(streams) as access:
            yield access
            await access.settle()


async def cluster_report(settings: ClusterSettings) -> ClusterReport:
    """Read the state of a cluster. Raises UsageError."""
    async with _jetstream(settings) as jetstream:
        return await read_report(jetstream, settings)


@asynccontextmanager
async def _jetstream(settings: ClusterSettings) -> AsyncGenerator[JetStream]:
    connection = await connect(settings, _NAME)
    try:
        yield JetStream(connection)
    finally:
        await connection.aclose()
