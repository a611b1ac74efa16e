"""The checks of version 2 over WebSocket and streamable HTTP, on programs on the official TypeScript SDK."""

import asyncio
import shutil
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.requirements import need_npm

from accord.check.agent.agent_under_test import AddressLauncher
from accord.check.check_run import CheckOptions, check_agent, check_client
from accord.check.check_script import AgentCheckScript, ClientCheckScript, read_script
from accord.check.checked_connection import CheckTimeouts
from accord.check.client.client_process import ClientProcessLauncher

PEERS = Path(__file__).parent / "peers"
NODE = shutil.which("node") or ""
TIMEOUTS = CheckTimeouts().scaled(5)


@pytest.fixture(autouse=True)
def need_the_sdk() -> None:
    need_npm("@agentclientprotocol/sdk")


@pytest.fixture
async def port() -> AsyncGenerator[int]:
    server = await asyncio.create_subprocess_exec(
        NODE, str(PEERS / "official_ts_server_v2.mjs"),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert server.stdout is not None
    yield int(await server.stdout.readline())
    server.kill()
    await server.wait()


@pytest.mark.parametrize("scheme", ["ws", "http"])
async def test_an_agent_at_an_address_breaks_no_rule(scheme: str, port: int) -> None:
    script = read_script(PEERS / "official_ts_agent_v2.json", AgentCheckScript)
    launcher = AddressLauncher(f"{scheme}://127.0.0.1:{port}/acp")
    report = await check_agent(launcher, options=CheckOptions(script=script, timeouts=TIMEOUTS), protocol=2)
    assert {one.rule.slug: one.why for one in report.of("fail", "warn")} == {}
    assert report.counts["pass"] >= 56


@pytest.mark.parametrize("placeholder", ["{ws_url}", "{url}"])
async def test_a_client_that_gets_an_address_breaks_no_rule(placeholder: str) -> None:
    script = read_script(PEERS / "client_v2.json", ClientCheckScript)
    command = (NODE, str(PEERS / "official_ts_client_v2.mjs"), "{folder}", "{prompt}", "--", placeholder)
    options = CheckOptions(script=script, timeouts=TIMEOUTS)
    report = await check_client(ClientProcessLauncher(command), options=options, protocol=2)
    assert {one.rule.slug: one.why for one in report.of("fail", "warn")} == {}
    assert report.counts["pass"] >= 27
