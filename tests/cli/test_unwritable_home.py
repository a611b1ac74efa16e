"""An `ACCORD_HOME` that cannot be written to: every command says so; stored sessions stay readable."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.accord_command import run_accord
from tests.cli.agent_process import running_agent
from tests.patience import PATIENCE

PYTHON = sys.executable
NAMESPACE = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
FILL = (
    "mount -t tmpfs -o size=256k tmpfs {home} && head -c 300000 /dev/zero > {home}/filler 2>/dev/null; true"
)
READ_ONLY = "mount --bind {home} {home} && mount -o remount,ro,bind {home}"

COMMANDS = {
    "run hi": 1,
    "sessions list": 1,
    "sessions list --recorded": 1,
    "agents add mine -- cat": 2,
    "serve token new": 2,
    "serve --port 0": 1,
    "trace record -- cat": 1,
    "chat": 1,
}
"""Commands that write, with the exit code of each if that fails."""

STORED = """
import os
from pathlib import Path
from accord.frontend.recording import RecordedSessions
from accord.session import TurnEnded, TurnStarted
from accord.schema import TextContent

records = RecordedSessions.open()
journal = records.journal("kept-session", agent="accord", cwd=os.getcwd())
journal.append(TurnStarted([TextContent("hello")]), TurnEnded("end_turn"))
records.store.commit()
"""


def _can_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*NAMESPACE, "mount -t tmpfs tmpfs /mnt"], capture_output=True).returncode == 0


needs_mount = pytest.mark.skipif(
    not _can_mount(), reason="this system does not let a test mount a file system of its own"
)


def accord(home: Path, command: str, *, mount: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command with this home, in a name space of its own if something is mounted first."""
    env = {**os.environ, "ACCORD_HOME": str(home), "ACCORD_MODEL": "rehearsal"}
    if not mount:
        return run_accord(*command.split(), env=env, cwd=home.parent, stdin="")
    words = [PYTHON, "-m", "accord.cli", *command.split()]
    words = [*NAMESPACE, f'{mount.format(home=home)}; exec "$@"', "sh", *words]
    return subprocess.run(
        words, env=env, cwd=home.parent, input="", capture_output=True, text=True, timeout=PATIENCE
    )


def assert_clear(run: subprocess.CompletedProcess[str], code: int, home: Path) -> None:
    assert "Traceback" not in run.stderr
    assert run.returncode == code, run.stderr
    lines = run.stderr.splitlines()
    [line] = lines
    assert str(home) in line
    assert line.startswith("accord ")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_in_place_of_the_home_gives_a_clear_line(tmp_path: Path, command: str) -> None:
    home = tmp_path / "home"
    home.write_text("not a folder")
    code = 2 if command == "serve --port 0" else COMMANDS[command]  # its settings cannot be read either
    assert_clear(accord(home, command), code, home)


@needs_mount
@pytest.mark.parametrize("command", [name for name in COMMANDS if not name.startswith("trace")])
def test_a_full_disk_gives_a_clear_line(tmp_path: Path, command: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    assert_clear(accord(home, command, mount=FILL), COMMANDS[command], home)


@needs_mount
def test_a_trace_on_a_full_disk_goes_on_without_its_file(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    run = accord(home, "trace record -- cat", mount=FILL)
    assert "Traceback" not in run.stderr
    assert "recording stops, the connection continues" in run.stderr


@pytest.mark.parametrize("how", ["file", "full", "read-only"])
def test_doctor_finds_by_writing_that_nothing_can_be_stored(tmp_path: Path, how: str) -> None:
    home = tmp_path / "home"
    if how == "file":
        home.write_text("not a folder")
        run = accord(home, "doctor")
    else:
        if not _can_mount():
            pytest.skip("this system does not let a test mount a file system of its own")
        home.mkdir()
        run = accord(home, "doctor", mount=FILL if how == "full" else READ_ONLY)
    broken = [line for line in run.stdout.splitlines() if "BROKEN" in line]
    assert run.returncode == 1
    assert {line.split()[0] for line in broken} >= {"settings", "data"}
    assert "Traceback" not in run.stderr


def test_doctor_creates_nothing_in_a_home_that_does_not_exist_yet(tmp_path: Path) -> None:
    home = tmp_path / "new" / "home"
    home.parent.mkdir()
    run = accord(home, "doctor")
    assert [line.split()[:2] for line in run.stdout.splitlines() if line.startswith("data ")] == [
        ["data", "writable"]
    ]
    assert not home.exists()


@needs_mount
@pytest.mark.parametrize("ended", ["closed", "killed", "killed and shared"])
def test_a_store_on_a_read_only_file_system_is_readable(tmp_path: Path, ended: str) -> None:
    """Also what its last writer had not moved out of the write-ahead log when it was killed, and a file that
    others can read.
    """
    home = tmp_path / "home"
    end = "records.close()" if ended == "closed" else "os._exit(0)"
    env = {**os.environ, "ACCORD_HOME": str(home)}
    subprocess.run([PYTHON, "-c", STORED + end], env=env, cwd=tmp_path, check=True)
    wal = home / "data" / "client.db-wal"
    assert wal.exists() == (ended != "closed")
    if ended == "killed and shared":
        (home / "data" / "client.db").chmod(0o644)
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    listed = accord(home, "sessions list --recorded", mount=READ_ONLY)
    assert (listed.returncode, listed.stderr) == (0, "")
    assert listed.stdout.startswith("kept-session ")
    deleted = accord(home, "sessions delete --recorded kept-session", mount=READ_ONLY)
    assert_clear(deleted, 1, home)
    assert {path: path.read_bytes() for path in home.rglob("*") if path.is_file()} == before


@needs_mount
def test_a_session_of_the_coding_agent_is_shown_from_a_read_only_file_system(tmp_path: Path) -> None:
    """Also one that an editor started, so that there is no recording of it."""
    home = tmp_path / "home"
    with running_agent("--model", "rehearsal", home=home) as agent:
        agent.initialize()
        id = agent.new_session(tmp_path)["result"]["sessionId"]
        agent.prompt(id, "list .")
        agent.end()
    listed = accord(home, "sessions list", mount=READ_ONLY)
    assert (listed.returncode, listed.stderr) == (0, "")
    assert listed.stdout.startswith(id)
    for command in ("show", "export"):
        shown = accord(home, f"sessions {command} {id}", mount=READ_ONLY)
        assert_clear(shown, 0, home)
        assert "list ." in shown.stdout
    assert_clear(accord(home, f"sessions fork {id}", mount=READ_ONLY), 1, home)
