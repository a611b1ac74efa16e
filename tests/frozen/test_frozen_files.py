"""Files that an earlier version wrote are read, and what users and scripts depend on stays as it was.

`make_files.py` says how the files were made. They are never made anew to let a test pass.
"""

import json
import re
import shutil
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.frozen.commands import (
    COMMANDS,
    COOKIE,
    FILES,
    TOKENS,
    Mask,
    accord,
    compact,
    constants,
    converse,
    exit_codes,
    gateway,
    option_names,
    place,
    run_events,
    transcript,
)
from tests.frozen.reading import outputs_of, records_of, schema_of, shape

import accord as library

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the files hold POSIX paths")

NAMES: dict[str, Any] = json.loads((FILES / "expected" / "names.json").read_text())
OUTPUTS: dict[str, Any] = json.loads((FILES / "expected" / "outputs.json").read_text())

LINE_VERSION = "version: int"
"""Each line of a log names the version of its format. The frozen lines do not, so they have version 1."""


ADDED_FEATURES: dict[str, Any] = {
    name: {"supported": True} for name in ("steering", "rewind", "sessionIndex")
}
ADDED_CAPABILITIES: dict[str, Any] = {"archive": {}, "status": {}, "title": {}}
ADDED_MCP_TRANSPORTS: dict[str, Any] = {"acp": True}
"""Announced by newer versions, beside what the files hold."""
ADDED_ANSWERS = [
    f',{{"optionId":"{name}","name":"<text>","kind":"allow_always"}}'
    for name in ("allow_project", "allow_user")
]
"""Options of a permission request, beside those that the files hold."""
REMOVED_QUESTION = '"kind":"execute","rawInput":{"prompt":"read notes.txt"}},"options"'
"""The files hold a question about the `agent` tool. Newer versions start sub-agents without one."""
COMMAND_LIST = '"availableCommands":'


def without_additions(line: str) -> str:
    """A line of the wire without what newer versions announce beside it."""
    for added in (ADDED_FEATURES, ADDED_CAPABILITIES, ADDED_MCP_TRANSPORTS):
        line = line.replace(f",{compact(added)[1:-1]}", "")
    if '"sessionUpdate":"user_message_chunk"' in line or '"_accord/turn_started"' in line:
        line = re.sub(r',"messageId":"<msg \d+>"', "", line)
    start = line.find(COMMAND_LIST)
    if start < 0:
        return line
    start += len(COMMAND_LIST)
    commands, end = json.JSONDecoder().raw_decode(line, start)
    kept: list[Any] = []
    for frozen in frozen_commands():
        [command] = [command for command in commands if command["name"] == frozen["name"]]
        kept.append({name: command[name] for name in frozen})
    return f"{line[:start]}{compact(kept)}{line[end:]}"


@cache
def frozen_commands() -> list[dict[str, Any]]:
    """The slash commands that the files hold."""
    [line] = [line for line in expected("run-events.txt") if COMMAND_LIST in line]
    return json.loads(line)["availableCommands"]


def _without_new_members(value: Any, frozen: Any) -> Any:
    """The value without the members of objects that the frozen one does not have."""
    if isinstance(value, dict) and isinstance(frozen, dict):
        return {name: _without_new_members(value[name], frozen[name]) for name in frozen if name in value}
    if isinstance(value, list) and isinstance(frozen, list) and len(value) == len(frozen):
        return [_without_new_members(one, other) for one, other in zip(value, frozen, strict=True)]
    return value


def expected(name: str) -> list[str]:
    return (FILES / "expected" / name).read_text().splitlines()


@pytest.fixture(scope="module")
def placed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The frozen files in a folder of this run. Tests that share it only read."""
    return place(tmp_path_factory.mktemp("placed"))


@pytest.fixture(scope="module")
def outputs(placed: Path) -> dict[str, Any]:
    return outputs_of(placed)


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    """A folder with an empty home and an empty project."""
    (tmp_path / "home").mkdir()
    (tmp_path / "project").mkdir()
    return tmp_path.resolve()


# What is read


@pytest.mark.parametrize("name", OUTPUTS)
def test_commands_read_the_frozen_files_as_before(outputs: dict[str, Any], name: str) -> None:
    assert _without_new_members(outputs[name], OUTPUTS[name]) == OUTPUTS[name]


def test_no_output_is_new_or_missing(outputs: dict[str, Any]) -> None:
    assert list(outputs) == list(OUTPUTS)


def test_a_frozen_session_goes_on(tmp_path: Path) -> None:
    root = place(tmp_path)
    asked = accord("run", "-a", "accord", "think: hello", home=root / "home", cwd=root / "project")
    assert asked.returncode == 5, "the project's rules have to be agreed to first"
    shutil.rmtree(root / "project" / ".accord")
    for session in OUTPUTS["stored sessions"]:
        words = (
            "run",
            "-a",
            "accord",
            "--session",
            session["sessionId"],
            "--format",
            "quiet",
            "think: once more",
        )
        done = accord(*words, home=root / "home", cwd=root / "project")
        assert done.returncode == 0, done.stderr


def test_config_files_are_accepted(tmp_path: Path) -> None:
    root = place(tmp_path)
    home = root / "home"
    assert accord("run", "-a", "accord", "think: hello", home=home, cwd=root).returncode == 0
    assert accord("chat", "accord", home=home, cwd=root, typed="think: hello\n").returncode == 0
    config = home / "config"
    (config / "config.toml").unlink()
    (config / "config.json").write_bytes((FILES / "config.json").read_bytes())
    assert accord("run", "-a", "accord", "think: hello", home=home, cwd=root).returncode == 0
    for name, words in {
        "config.json": ("agent",),
        "acp.json": ("agents", "list"),
        "serve.json": ("serve",),
    }.items():
        (config / name).write_text('{"noSuchSetting": 1}')
        assert accord(*words, home=home, cwd=root).returncode == 2, name


def test_a_kept_key_is_found(placed: Path) -> None:
    done = accord("doctor", home=placed / "home", cwd=placed, ACCORD_MODEL="google:some-model")
    assert "google:some-model" in done.stdout
    assert "not-a-real-key" not in done.stdout + done.stderr
    removed = accord("agent", "--logout", "google", home=place(placed / "other") / "home")
    assert removed.returncode == 0
    file = placed / "other" / "home" / "config" / "credentials.json"
    assert not file.exists() or "google" not in file.read_text()


def test_a_changed_project_file_is_no_longer_trusted(tmp_path: Path) -> None:
    root = place(tmp_path)
    words = ("agents", "list", "--json")
    before = json.loads(accord(*words, home=root / "home", cwd=root / "project").stdout)
    assert "team" in {agent["name"] for agent in before if agent["default"]}
    file = root / "project" / "acp.json"
    file.write_text(file.read_text() + "\n")
    after = json.loads(accord(*words, home=root / "home", cwd=root / "project").stdout)
    assert "team" not in {agent["name"] for agent in after if agent["default"]}


async def test_the_gateway_reads_its_frozen_files(tmp_path: Path) -> None:
    root = place(tmp_path)
    with gateway(root / "home", root / "project") as served:
        assert served.get("/metrics", TOKENS["frozen33"])
        origin = {"Origin": served.address, "Cookie": f"accord={COOKIE}", "Sec-Fetch-Site": "same-origin"}
        assert served.post("/api/ticket", {}, origin).keys() == {"ticket"}
        address = served.address.replace("http", "ws") + "/acp"
        async with library.connect(address, token=TOKENS["frozen22"]) as agent:
            listed = await agent.request("_accord/sessions", {})
        found = {session["sessionId"] for session in listed["sessions"]}
        assert records_of(root / "home" / "data" / "gateway.db", root)
        assert found & {session["sessionId"] for session in OUTPUTS["stored sessions"]}


def test_a_frozen_recording_is_replayed(fresh: Path) -> None:
    words = ("trace", "replay", str(FILES / "trace.jsonl"), "--as-client", "--cwd", str(fresh / "project"))
    done = accord(*words, "--", "accord", "agent", home=fresh / "home", cwd=fresh / "project")
    assert done.returncode in (0, 1), done.stderr


@pytest.mark.parametrize("kind", ["agent", "client"])
def test_check_scripts_are_read(fresh: Path, kind: str) -> None:
    script = str(FILES / "check" / f"{kind}-script.json")
    checked = ("accord", "agent") if kind == "agent" else ("accord", "run", "{prompt}", "--", "{agent}")
    words = ("check", kind, "--only", "framing", "--json", "--script", script, "--", *checked)
    done = accord(*words, home=fresh / "home", cwd=fresh / "project")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["script"] == f"frozen {kind} script"


# What is written


def test_the_wire_is_unchanged(fresh: Path) -> None:
    lines = converse(fresh / "home", fresh / "project")
    remaining = [without_additions(line) for line in transcript(lines, fresh)]
    remaining = [_without(line, ADDED_ANSWERS) for line in remaining]
    assert _numbered_again(remaining) == _numbered_again(_expected_wire())
    assert [line for _, line in lines if compact(json.loads(line)) != line] == []
    data = fresh / "home" / "data"
    records = [without_additions(line) for line in records_of(data / "sessions.db", fresh)]
    assert _numbered_again(records) == _numbered_again(expected("records.txt"))
    assert schema_of(data / "sessions.db") == NAMES["tables"]["sessions"]
    assert set(shape(data / "decisions.jsonl")) <= {*NAMES["decisions"], LINE_VERSION}


def _numbered_again(lines: list[str]) -> list[str]:
    """The lines with ids numbered in their order again, because newer versions have more of them."""
    numbers: dict[str, str] = {}

    def number(match: re.Match[str]) -> str:
        return numbers.setdefault(match[0], f"<{match[1]} {len(numbers) + 1}>")

    return [re.sub(r"<(\w+) \d+>", number, line) for line in lines]


def _expected_wire() -> list[str]:
    """The frozen wire without the question about a sub-agent. The next request has its number instead."""
    lines = expected("wire.txt")
    [question] = [line for line in lines if REMOVED_QUESTION in line]
    start = re.compile(
        r'([<>] \{"jsonrpc":"2.0","id":)(\d+)'
        r'(,"(?:method":"session/request_permission|result":\{"outcome))'
    )
    match = start.match(question)
    assert match is not None
    number = int(match[2])
    kept: list[str] = []
    for line in lines:
        found = start.match(line)
        if found is None or int(found[2]) < number:
            kept.append(line)
        elif int(found[2]) > number:
            kept.append(start.sub(lambda one: f"{one[1]}{int(one[2]) - 1}{one[3]}", line))
    return kept


def _without(line: str, added: list[str]) -> str:
    for text in added:
        line = line.replace(text, "")
    return line


def test_events_of_run_are_unchanged(fresh: Path) -> None:
    events = [without_additions(line) for line in run_events(fresh / "home", fresh / "project")]
    # The commands are no event of the turn if they arrive before it begins.
    frozen = [line for line in expected("run-events.txt") if COMMAND_LIST not in line]
    assert [_without(line, ADDED_ANSWERS) for line in events if COMMAND_LIST not in line] == frozen
    assert schema_of(fresh / "home" / "data" / "client.db") == NAMES["tables"]["client"]


def test_the_gateway_answers_as_before(tmp_path: Path) -> None:
    root = place(tmp_path)
    with gateway(root / "home", root / "project", "accord") as served:
        token = TOKENS["frozen22"]
        initialized = Mask(root).value(served.initialize(token))
        meta, sessions = (
            initialized["result"]["_meta"],
            initialized["result"]["agentCapabilities"]["sessionCapabilities"],
        )
        for name in ADDED_FEATURES:
            meta.pop(name, None)
        for name in ADDED_CAPABILITIES:
            sessions.pop(name, None)
        for name in ADDED_MCP_TRANSPORTS:
            initialized["result"]["agentCapabilities"]["mcpCapabilities"].pop(name, None)
        assert initialized == NAMES["gateway initialize"]
        lines = served.get("/metrics", token).splitlines()
    assert sorted(line for line in lines if line.startswith("# TYPE ")) == NAMES["metrics"]
    assert set(shape(root / "home" / "data" / "gateway" / "audit.jsonl")) <= {*NAMES["audit"], LINE_VERSION}
    assert schema_of(root / "home" / "data" / "gateway.db") == NAMES["tables"]["gateway"]


# Names


@pytest.mark.parametrize("command", COMMANDS)
def test_options_are_unchanged(fresh: Path, command: str) -> None:
    assert set(NAMES["options"][command]) <= set(option_names(command, fresh / "home"))


def test_exit_codes_are_unchanged(fresh: Path) -> None:
    assert exit_codes(fresh / "home", fresh / "project") == NAMES["exit codes"]


def test_environment_variables_are_unchanged() -> None:
    assert set(NAMES["environment variables"]) <= set(constants("ACCORD_[A-Z_]+"))


def test_own_methods_are_unchanged() -> None:
    # When the names were frozen, these two were parts of longer byte strings.
    others = {"_accord/terminal", "_accord/turn"}
    assert {*NAMES["methods"], *others} <= set(constants("_accord/[a-z_/]+"))
