"""The pytest plugin of Accord.

Imports on first use: pytest loads this file in every run where Accord is installed.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from accord.testing.fake_clock import FakeClock
    from accord.testing.fixture_types import AccordClientFixture, AccordModelServerFixture, AccordWireFixture
    from accord.testing.scripted_agent import AgentScript


@pytest.fixture
def accord_clock() -> "FakeClock":
    """A clock that the test moves."""
    from accord.testing.fake_clock import FakeClock

    return FakeClock()


@pytest.fixture
def accord_wire() -> "AccordWireFixture":
    """`accord_wire()` returns a transport and a `RawPeer` at its other end."""
    from accord.testing.raw_peer import raw_pair

    return raw_pair


@pytest.fixture
def accord_client() -> "AccordClientFixture":
    """`async with accord_client(agent) as client`: a scripted client that validates the agent's messages."""
    from accord.testing.scripted_clients import scripted_client

    return scripted_client


@pytest.fixture
def accord_agent(tmp_path: Path) -> "AgentScript":
    """`accord_agent(say("hi"))`: a scripted agent; `accord_agent.command(...)`: one as a command line."""
    from accord.testing.scripted_agent import AgentScript

    return AgentScript(tmp_path)


@pytest.fixture
def accord_model_server() -> "AccordModelServerFixture":
    """`async with accord_model_server([ModelAnswer("hi")]) as server`: a scripted model provider."""
    from accord.testing.model_server import ModelServer

    return ModelServer
