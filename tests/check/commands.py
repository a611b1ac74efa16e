"""What the tests of `accord check` have in common: the programs under test, and what was printed."""

import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.check.model.launch import SCRIPT

PEERS = Path(__file__).with_name("peers")
MODEL = (sys.executable, "-m", "tests.check.model")
ODD_AGENT = (sys.executable, str(PEERS / "odd_agent.py"))
SIMPLE_CLIENT = (sys.executable, str(PEERS / "simple_client.py"))
PLACES = ("{prompt}", "--", "{agent}")


def told(capsys: pytest.CaptureFixture[str]) -> Any:
    """The report that was printed as JSON."""
    return json.loads(capsys.readouterr().out)


def verdicts(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """The verdicts in it, by rule."""
    return {rule["id"]: rule["verdict"] for rule in told(capsys)["rules"]}


def model_script(folder: Path) -> str:
    """The script of the model agent, in a file."""
    path = folder / "script.json"
    path.write_bytes(msgspec.json.encode(SCRIPT))
    return str(path)
