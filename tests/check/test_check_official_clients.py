"""Clients on the official SDKs go through the kit: what they keep is seen as kept. docs/conformance.md has all of it."""

import shutil
import sys

import pytest
from tests.check.conformance_of_clients import ONE_TURN, PEERS, PLACES

from accord.check.bounds import Bounds
from accord.check.client.launch import ProcessLauncher
from accord.check.client.run import check_client
from accord.check.client.script import ClientScript
from accord.check.ledger import Rule
from accord.check.run import Options
from accord.check.script import read_script

NODE = shutil.which("node") or ""
KEPT: list[Rule] = [16, 58, 90, 158, 196, 239, 252, "fault-twice", "fault-pieces"]


@pytest.mark.parametrize(
    "command",
    [
        pytest.param((sys.executable, str(PEERS / "official_python_client.py")), id="python"),
        pytest.param(
            (NODE, str(PEERS / "official_ts_client.mjs")),
            id="typescript",
            marks=pytest.mark.skipif(not NODE, reason="needs node"),
        ),
    ],
)
async def test_official_clients_keep_what_they_keep(command: tuple[str, ...]) -> None:
    options = Options(script=read_script(ONE_TURN, ClientScript), bounds=Bounds().times(5))
    report = await check_client(ProcessLauncher((*command, *PLACES)), KEPT, options)
    assert {one.subject.id: (one.verdict, one.why) for one in report.findings if one.verdict != "pass"} == {}
