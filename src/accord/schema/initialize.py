"""The handshake: versions and capabilities, once, before anything else."""

from typing import Annotated, TypeAlias

from .auth import AuthMethod
from .base import UNSET, Object
from .capabilities import AgentCapabilities, ClientCapabilities
from .marks import Default, Items, Opt, Section, Uint16

ProtocolVersion: TypeAlias = Uint16
"""The major version. This package speaks 1."""


class Implementation(Object):
    """Who is on the other end: a name for programs, a title for people."""

    name: str
    version: str
    title: Opt[str | None] = UNSET


class InitializeRequest(Object):
    """The first request of a connection, with the newest version the client speaks."""

    protocol_version: ProtocolVersion
    client_capabilities: Section[ClientCapabilities] = UNSET
    client_info: Opt[Implementation | None] = UNSET


class InitializeResponse(Object):
    """The version both will speak, or the agent's newest if it does not speak the client's."""

    protocol_version: ProtocolVersion
    agent_capabilities: Section[AgentCapabilities] = UNSET
    auth_methods: Annotated[Opt[Items[AuthMethod]], Default([])] = UNSET
    agent_info: Opt[Implementation | None] = UNSET
