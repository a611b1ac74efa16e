"""The pytest plugin that comes with Accord. Loaded in every pytest run where Accord is installed, so it imports late."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from accord.testing.fake_clock import FakeClock
    from accord.testing.model_server import ModelServer
    from accord.testing.raw_peer import RawPeer
    from accord.testing.scripted_agent import AgentScript
    from accord.testing.scripted_client import ScriptedClient
    from accord.wire.memory_transport import MemoryTransport


@pytest.fixture
def accord_clock() -> "FakeClock":
    """A clock whose hands the test turns."""
    from accord.testing.fake_clock import FakeClock

    return FakeClock()


@pytest.fixture
def accord_wire() -> "Callable[..., tuple[MemoryTransport, RawPeer]]":
    """Makes a transport and, at its other end, a peer that the test speaks by hand."""
    from accord.testing.raw_peer import raw_pair

    return raw_pair


@pytest.fixture
def accord_client() -> "Callable[..., AbstractAsyncContextManager[ScriptedClient]]":
    """`async with accord_client(agent) as client`: a scripted client; what the agent sent is judged at the end."""
    from accord.testing.scripted_client import scripted_client

    return scripted_client


@pytest.fixture
def accord_agent(tmp_path: Path) -> "AgentScript":
    """`accord_agent(say("hi"))`: a scripted agent, in memory (`transport()`) or as a command line (`command()`)."""
    from accord.testing.scripted_agent import AgentScript

    return AgentScript(tmp_path)


@pytest.fixture
def accord_model_server() -> "type[ModelServer]":
    """`async with accord_model_server([Answer("hi")]) as server`: a model provider that says what the test says."""
    from accord.testing.model_server import ModelServer

    return ModelServer
