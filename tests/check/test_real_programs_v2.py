"""The checks of version 2 on an agent and a client on the official TypeScript SDK, as real processes."""

import shutil
from pathlib import Path

import pytest
from tests.requirements import need_npm

from accord.check.agent.agent_under_test import AgentProcessLauncher
from accord.check.check_run import CheckOptions, check_agent, check_client
from accord.check.check_script import AgentCheckScript, ClientCheckScript, read_script
from accord.check.checked_connection import CheckTimeouts
from accord.check.client.client_process import ClientProcessLauncher
from accord.check.findings import CheckReport

PEERS = Path(__file__).parent / "peers"
NODE = shutil.which("node") or ""
TIMEOUTS = CheckTimeouts().scaled(5)


@pytest.fixture(autouse=True)
def need_the_sdk() -> None:
    need_npm("@agentclientprotocol/sdk")


def broken(report: CheckReport) -> dict[str, str]:
    return {one.rule.slug: one.why for one in report.of("fail", "warn")}


async def test_an_agent_on_the_typescript_sdk_breaks_no_rule() -> None:
    script = read_script(PEERS / "official_ts_agent_v2.json", AgentCheckScript)
    launcher = AgentProcessLauncher((NODE, str(PEERS / "official_ts_agent_v2.mjs")))
    options = CheckOptions(script=script, timeouts=TIMEOUTS)
    report = await check_agent(launcher, options=options, protocol=2)
    assert broken(report) == {}
    assert report.counts["pass"] >= 60


async def test_a_client_on_the_typescript_sdk_breaks_no_rule() -> None:
    script = read_script(PEERS / "client_v2.json", ClientCheckScript)
    command = (NODE, str(PEERS / "official_ts_client_v2.mjs"), "{folder}", "{prompt}", "--", "{agent}")
    options = CheckOptions(script=script, timeouts=TIMEOUTS)
    report = await check_client(ClientProcessLauncher(command), options=options, protocol=2)
    assert broken(report) == {}
    assert report.counts["pass"] >= 29
