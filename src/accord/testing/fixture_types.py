"""The types of the pytest fixtures, for annotations in tests."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias

from msgspec import UNSET, UnsetType

from accord.agent import Agent
from accord.client import ClientHandlers, ClientOptions
from accord.client.handlers import WorkspaceMaker
from accord.testing.model_server import ModelServer
from accord.testing.raw_peer import RawPeer
from accord.testing.scripted_clients import ScriptedClient
from accord.trace.trace_format import Side
from accord.wire.memory_transport import MemoryTransport


class AccordClientFixture(Protocol):
    """The type of `accord_client`."""

    def __call__(
        self,
        agent: Agent | str,
        *arguments: str,
        permissions: Sequence[str | None] = (),
        workspace: WorkspaceMaker | UnsetType | None = UNSET,
        handlers: ClientHandlers | None = None,
        options: ClientOptions | None = None,
    ) -> AbstractAsyncContextManager[ScriptedClient]:
        """Connect a scripted client to an agent, and validate its messages at the end."""
        ...


class AccordWireFixture(Protocol):
    """The type of `accord_wire`."""

    def __call__(self, *, validate: Side | None = None) -> tuple[MemoryTransport, RawPeer]:
        """Return a transport, and a `RawPeer` at its other end."""
        ...


AccordModelServerFixture: TypeAlias = type[ModelServer]
"""The type of `accord_model_server`."""
