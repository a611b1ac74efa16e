"""Shared by the tests of `accord check`: the programs under test, and access to the printed report."""

import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.check.model_agent.launcher import SCRIPT

PEERS = Path(__file__).with_name("peers")
MODEL = (sys.executable, "-m", "tests.check.model_agent")
ODD_AGENT = (sys.executable, str(PEERS / "odd_agent.py"))
SIMPLE_CLIENT = (sys.executable, str(PEERS / "simple_client.py"))
PLACEHOLDERS = ("{prompt}", "--", "{agent}")


def printed_report(capsys: pytest.CaptureFixture[str]) -> Any:
    """The report that was printed as JSON."""
    return json.loads(capsys.readouterr().out)


def verdicts(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """The verdicts of the printed report, by rule."""
    return {rule["id"]: rule["verdict"] for rule in printed_report(capsys)["rules"]}


def model_script(folder: Path) -> str:
    """Write the script of the model agent to a file."""
    path = folder / "script.json"
    path.write_bytes(msgspec.json.encode(SCRIPT))
    return str(path)
