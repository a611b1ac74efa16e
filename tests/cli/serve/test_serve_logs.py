"""The log of the gateway: one line per entry, without secrets and escape sequences."""

import json
import logging
import sys
from pathlib import Path

import pytest

from accord.cli.serve_process import logging_to

TOKEN = "acc_k3v9m2qd_" + "A" * 43


@pytest.mark.parametrize("form", ["text", "json"])
def test_secrets_and_escape_sequences_are_not_logged(tmp_path: Path, form: str) -> None:
    file = tmp_path / "log"
    log = logging.getLogger("accord.gateway.test")
    with logging_to(str(file), form, "info"):
        log.info("a token %s and /acp?ticket=%s and cookie accord=%s", TOKEN, "B" * 43, "C" * 43)
        log.warning("two\nlines \x1b[31mred\x1b[0m \ud800")
        log.debug("not shown")
        try:
            raise ValueError(f"with {TOKEN}")
        except ValueError:
            log.exception("it broke")
    text = file.read_text()
    for secret in ("A" * 43, "B" * 43, "C" * 43, "\x1b", "not shown", "Traceback"):
        assert secret not in text
    lines = text.splitlines()
    assert len(lines) == 3
    assert "acc_k3v9m2qd_..." in lines[0]
    assert "ValueError: with acc_k3v9m2qd_..." in lines[2]
    if form == "json":
        assert [json.loads(line)["level"] for line in lines] == ["info", "warning", "error"]


def test_logging_is_restored_afterwards(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    before = (list(root.handlers), root.level)
    with logging_to(None, "text", "debug"):
        logging.getLogger("x").debug("here")
    assert (list(root.handlers), root.level) == before
    assert "debug   here" in capsys.readouterr().err
    assert sys.stderr is not None
