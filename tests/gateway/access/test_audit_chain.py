"""The audit log is one chain of hashes: any change of it is found, and nothing else is reported."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.serve.gateway_process import accord, running_gateway
from tests.patience import PATIENCE

from accord.gateway.access import audit_log
from accord.gateway.access.audit_log import AuditBroken, AuditLog, verify_audit_log

Change = Callable[[list[str]], list[str]]


def write(path: Path, count: int, **more: Any) -> AuditLog:
    audit = AuditLog(path, **more)
    for number in range(count):
        audit.record(None, "x", number=number)
    assert not audit.missing_lines
    return audit


@pytest.mark.parametrize(
    ("change", "place", "reason"),
    [
        (lambda lines: [line.replace('"number":4', '"number":5') for line in lines], 5, "was changed"),
        (lambda lines: lines[:4] + lines[5:], 5, "lines before it were removed"),
        (lambda lines: lines[:4] + lines[5:4:-1] + lines[4:5] + lines[6:], 5, "were removed"),
        (lambda lines: lines[:4] + lines[3:], 5, "does not continue"),
        (lambda lines: [*lines[:4], '{"event":"x"}', *lines[4:]], 5, "has no hash"),
        (lambda lines: lines[1:], 1, "the lines before it were removed"),
        (lambda lines: [*lines[:4], lines[4][:-20], *lines[5:]], 5, "has no hash"),
    ],
    ids=["changed", "removed", "moved", "repeated", "inserted", "first removed", "cut"],
)
def test_the_first_broken_line_is_named(tmp_path: Path, change: Change, place: int, reason: str) -> None:
    path = tmp_path / "audit.jsonl"
    write(path, 10)
    assert verify_audit_log(path).lines == 10
    path.write_text("".join(line + "\n" for line in change(path.read_text().splitlines())))
    with pytest.raises(AuditBroken, match=f"audit.jsonl line {place}\\b.*{reason}"):
        verify_audit_log(path)


@pytest.mark.parametrize("kept", ["lines", "half a line", "no file"])
def test_lines_removed_at_the_end_are_noticed_also_after_later_ones(tmp_path: Path, kept: str) -> None:
    path = tmp_path / "audit.jsonl"
    audit = write(path, 10)
    if kept == "no file":
        path.unlink()
        path.touch()
    else:
        text = "".join(path.read_text().splitlines(keepends=True)[:7])
        path.write_text(text if kept == "lines" else text[:-30])
    with pytest.raises(AuditBroken, match=r"the last lines were removed.*number 10 was written"):
        verify_audit_log(path)
    audit.record(None, "later")
    with pytest.raises(AuditBroken, match="removed; it is number 11"):
        verify_audit_log(path)


def test_a_hash_that_was_kept_elsewhere_proves_that_its_line_is_still_there(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    write(path, 5)
    last = verify_audit_log(path).last
    assert last is not None
    write(path, 5)
    assert verify_audit_log(path, expect=last.hash).lines == 10
    for file in (path, tmp_path / "audit.jsonl.lock"):
        file.unlink()
    write(path, 10, now=lambda: 0.0)  # a whole new log
    assert verify_audit_log(path).lines == 10
    with pytest.raises(AuditBroken, match=last.hash):
        verify_audit_log(path, expect=last.hash)


def test_a_copy_without_its_lock_file_is_checked_and_nothing_is_created(tmp_path: Path) -> None:
    write(tmp_path / "audit.jsonl", 3)
    copy = tmp_path / "copy" / "audit.jsonl"
    copy.parent.mkdir()
    copy.write_bytes((tmp_path / "audit.jsonl").read_bytes())
    verified = verify_audit_log(copy)
    assert (verified.lines, verified.has_head) == (3, False)
    assert [path.name for path in copy.parent.iterdir()] == ["audit.jsonl"]


def test_the_chain_goes_on_through_rotated_files(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    write(path, 100, max_bytes=1000, rotated_files=2)
    verified = verify_audit_log(path, rotated_files=2)
    assert (verified.files, verified.first + verified.lines - 1) == (3, 100)
    assert verified.first > 1
    os.replace(tmp_path / "audit.jsonl.2", tmp_path / "gone")
    with pytest.raises(AuditBroken, match=r"audit\.jsonl.1 line 1: the lines before it were removed"):
        verify_audit_log(path, rotated_files=2)
    os.replace(tmp_path / "gone", tmp_path / "audit.jsonl.2")
    (tmp_path / "audit.jsonl.1").unlink()
    with pytest.raises(AuditBroken, match=r"audit\.jsonl line 1: lines before it were removed"):
        verify_audit_log(path, rotated_files=2)


def test_a_log_without_hashes_is_continued_and_protected_from_then_on(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    (tmp_path / "audit.jsonl.1").write_text('{"event":"older"}\n')
    path.write_text('{"event":"old"}\n{"event":"old too"}\n')
    assert (verify_audit_log(path).unhashed, verify_audit_log(path).lines) == (3, 0)
    write(path, 3)
    assert (verify_audit_log(path).unhashed, verify_audit_log(path).lines) == (3, 3)
    path.write_text(path.read_text().replace("old too", "harmless"))
    with pytest.raises(AuditBroken, match="line 3: the lines before it were changed"):
        verify_audit_log(path)


_KILLED = """
import os, sys
from pathlib import Path
from typing import Any
from accord.gateway.access.audit_log import AuditLog
audit = AuditLog(Path(sys.argv[1]))
print(flush=True)
while True:
    audit.record(None, "x", pid=os.getpid())
"""


def test_killed_writers_leave_an_intact_chain(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    for _ in range(5):
        writers = [
            subprocess.Popen([sys.executable, "-c", _KILLED, str(path)], stdout=subprocess.PIPE)
            for _ in range(2)
        ]
        for writer in writers:
            assert writer.stdout is not None
            writer.stdout.read(1)
        size = path.stat().st_size if path.exists() else 0
        while not path.exists() or path.stat().st_size < size + 10_000:
            assert all(writer.poll() is None for writer in writers)
        for writer in writers:
            writer.kill()
            writer.wait(PATIENCE)
            assert writer.stdout is not None
            writer.stdout.close()
        verify_audit_log(path)
    write(path, 1)
    assert verify_audit_log(path).lines > 10


def test_a_line_that_a_killed_writer_left_incomplete_is_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    audit = write(path, 3)
    with path.open("a") as file:
        file.write('{"time":"2026')
    assert verify_audit_log(path).lines == 3
    audit.record(None, "next")
    assert verify_audit_log(path).lines == 4


def test_commands_about_tokens_are_in_the_chain_of_a_running_gateway(tmp_path: Path) -> None:
    home = tmp_path / "home"
    path = home / "data" / "gateway" / "audit.jsonl"
    with running_gateway(home) as gateway:
        accord(home, "serve", "token", "new", "--name", "ci", "--folder", str(tmp_path), "--expires", "2d")
        assert gateway.status("/metrics", token="acc_" + "a" * 8 + "_" + "b" * 43) == 401
        accord(home, "serve", "token", "revoke", "ci")
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["event"] for line in entries] == [
        "start",
        "token made",
        "refused",
        "token revoked",
        "stop",
    ]
    made, revoked = (line for line in entries if line["event"].startswith("token"))
    assert (made["name"], made["by"]) == (revoked["name"], revoked["by"]) == ("ci", "command")
    assert made["token"] == revoked["token"]
    assert made["scope"] == f"may use all agents in {tmp_path}"
    assert made["expires"]
    code, out, err = accord(home, "serve", "audit", "verify")
    assert (code, err) == (0, "")
    assert out == (
        f"{path}: 5 lines, none changed or removed.\nLast line: number 5, hash {entries[-1]['hash']}\n"
    )
    path.write_text(path.read_text().replace("may use all", "may do all", 1))
    code, out, err = accord(home, "serve", "audit", "verify")
    assert (code, out) == (1, "")
    assert err == (
        f"accord serve: the audit log is broken: {path} line 2 was changed: its hash does not fit\n"
    )


def test_a_removed_log_is_noticed_while_its_lock_file_exists(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    write(path, 3)
    path.unlink()
    with pytest.raises(AuditBroken, match=r"the last lines were removed.*number 3 was written"):
        verify_audit_log(path)


def test_a_gateway_goes_on_writing_during_a_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check judges the log as it was when it began, and holds no lock while it reads."""
    path = tmp_path / "audit.jsonl"
    (tmp_path / "audit.jsonl.1").write_text('{"event":"old"}\n')
    audit = write(path, 3)
    read_file = audit_log._ChainCheck.read_file

    def write_meanwhile(check: Any, *file: Any, **more: Any) -> None:
        audit.record(None, "x")
        read_file(check, *file, **more)

    with monkeypatch.context() as patch:
        patch.setattr(audit_log._ChainCheck, "read_file", write_meanwhile)
        found = verify_audit_log(path)
    assert (found.files, found.unhashed, found.lines) == (2, 1, 3)
    assert verify_audit_log(path).lines == 5
