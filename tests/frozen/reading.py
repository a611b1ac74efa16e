"""Read a folder of files with the commands and the store; `make_files.py` keeps it, the tests compare it."""

import json
import sqlite3
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tests.frozen.commands import FILES, FLOATING, MADE_IN, Mask, accord, compact, environment


def schema_of(database: Path) -> list[str]:
    """The version and the tables of a store's file, without white space that says nothing."""
    connection = sqlite3.connect(database)
    try:
        marks = [
            f"{name} {connection.execute(f'PRAGMA {name}').fetchone()[0]}"
            for name in ("application_id", "user_version")
        ]
        rows = connection.execute(
            "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name"
        ).fetchall()
        return [*marks, *(" ".join(row[0].split()) for row in rows)]
    finally:
        connection.close()


def records_of(database: Path, folder: Path) -> list[str]:
    """Return all records of all sessions, the oldest session first, without unstable values."""
    mask = Mask(folder)
    connection = sqlite3.connect(database)
    try:
        logs = connection.execute("SELECT log, session, parent, parent_seq FROM logs ORDER BY log").fetchall()
        found, floating = list[str](), set[str]()
        for log, session, parent, place in logs:
            found.append(_line({"session": session, "parent": parent, "at": place is not None}, mask))
            rows = connection.execute(
                "SELECT kind, data FROM records WHERE key >> 32 = ? ORDER BY key", (log,)
            )
            for kind, data in rows.fetchall():
                for record in _records(data):
                    line = f"{kind} {_line(record, mask)}"
                    if any(f'"sessionUpdate":"{name}"' in line for name in FLOATING):
                        floating.add(line)
                    elif not (found[-1] == line and "chunk" in line):
                        found.append(line)
        return [*found, *sorted(floating)]
    finally:
        connection.close()


def _records(data: bytes) -> Iterable[Any]:
    value = json.loads(data)
    return value if isinstance(value, list) else [value]


def _line(value: Any, mask: Mask) -> str:
    return compact(mask.value(value))


def shape(file: Path) -> list[str]:
    """The members that the lines of a file have, with the types of their values."""
    found = {
        f"{name}: {type(value).__name__}"
        for line in file.read_text().splitlines()
        for name, value in json.loads(line).items()
    }
    return sorted(found)


def outputs_of(root: Path) -> dict[str, Any]:
    """What the commands that read files say, as JSON and without paths of this place."""
    home, project = root / "home", root / "project"

    def said(*words: str, cwd: Path = project) -> Any:
        done = accord(*words, home=home, cwd=cwd)
        assert done.returncode == 0, f"accord {' '.join(words)}: {done.stderr}"
        text = done.stdout.replace(str(root), "<folder>").replace(MADE_IN, "<folder>")
        if words[0] == "trace" and words[1] == "show":
            return [json.loads(line) for line in text.splitlines()]
        return json.loads(text)

    found: dict[str, Any] = {"agents": agents(said, project)}
    for path in sorted((FILES / "foreign").iterdir()):
        other = root / "foreign" / path.stem
        other.mkdir(parents=True, exist_ok=True)
        (other / "acp.json").write_bytes(path.read_bytes())
        found[f"agents of {path.stem}"] = agents(said, other, "--trust")
    for recorded in ((), ("--recorded",)):
        kind = "recorded" if recorded else "stored"
        listed = said("sessions", "list", "-a", "accord", "--all", "--json", *recorded)
        found[f"{kind} sessions"] = listed
        for session in listed:
            export = said(
                "sessions", "export", session["sessionId"], "-a", "accord", "--format", "json", *recorded
            )
            export.pop("exportedBy")
            found[f"{kind} session {session['sessionId']}"] = export
    tokens = said("serve", "token", "list", "--json")
    found["tokens"] = [{**token, "lastUsed": None} if "lastUsed" in token else token for token in tokens]
    found["trace"] = said("trace", "show", str(FILES / "trace.jsonl"), "--json")
    found["trace statistics"] = said("trace", "stats", str(FILES / "trace.jsonl"), "--json")
    return found


def agents(said: Callable[..., Any], folder: Path, *trust: str) -> list[Any]:
    """The agents that come from a file, and what a program is given that is started for each of them."""
    found: list[Any] = []
    for agent in said("agents", "list", "--json", *trust, cwd=folder):
        if agent["from"] not in ("built-in", "catalogue"):
            kept = {name: value for name, value in agent.items() if name not in ("installed", "howToGet")}
            found.append({**kept, "started": _started(agent, folder, trust)})
    return found


_PROGRAM = """#!{python}
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "initialize":
        servers = {{"http": True, "sse": True}}
        result = {{"protocolVersion": 1, "agentCapabilities": {{"mcpCapabilities": servers}}}}
        print(json.dumps({{"jsonrpc": "2.0", "id": message["id"], "result": result}}), flush=True)
    elif message["method"] == "session/new":
        names = ("HELPER_LEVEL", "HELPER_HOME", "HELPER_TEXT", "TEAM", "LEVEL")
        given = {{"arguments": sys.argv[1:], "folder": os.getcwd(), "params": message["params"]}}
        given["environment"] = {{name: os.environ.get(name) for name in names}}
        print(json.dumps(given), file=open({file!r}, "w"))
        sys.exit(0)
"""


def _started(agent: dict[str, Any], folder: Path, trust: tuple[str, ...]) -> Any:
    root = folder.parent if folder.name == "project" else folder.parents[1]
    home, file = root / "home", root / "started.json"
    file.unlink(missing_ok=True)
    (root / "work").mkdir(exist_ok=True)
    environment(home)
    program = root / "programs" / agent["command"][0]
    program.write_text(_PROGRAM.format(python=sys.executable, file=str(file)))
    program.chmod(0o755)
    accord("run", "-a", agent["name"], *trust, "hello", home=home, cwd=folder)
    program.unlink()
    return json.loads(file.read_text().replace(str(root), "<folder>"))
