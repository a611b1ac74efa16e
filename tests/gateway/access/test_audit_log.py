"""The audit log: who did what and when, readable by the owner only. A failing log does not stop the
gateway.
"""

import json
import os
import resource
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests.patience import PATIENCE

from accord.gateway.access.access_tokens import TokenRights
from accord.gateway.access.audit_log import AuditLog, verify_audit_log

RIGHTS = TokenRights("abcdefgh", "phone", peer="192.0.2.1")


CHAIN = ("seq", "prev", "hash")


def lines(path: Path) -> list[dict]:
    """The lines of a log, without their places in the chain."""
    parsed = [json.loads(line) for line in path.read_text().splitlines() if line]
    return [{name: value for name, value in line.items() if name not in CHAIN} for line in parsed]


def test_a_line_has_the_token_the_time_and_the_event(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path / "deep" / "audit.jsonl", now=lambda: 1_800_000_000.25)
    audit.record(RIGHTS, "request", method="session/new", session="s1", decision=None)
    audit.record(None, "start")
    assert lines(audit.path) == [
        {
            "version": 1,
            "time": "2027-01-15T08:00:00.250+00:00",
            "event": "request",
            "token": "abcdefgh",
            "name": "phone",
            "peer": "192.0.2.1",
            "method": "session/new",
            "session": "s1",
        },
        {"version": 1, "time": "2027-01-15T08:00:00.250+00:00", "event": "start"},
    ]
    assert stat.S_IMODE(audit.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(audit.path.parent.stat().st_mode) == 0o700


def test_a_file_that_others_can_read_becomes_private(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.touch(0o644)
    AuditLog(path).record(RIGHTS, "x")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_long_or_strange_value_becomes_one_short_line(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path / "audit.jsonl")
    audit.record(RIGHTS, "request", method="m\n{}\x1b[2J" * 1000)
    (line,) = lines(audit.path)
    assert len(line["method"]) == 200
    assert line["method"].endswith("…"), "a reader sees that it was cut"
    assert "\x1b" not in audit.path.read_text()


def test_text_that_cannot_be_encoded_hides_no_line(tmp_path: Path) -> None:
    """Half a surrogate pair in a command would otherwise keep what was allowed out of the log."""
    audit = AuditLog(tmp_path / "audit.jsonl")
    audit.record(RIGHTS, "answer", command="rm -rf x \ud800", decision="allow_once")
    (line,) = lines(audit.path)
    assert line["command"] == "rm -rf x \\ud800"
    assert verify_audit_log(audit.path).lines == 1


def test_the_log_is_rotated_by_size_and_the_oldest_file_is_removed(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path / "audit.jsonl", max_bytes=1000, rotated_files=2)
    for number in range(100):
        audit.record(RIGHTS, "request", number=number)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2", "audit.jsonl.lock"]
    assert all(
        path.stat().st_size < 1500 and stat.S_IMODE(path.stat().st_mode) == 0o600
        for path in tmp_path.iterdir()
    )
    kept = [
        line["number"]
        for name in ("audit.jsonl.2", "audit.jsonl.1", "audit.jsonl")
        for line in lines(tmp_path / name)
    ]
    assert kept == list(range(kept[0], 100))


def test_a_removed_file_is_created_again(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path / "audit.jsonl")
    audit.record(RIGHTS, "one")
    audit.path.unlink()
    audit.record(RIGHTS, "two")
    assert [line["event"] for line in lines(audit.path)] == ["two"]


def test_a_log_that_cannot_be_written_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    warnings: list[str] = []
    audit = AuditLog(tmp_path / "file" / "audit.jsonl", on_error=warnings.append)
    for _ in range(3):
        audit.record(RIGHTS, "x")
    assert audit.missing_lines == 3
    assert len(warnings) == 1
    assert str(audit.path) in warnings[0]


_FULL = """
import json, resource, signal, sys
from pathlib import Path
from accord.gateway.access.audit_log import AuditLog
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
audit = AuditLog(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))
for number in range(50):
    audit.record(None, "x", number=number)
missing = audit.missing_lines
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
audit.record(None, "room again")
print(missing)
"""


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="needs a file size limit")
def test_a_full_disk_loses_lines_but_corrupts_none(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    run = subprocess.run([sys.executable, "-c", _FULL, str(path)], capture_output=True, text=True, check=True)
    missing = int(run.stdout)
    text = path.read_text()
    whole = [line for line in text.splitlines() if line.endswith("}")]
    assert missing > 0
    last = {"version": 1, "time": "", "event": "room again", "missingBefore": missing}
    assert lines(path)[-1] | {"time": ""} == last
    assert len(whole) == len(text.splitlines()) == 50 - missing + 1
    assert verify_audit_log(path).lines == len(whole)


_WRITE = """
import sys
from pathlib import Path
from accord.gateway.access.audit_log import AuditLog
audit = AuditLog(Path(sys.argv[1]), max_bytes=4000, rotated_files=100)
for number in range(200):
    audit.record(None, "x", who=sys.argv[2], number=number)
assert not audit.missing_lines
"""


def test_several_processes_write_to_one_log_and_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    running = [subprocess.Popen([sys.executable, "-c", _WRITE, str(path), str(n)]) for n in range(3)]
    assert [process.wait(PATIENCE) for process in running] == [0] * 3
    found = sorted(
        (line["who"], line["number"])
        for file in os.listdir(tmp_path)
        if not file.endswith(".lock")
        for line in lines(tmp_path / file)
    )
    assert found == sorted((str(n), number) for n in range(3) for number in range(200))
    assert verify_audit_log(path, rotated_files=100).lines == 600
