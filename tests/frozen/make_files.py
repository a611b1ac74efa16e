"""Make the frozen files: what this version of Accord writes, for later versions to read.

    python -m tests.frozen.make_files

Run it only on purpose, when a new format gets its own frozen files. Never run it to make a test pass: a test
that fails here says that files of users can no longer be read, or that scripts of users no longer work.

The files under `files/home/config`, `files/project`, `files/foreign` and `files/check` are written by hand
and stay as they are. The script makes the rest: `files/home/data`, `files/home/config/credentials.json`,
`files/trace.jsonl` and `files/expected`. It works in /tmp/accord-frozen, so that no path of the machine gets
into a file.
"""

import getpass
import json
import os
import pty
import shutil
import socket
import sqlite3
import sys
from pathlib import Path
from typing import Any

from tests.frozen.commands import (
    COMMANDS,
    COOKIE,
    FILES,
    HERE,
    MADE_IN,
    TOKENS,
    Editor,
    Mask,
    accord,
    constants,
    converse,
    environment,
    exit_codes,
    gateway,
    option_names,
    run_events,
    sha256,
    transcript,
)
from tests.frozen.reading import outputs_of, records_of, schema_of, shape

ROOT = Path(MADE_IN)
HOME = ROOT / "home"
PROJECT = ROOT / "project"
DATA = HOME / "data"
EXPECTED = FILES / "expected"


def main() -> None:
    shutil.rmtree(ROOT, ignore_errors=True)
    PROJECT.mkdir(parents=True)
    HOME.mkdir()
    write("wire.txt", transcript(converse(HOME, PROJECT), ROOT))
    write("records.txt", records_of(DATA / "sessions.db", ROOT))
    interrupt()
    (PROJECT / "notes.txt").unlink()
    write("run-events.txt", run_events(HOME, PROJECT))
    metrics, initialize = serve()
    names = {
        "options": {command: option_names(command, HOME) for command in COMMANDS},
        "exit codes": exit_codes(HOME, PROJECT),
        "environment variables": constants("ACCORD_[A-Z_]+"),
        "methods": constants("_accord/[a-z_/]+"),
        "metrics": metrics,
        "gateway initialize": initialize,
        "tables": {name: schema_of(DATA / f"{name}.db") for name in ("sessions", "client", "gateway")},
        "decisions": shape(DATA / "decisions.jsonl"),
        "audit": shape(DATA / "gateway" / "audit.jsonl"),
    }
    write_json("names.json", names)
    trace()
    login()
    keep()
    shutil.copytree(FILES / "home" / "config", HOME / "config", dirs_exist_ok=True)
    shutil.copytree(FILES / "project", PROJECT, dirs_exist_ok=True)
    agree()
    shutil.copytree(DATA / "trust", FILES / "home" / "data" / "trust")
    write_json("outputs.json", outputs_of(ROOT))
    check_nothing_private()


def interrupt() -> None:
    """A session whose agent was killed while it waited for a permission."""
    editor = Editor(HOME, PROJECT)
    editor.start()
    session = editor.new(PROJECT)
    editor.prompt(session, "think: before the end")
    editor.prompt(session, "run touch made.txt", answer=False)
    editor.kill()


def serve() -> tuple[list[str], Any]:
    """Fill the gateway's log, tokens, logins and audit; return the names of its metrics and its answer to
    `initialize`.
    """
    folder = DATA / "gateway" / "tokens"
    rights = {
        "frozen22": ["--name", "all"],
        "frozen33": ["--name", "look", "--read-only", "--agent", "accord", "--folder", str(ROOT)],
    }
    for id, words in rights.items():
        done = accord("serve", "token", "new", "--plain", *words, home=HOME)
        assert done.returncode == 0, done.stderr
        # The same token with a known secret: the tests have to present it.
        made = folder / f"{done.stdout.split('_')[1]}.json"
        token = json.loads(made.read_text())
        made.unlink()
        place = folder / f"{id}.json"
        place.write_text(json.dumps({**token, "id": id, "sha256": sha256("A" * 43)}, separators=(",", ":")))
        place.chmod(0o600)
    with gateway(HOME, PROJECT, "accord") as served:
        token = TOKENS["frozen22"]
        address = served.address.replace("http", "ws") + "/acp"
        done = accord(
            "run",
            "--url",
            address,
            "--permissions",
            "all",
            "write served.txt: hello",
            home=HOME,
            cwd=PROJECT,
            ACCORD_TOKEN=token,
        )
        assert done.returncode == 0, done.stderr
        initialize = Mask(ROOT).value(served.initialize(token))
        served.post("/api/login", {}, {"Authorization": f"Bearer {token}", "Origin": served.address})
        metrics = sorted(
            line for line in served.get("/metrics", token).splitlines() if line.startswith("# TYPE ")
        )
    browsers = DATA / "gateway" / "browsers"
    for made in browsers.iterdir():
        made.rename(browsers / sha256(COOKIE))
    return metrics, initialize


def trace() -> None:
    """A recording with secrets in it, which the recorder must take out."""
    command = ("accord", "trace", "record", "-o", str(ROOT / "trace.jsonl"), "--", "accord", "agent")
    words = (shutil.which("accord", path=environment(HOME)["PATH"]) or "", *command[1:])
    editor = Editor(HOME, PROJECT, *words)
    editor.start()
    secret = {"name": "SERVICE_API_KEY", "value": "frozen-secret"}
    server = {"name": "none", "command": "/bin/false", "args": [], "env": [secret]}
    session = editor.call("session/new", cwd=str(PROJECT), mcpServers=[server])["result"]["sessionId"]
    editor.prompt(session, "think: the password=frozen-secret is here")
    editor.prompt(session, "plan: one; two")
    editor.close()
    text = (ROOT / "trace.jsonl").read_text()
    assert "frozen-secret" not in text
    assert '"redacted":true' in text
    (FILES / "trace.jsonl").write_text(text)


def login() -> None:
    done = accord("agent", "--login", "google", home=HOME, cwd=PROJECT, typed="not-a-real-key\n")
    assert done.returncode == 0, done.stderr
    shutil.copy(HOME / "config" / "credentials.json", FILES / "home" / "config" / "credentials.json")


def agree() -> None:
    """Trust the project's acp.json, on a terminal."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(PROJECT)
        os.execve(sys.executable, [sys.executable, "-m", "accord.cli", "agents", "trust"], environment(HOME))
    shown = b""
    while b"[y/N]" not in shown:
        shown += os.read(terminal, 4096)
    os.write(terminal, b"y\n")
    _, status = os.waitpid(child, 0)
    assert status == 0


def keep() -> None:
    """Copy the data into the repository: databases as single files, nothing of running processes."""
    target = FILES / "home" / "data"
    shutil.rmtree(target, ignore_errors=True)
    left_out = shutil.ignore_patterns("*-wal", "*-shm", "*-owners", "running", "trust", "*.lock")
    for database in DATA.glob("*.db"):
        connection = sqlite3.connect(database)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
    shutil.copytree(DATA, target, ignore=left_out)


def write(name: str, lines: list[str]) -> None:
    EXPECTED.mkdir(exist_ok=True)
    (EXPECTED / name).write_text("".join(f"{line}\n" for line in lines))


def write_json(name: str, value: Any) -> None:
    EXPECTED.mkdir(exist_ok=True)
    (EXPECTED / name).write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def check_nothing_private() -> None:
    private = {
        str(HERE.parents[1]),
        str(Path.home()),
        sys.prefix,
        f"/{getpass.getuser()}/",
        socket.gethostname(),
    }
    for path in FILES.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            found = [text for text in private if text.encode() in content]
            assert not found, f"{path}: {found}"
            sys.stdout.write(f"{len(content):8} {path.relative_to(FILES)}\n")


if __name__ == "__main__":
    main()
