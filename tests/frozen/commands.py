"""Helpers that `make_files.py` and the tests of this folder share: run `accord`, mask unstable values, hold
one conversation.
"""

import ast
import hashlib
import json
import os
import re
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from tests.accord_command import run_accord
from tests.patience import PATIENCE

HERE = Path(__file__).parent
FILES = HERE / "files"
SOURCE = HERE.parents[1] / "src" / "accord"
MADE_IN = "/tmp/accord-frozen"
"""The folder in which the files were made. Paths inside the files begin with it."""
TOKENS = {name: f"acc_{name}_" + "A" * 43 for name in ("frozen22", "frozen33")}
"""The tokens of the frozen gateway: with all rights, and read-only. They exist in these tests alone."""
COOKIE = "frozen-browser-login"
SECONDS = PATIENCE
"""How long any command may take, on a busy machine too."""


def environment(home: Path, **more: str) -> dict[str, str]:
    """A fixed environment: nothing of the user who runs the tests reaches a command."""
    programs = home.parent / "programs"
    programs.mkdir(exist_ok=True)
    script = programs / "accord"
    if not script.exists():
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m accord.cli "$@"\n')
        script.chmod(0o755)
    path = os.pathsep.join((str(programs), os.environ.get("PATH", os.defpath)))
    given = {
        "PATH": path,
        "HOME": str(home.parent),
        "LANG": "C.UTF-8",
        "COLUMNS": "200",
        "ACCORD_HOME": str(home),
        "ACCORD_MODEL": "rehearsal",
    }
    return {**given, **more}


def accord(
    *words: str, home: Path, cwd: Path | None = None, typed: str = "", **more: str
) -> "subprocess.CompletedProcess[str]":
    """Run one `accord` command to its end."""
    return run_accord(*words, stdin=typed, cwd=cwd or home.parent, env=environment(home, **more))


# Masking


_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_COUNTED = re.compile(r"\b([a-z]+)-[0-9a-f]{12}-\d+\b")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)")
_TEXTS = frozenset(
    ("description", "title", "message", "hint", "text", "reason", "summary", "stderr", "exportedBy")
)
_NUMBERS = frozenset(
    (
        "used",
        "input",
        "output",
        "thought",
        "totalTokens",
        "inputTokens",
        "outputTokens",
        "durationMs",
        "created",
        "updated",
        "pid",
        "since",
    )
)


class Mask:
    """Replaces ids, times, paths, token counts and texts for people. Equal ids get equal masks."""

    def __init__(self, folder: Path | str) -> None:
        self._folder = str(folder)
        self._ids: dict[str, str] = {}

    def value(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            entries = cast("dict[str, Any]", value)
            names = entries.keys()
            labeled = not names.isdisjoint(("id", "value", "optionId")) and names.isdisjoint(
                ("role", "arguments")
            )
            return {
                self._string(name): "<text>" if name == "name" and labeled else self.value(entry, name)
                for name, entry in entries.items()
            }
        if isinstance(value, list):
            return [self.value(entry, key) for entry in cast("list[Any]", value)]
        if isinstance(value, str):
            return "<text>" if key in _TEXTS else "<version>" if key == "version" else self._string(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and key in _NUMBERS:
            return "<number>"
        return value

    def line(self, line: str) -> str:
        """One JSON line, in the form in which Accord writes JSON."""
        return compact(self.value(json.loads(line)))

    def _string(self, text: str) -> str:
        text = text.replace(self._folder, "<folder>")
        text = _COUNTED.sub(lambda found: self._id(found[0], found[1]), text)
        return _TIME.sub("<time>", _UUID.sub(lambda found: self._id(found[0], "id"), text))

    def _id(self, text: str, kind: str) -> str:
        return self._ids.setdefault(text, f"<{kind} {len(self._ids) + 1}>")


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


# Conversation on the wire


FLOATING = (
    "available_commands_update",
    "session_info_update",
    "usage_update",
    "config_option_update",
    "current_mode_update",
)
"""Updates that may arrive between any others: their order is no promise."""


class Editor:
    """A client that writes and reads the lines of `accord agent` itself, so that nothing of Accord stands in
    between.
    """

    def __init__(self, home: Path, project: Path, *command: str) -> None:
        self.lines: list[tuple[str, str]] = []
        words = command or (sys.executable, "-m", "accord.cli", "agent")
        self.process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment(home),
            cwd=project,
        )
        self._last_id = 0
        self._guard = threading.Timer(SECONDS, self.process.kill)
        self._guard.start()

    def send(self, **message: Any) -> None:
        line = compact({"jsonrpc": "2.0", **message})
        assert self.process.stdin is not None
        self.lines.append((">", line))
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def read(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode()
        assert line.endswith("\n"), "the agent ended in the middle of the conversation"
        self.lines.append(("<", line[:-1]))
        return json.loads(line)

    def call(self, method: str, *, answer: bool = True, **params: Any) -> Any:
        """Send a request, allow what the agent asks for, and return the whole response."""
        self._last_id += 1
        self.send(id=self._last_id, method=method, params=params)
        while True:
            message = self.read()
            if message.get("method") == "session/request_permission":
                if not answer:
                    return message
                chosen = message["params"]["options"][0]["optionId"]
                self.send(id=message["id"], result={"outcome": {"outcome": "selected", "optionId": chosen}})
            elif message.get("id") == self._last_id and "method" not in message:
                return message

    def prompt(self, session: str, text: str, *, answer: bool = True) -> Any:
        content = [{"type": "text", "text": text}]
        return self.call("session/prompt", answer=answer, sessionId=session, prompt=content)

    def start(self) -> None:
        info = {"name": "frozen", "version": "1"}
        self.call("initialize", protocolVersion=1, clientCapabilities={}, clientInfo=info)

    def new(self, project: Path) -> str:
        return self.call("session/new", cwd=str(project), mcpServers=[])["result"]["sessionId"]

    def close(self) -> None:
        """End the conversation as an editor does, by closing the agent's stdin."""
        self.process.communicate(timeout=SECONDS)
        self._guard.cancel()

    def kill(self) -> None:
        """End the agent in the middle of its work."""
        self.process.kill()
        self.process.communicate(timeout=SECONDS)
        self._guard.cancel()


PROMPTS = (
    "think: about the notes",
    "plan: read the notes; change the notes",
    "write notes.txt: hello then read notes.txt",
    "replace hello with goodbye in notes.txt",
    "search for goodbye in notes.txt",
    "delegate: read notes.txt",
    "/mode plan",
    "read missing.txt",
)


def converse(home: Path, project: Path) -> list[tuple[str, str]]:
    """The fixed conversation with `accord agent`; the raw lines of both sides."""
    editor = Editor(home, project)
    editor.start()
    session = editor.new(project)
    for text in PROMPTS:
        editor.prompt(session, text)
    editor.call("session/set_mode", sessionId=session, modeId="workspace-write")
    editor.call("session/set_config_option", sessionId=session, configId="mode", value="ask")
    fork = editor.call("session/fork", sessionId=session, cwd=str(project), mcpServers=[])
    editor.prompt(fork["result"]["sessionId"], "write fork.txt: only in the fork")
    editor.prompt(session, "/compact")
    editor.call("session/close", sessionId=session)
    editor.call("session/resume", sessionId=session, cwd=str(project), mcpServers=[])
    editor.call("session/close", sessionId=session)
    editor.call("session/load", sessionId=session, cwd=str(project), mcpServers=[])
    editor.call("session/list", cwd=str(project))
    editor.call("session/list", cursor="not a cursor")
    editor.call("session/set_mode", sessionId=session, modeId="no-such-mode")
    editor.call("session/prompt", sessionId="no-such-session", prompt=[])
    editor.call("session/new", cwd="relative", mcpServers=[])
    editor.call("authenticate", methodId="no-such-method")
    editor.call("no/such/method", value=1)
    editor.call("_frozen/extension", value=1)
    editor.close()
    return editor.lines


def transcript(lines: Sequence[tuple[str, str]], folder: Path | str) -> list[str]:
    """The conversation without unstable values. Pieces of one message become one line; floating updates go to
    the end.
    """
    mask, found, floating = Mask(folder), list[str](), set[str]()
    for side, line in lines:
        masked = f"{side} {mask.line(line)}"
        if side == "<" and any(f'"sessionUpdate":"{name}"' in masked for name in FLOATING):
            floating.add(masked)
        elif not (found and found[-1] == masked and '_chunk"' in masked):
            found.append(masked)
    return [*found, *sorted(floating)]


def run_events(home: Path, project: Path) -> list[str]:
    """The events of a fixed turn of `accord run --format json`, without unstable values."""
    prompt = "write notes.txt: hello then read notes.txt"
    done = accord("run", "--format", "json", "--permissions", "all", prompt, home=home, cwd=project)
    assert done.returncode == 0, done.stderr
    mask, found, floating = Mask(home.parent), list[str](), set[str]()
    for line in done.stdout.splitlines():
        masked, kind = mask.line(line), json.loads(line)["type"]
        if kind in FLOATING:
            floating.add(masked)
        elif not (found and found[-1] == masked and kind.endswith("_chunk")):
            found.append(masked)
    return [*found, *sorted(floating)]


# Names that stay


COMMANDS = (
    "run",
    "chat",
    "agent",
    "serve",
    "serve token new",
    "serve token list",
    "serve token revoke",
    "check agent",
    "check client",
    "check rules",
    "trace record",
    "trace show",
    "trace replay",
    "trace stats",
    "agents list",
    "agents show",
    "agents add",
    "agents remove",
    "agents trust",
    "agents schema",
    "agents login",
    "agents logout",
    "agents setup",
    "sessions list",
    "sessions show",
    "sessions export",
    "sessions fork",
    "sessions delete",
    "doctor",
)


def option_names(command: str, home: Path) -> list[str]:
    """The options that `--help` of a command lists, with their fixed choices."""
    done = accord(*command.split(), "--help", home=home)
    assert done.returncode == 0, f"accord {command} --help: {done.stderr}"
    heads = [line.strip().split("  ")[0] for line in done.stdout.splitlines() if re.match(r" {2,4}-", line)]
    names = {name for head in heads for name in re.findall(r"(?<!\S)--?[a-z][\w-]*", head)}
    choices = {found for head in heads for found in re.findall(r"\{[^}]+\}", head)}
    return sorted(names | choices)


def constants(pattern: str) -> list[str]:
    """The string constants in the source that match the whole pattern."""
    whole = re.compile(pattern)
    found: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if whole.search(text) else ():
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and whole.fullmatch(node.value):
                found.add(node.value)
    return sorted(found)


def exit_codes(home: Path, project: Path) -> dict[str, int]:
    """The exit codes of commands that end in each of the documented ways."""
    calls = {
        "no command": (),
        "unknown command": ("no-such-command",),
        "version": ("--version",),
        "run": ("run", "think: x"),
        "run, unknown option": ("run", "--no-such-option"),
        "run, unknown agent": ("run", "-a", "no-such-agent", "x"),
        "run, no such program": ("run", "x", "--", "no-such-program"),
        "run, agent ends": ("run", "x", "--", sys.executable, "-c", ""),
        "run, deadline": ("run", "--deadline", "5", "--permissions", "all", "run sleep 600"),
        "run, permission refused": ("run", "--permissions", "none", "write x.txt: x"),
        "run, sign in first": ("run", "x", "--", "accord", "agent", "--model", "openai:x"),
        "run, unknown session": ("run", "--session", "no-such-session", "x"),
        "agent, unknown mode": ("agent", "--mode", "no-such-mode"),
        "sessions show, unknown session": ("sessions", "show", "--recorded", "no-such-session"),
        "agents show, unknown agent": ("agents", "show", "no-such-agent"),
        "agents remove, unknown agent": ("agents", "remove", "no-such-agent"),
        "serve token revoke, unknown token": ("serve", "token", "revoke", "frozen44"),
        "trace show, no file": ("trace", "show", "no-such-file"),
        "check agent, no such program": ("check", "agent", "--", "no-such-program"),
        "check agent, no command": ("check", "agent"),
        "doctor, unknown extra": ("doctor", "no-such-extra"),
    }
    return {name: accord(*words, home=home, cwd=project).returncode for name, words in calls.items()}


# Gateway


class Gateway:
    """A running `accord serve` on a free port."""

    def __init__(self, address: str) -> None:
        self.address = address

    def get(self, path: str, token: str) -> str:
        return self._ask(urllib.request.Request(self.address + path, headers=_bearer(token)))

    def post(self, path: str, body: Any, headers: dict[str, str]) -> Any:
        given = {"Content-Type": "application/json", **headers}
        request = urllib.request.Request(self.address + path, json.dumps(body).encode(), given, method="POST")
        text = self._ask(request)
        return json.loads(text) if text else None

    def initialize(self, token: str) -> Any:
        """The response to `initialize` over HTTP."""
        params = {"protocolVersion": 1, "clientCapabilities": {}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
        answer = self.post("/acp", message, _bearer(token))
        answer["result"]["agentCapabilities"]["_meta"]["accord"]["resume"]["connectionId"] = "<id>"
        return answer

    def _ask(self, request: urllib.request.Request) -> str:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=SECONDS) as response:
            return response.read().decode()


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@contextmanager
def gateway(home: Path, project: Path, *words: str) -> Generator[Gateway]:
    """Run `accord serve`, and stop it at the end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "accord.cli", "serve", "--port", str(port), "--no-qr", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment(home),
        cwd=project,
        text=True,
    )
    try:
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert process.poll() is None, "the gateway ended"
                assert time.monotonic() < deadline, "the gateway does not listen"
                time.sleep(0.05)
        yield Gateway(f"http://127.0.0.1:{port}")
    finally:
        process.terminate()
        process.communicate(timeout=SECONDS)


def place(root: Path, files: Path = FILES) -> Path:
    """Put a copy of the frozen files into a folder, as if they had been made there: paths inside them are
    moved along.
    """
    root = root.resolve()
    for name in ("home", "project"):
        for source in sorted((files / name).rglob("*")):
            target = root / source.relative_to(files)
            if source.is_dir():
                continue
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            content = source.read_bytes()
            target.write_bytes(
                content if source.suffix == ".db" else content.replace(MADE_IN.encode(), str(root).encode())
            )
            target.chmod(0o600)
            if source.suffix == ".db":
                _move_paths(target, root)
            if source.parent.name == "trust":
                # The name of a trust file is the hash of the path that it trusts.
                assert source.stem == sha256(json.loads(content)["path"])
                target.rename(target.with_name(f"{sha256(json.loads(target.read_text())['path'])}.json"))
    return root


def _move_paths(database: Path, root: Path) -> None:
    connection = sqlite3.connect(database)
    change = f"replace(?, '{MADE_IN}', '{root}')"
    connection.execute(
        f"UPDATE heads SET cwd = {change.replace('?', 'cwd')}, folder = {change.replace('?', 'folder')}"
    )
    connection.execute(f"UPDATE records SET data = CAST({change.replace('?', 'CAST(data AS TEXT)')} AS BLOB)")
    connection.commit()
    connection.close()


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
