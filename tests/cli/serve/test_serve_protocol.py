"""`accord serve` asks its agents for the protocol version that the options or acp.json name."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from accord.cli.serve_command import read_arguments
from accord.cli.serve_process import agent_source, served_agents
from accord.client import ClientHandlers, allow_all, connect_transport

CODER = ["--", sys.executable, "-m", "accord.cli", "agent", "--model", "rehearsal"]


VERSIONS: list[Any] = [([], None), (["--protocol", "2"], 2), (["--protocol", "auto"], "auto")]


@pytest.mark.parametrize(("words", "protocol"), VERSIONS)
def test_the_option_sets_the_version_of_the_agents(words: list[str], protocol: Any) -> None:
    (agent,) = served_agents(read_arguments([*words, *CODER]))
    assert agent.protocol == protocol


def test_the_gateway_sees_version_1_of_an_agent_in_version_2(tmp_path: Path) -> None:
    (agent,) = served_agents(read_arguments(["--protocol", "2", *CODER]))

    async def ask() -> str:
        transport = await agent_source(agent).start(lambda line: None)
        async with connect_transport(transport, handlers=ClientHandlers(permissions=allow_all)) as remote:
            session = await remote.new_session(tmp_path)
            result = await session.ask("run echo from-version-2")
            assert session.state.reported_activity == ""
            return result.text

    assert "from-version-2" in asyncio.run(ask())
