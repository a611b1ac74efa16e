"""The pytest plugin that comes with Accord. Loaded in every pytest run where Accord is installed, so it imports late."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from accord.testing.agents import AgentScript
    from accord.testing.clients import ScriptedClient
    from accord.testing.clock import FakeClock
    from accord.testing.models import ModelServer
    from accord.testing.wire import RawPeer
    from accord.wire.memory import MemoryTransport


@pytest.fixture
def accord_clock() -> "FakeClock":
    """A clock whose hands the test turns."""
    from accord.testing.clock import FakeClock

    return FakeClock()


@pytest.fixture
def accord_wire() -> "Callable[..., tuple[MemoryTransport, RawPeer]]":
    """Makes a transport and, at its other end, a peer that the test speaks by hand."""
    from accord.testing.wire import raw_pair

    return raw_pair


@pytest.fixture
def accord_client() -> "Callable[..., AbstractAsyncContextManager[ScriptedClient]]":
    """`async with accord_client(agent) as client`: a scripted client; what the agent sent is judged at the end."""
    from accord.testing.clients import scripted_client

    return scripted_client


@pytest.fixture
def accord_agent(tmp_path: Path) -> "AgentScript":
    """`accord_agent(say("hi"))`: a scripted agent, in memory (`transport()`) or as a command line (`command()`)."""
    from accord.testing.agents import AgentScript

    return AgentScript(tmp_path)


@pytest.fixture
def accord_model_server() -> "type[ModelServer]":
    """`async with accord_model_server([Answer("hi")]) as server`: a model provider that says what the test says."""
    from accord.testing.models import ModelServer

    return ModelServer
