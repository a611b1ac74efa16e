"""`accord run`: which session a turn runs in, and which settings are applied."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.run.run_harness import RunHarness, odd_agent

MODES = {
    "modes": {
        "currentModeId": "ask",
        "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Write Code"}],
    }
}
CONFIG = {
    "configOptions": [
        {"type": "select", "id": "m", "name": "Model", "category": "model", "currentValue": "small",
         "options": [{"value": "small", "name": "Small"}, {"value": "big-1", "name": "Big"}]},
        {"type": "boolean", "id": "web", "name": "Web search", "currentValue": False},
    ]
}  # fmt: skip


def received(file: Path, *methods: str) -> list[dict[str, Any]]:
    """Return the parameters of these calls, in order."""
    messages = [json.loads(line) for line in file.read_text().splitlines()]
    return [message["params"] for message in messages if message.get("method") in methods]


# -- continue --------------------------------------------------------------------------------------------


def test_continue_uses_the_newest_session_of_the_folder(harness: RunHarness, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    first = harness.run("think: a", "--format", "json").result["session"]
    elsewhere = harness.run("think: b", "--cwd", str(other), "--format", "json").result["session"]
    again = harness.run("think: c", "--continue", "--format", "json")
    assert again.result["session"] == first != elsewhere
    assert "think: a" not in again.out, "earlier messages must not be shown again"
    named = harness.run("think: d", "--session", elsewhere, "--cwd", str(other), "--format", "json")
    assert named.result["session"] == elsewhere


def test_continue_uses_recorded_sessions_when_the_agent_lists_none(
    harness: RunHarness, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    offers = {"CAPABILITIES": '{"loadSession": true}', "HEARD": str(log)}
    ran = harness.run("hello", "--continue", *odd_agent("polite"), **offers)
    assert ran.code == 2
    assert f"has no session in {harness.cwd}; omit --continue to start one" in ran.err
    assert harness.run("hello", *odd_agent("polite"), **offers).code == 0
    assert harness.run("again", "--continue", *odd_agent("polite"), **offers).code == 0
    (loaded,) = received(log, "session/load")
    assert loaded == {"sessionId": "s1", "cwd": str(harness.cwd), "mcpServers": []}


def test_continue_prefers_the_newest_session_of_the_agents_list(harness: RunHarness, tmp_path: Path) -> None:
    log = tmp_path / "log"
    sessions = [
        {"sessionId": "old", "cwd": str(harness.cwd), "updatedAt": "2026-01-01T00:00:00Z"},
        {"sessionId": "s1", "cwd": str(harness.cwd), "updatedAt": "2026-03-01T00:00:00+02:00"},
        {"sessionId": "not here", "cwd": "/", "updatedAt": "2026-09-01T00:00:00Z"},
        {"sessionId": "timeless", "cwd": str(harness.cwd)},
    ]
    capabilities = json.dumps({"sessionCapabilities": {"list": {}, "resume": {}}})
    ran = harness.run(
        "hello", "--continue", *odd_agent("polite"),
        CAPABILITIES=capabilities, SESSIONS=json.dumps(sessions), HEARD=str(log),
    )  # fmt: skip
    assert ran.code == 0, ran.err
    assert [params["sessionId"] for params in received(log, "session/resume")] == ["s1"]


def test_continue_uses_the_recorded_session_if_the_list_has_no_times(
    harness: RunHarness, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    sessions = [{"sessionId": name, "cwd": str(harness.cwd)} for name in ("old", "s1", "other")]
    offers = {
        "CAPABILITIES": json.dumps({"sessionCapabilities": {"list": {}, "resume": {}}}),
        "SESSIONS": json.dumps(sessions),
        "HEARD": str(log),
    }
    assert (
        "cannot open session 'old'" in harness.run("hello", "--continue", *odd_agent("polite"), **offers).err
    )
    assert harness.run("hello", *odd_agent("polite"), **offers).code == 0
    assert harness.run("again", "--continue", *odd_agent("polite"), **offers).code == 0
    assert [params["sessionId"] for params in received(log, "session/resume")] == ["old", "s1"]


def test_a_session_is_continued_by_the_beginning_of_its_id(harness: RunHarness, tmp_path: Path) -> None:
    log = tmp_path / "heard.jsonl"
    ids = ("s1", "abcd-1", "abcd-2")
    listed = json.dumps([{"sessionId": id, "cwd": str(harness.cwd)} for id in ids])
    env = {"CAPABILITIES": json.dumps({"loadSession": True, "sessionCapabilities": {"list": {}}})}
    for text in ("s", "s1"):
        ran = harness.run(
            "hello", "--session", text, *odd_agent("echo"), SESSIONS=listed, HEARD=str(log), **env
        )
        assert ran.code == 0, ran.err
    loads = [json.loads(line) for line in log.read_text().splitlines() if '"session/load"' in line]
    assert [message["params"]["sessionId"] for message in loads] == ["s1", "s1"]
    ran = harness.run("hello", "--session", "abcd", *odd_agent("echo"), SESSIONS=listed, **env)
    assert ran.code == 2
    assert "--session 'abcd' matches abcd-1, abcd-2: give more of the id" in ran.err


def test_the_beginning_of_an_id_finds_a_session_of_the_coding_agent(harness: RunHarness) -> None:
    first = harness.run("--model", "rehearsal", "--format", "json", "list .").result["session"]
    again = harness.run("--format", "json", "--session", first[:6], "list .")
    assert again.code == 0, again.err
    assert again.result["session"] == first


@pytest.mark.rule("session.load-needs-capability", "session.resume-needs-capability")
def test_a_session_that_cannot_be_loaded_exits_with_2(harness: RunHarness, tmp_path: Path) -> None:
    log = tmp_path / "log"
    ran = harness.run("hello", "--session", "s1", *odd_agent("polite"), HEARD=str(log))
    assert ran.code == 2
    assert "can neither resume nor load sessions; start a new one" in ran.err
    assert received(log, "session/load", "session/resume") == []
    ran = harness.run("hello", "--session", "s2", *odd_agent("polite"), CAPABILITIES='{"loadSession": true}')
    assert ran.code == 2
    assert ran.err == (
        "accord run: cannot open session 's2' (Resource not found); "
        "run `accord sessions list` to see the sessions of this folder\n"
    )


def test_a_run_that_cannot_be_recorded_continues_with_a_note(harness: RunHarness) -> None:
    (harness.home / "data" / "client.db").mkdir(parents=True)
    ran = harness.run("hello", "--format", "quiet", *odd_agent("polite"))
    assert (ran.code, ran.out) == (0, "polite: hello\n")
    (line,) = ran.err.splitlines()
    assert line.startswith("accord run: this session is not recorded: ")


# -- folders and MCP servers -----------------------------------------------------------------------------


@pytest.mark.rule("session.absolute-cwd", "session.roots-need-capability", "session.roots-absolute")
def test_folders_are_sent_as_absolute_paths(harness: RunHarness, tmp_path: Path) -> None:
    log = tmp_path / "log"
    (harness.cwd / "sub").mkdir()
    capabilities = '{"sessionCapabilities": {"additionalDirectories": {}}}'
    words = ("hello", "--cwd", "sub", "--add-dir", ".", *odd_agent("polite"))
    assert harness.run(*words, CAPABILITIES=capabilities, HEARD=str(log)).code == 0
    (opened,) = received(log, "session/new")
    assert opened == {
        "cwd": str(harness.cwd / "sub"),
        "mcpServers": [],
        "additionalDirectories": [str(harness.cwd)],
    }
    ran = harness.run(*words)
    assert ran.code == 2
    assert "additional directories need sessionCapabilities.additionalDirectories" in ran.err


@pytest.mark.rule(
    "session.http-mcp-needs-capability", "session.sse-mcp-needs-capability", "session.stdio-mcp-members"
)
def test_mcp_servers_are_sent_when_the_agent_supports_their_transport(
    harness: RunHarness, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    harness.settings(
        mcpServers={
            "docs": {"command": "docs-server", "args": ["-q"], "env": {"LEVEL": "${LEVEL:-3}"}},
            "web": {"url": "https://mcp.example/mcp"},
            "old": {"type": "sse", "url": "https://mcp.example/sse"},
        }
    )
    docs = {
        "name": "docs",
        "command": "docs-server",
        "args": ["-q"],
        "env": [{"name": "LEVEL", "value": "3"}],
    }
    ran = harness.run("hello", *odd_agent("polite"), HEARD=str(log))
    (opened,) = received(log, "session/new")
    assert (ran.code, opened["mcpServers"]) == (0, [docs])
    assert [line for line in ran.err.splitlines() if "MCP" in line] == [
        "accord run: the MCP server 'web' is left out: odd does not support http",
        "accord run: the MCP server 'old' is left out: odd does not support sse",
    ]
    ran = harness.run(
        "hello",
        *odd_agent("polite"),
        HEARD=str(log),
        CAPABILITIES='{"mcpCapabilities": {"http": true, "sse": true}}',
    )
    assert [server["name"] for server in received(log, "session/new")[1]["mcpServers"]] == [
        "docs",
        "web",
        "old",
    ]
    assert "MCP" not in ran.err


# -- settings --------------------------------------------------------------------------------------------


def run_with_settings(
    harness: RunHarness, tmp_path: Path, settings: Any, *words: str
) -> tuple[int, str, list[dict[str, Any]]]:
    log = tmp_path / "log"
    ran = harness.run("hello", *words, *odd_agent("polite"), SETTINGS=json.dumps(settings), HEARD=str(log))
    return ran.code, ran.err, received(log, "session/set_mode", "session/set_config_option")


@pytest.mark.rule("mode.only-listed")
def test_a_mode_is_set_by_id_or_name(harness: RunHarness, tmp_path: Path) -> None:
    code, _, set_ = run_with_settings(harness, tmp_path, MODES, "--mode", "write code")
    assert (code, set_) == (0, [{"sessionId": "s1", "modeId": "code"}])
    code, output, _ = run_with_settings(harness, tmp_path, MODES, "--mode", "yolo")
    assert code == 2
    assert "--mode 'yolo': the agent does not list it; it lists ask, code" in output
    code, output, _ = run_with_settings(harness, tmp_path, {}, "--mode", "code")
    assert (code, "the agent has no modes" in output) == (2, True)


@pytest.mark.rule("option.boolean-value")
def test_models_and_options_are_set_by_name(harness: RunHarness, tmp_path: Path) -> None:
    code, output, set_ = run_with_settings(harness, tmp_path, CONFIG, "--model", "Big", "--set", "web=on")
    assert (code, output) == (0, "")
    assert set_ == [
        {"sessionId": "s1", "configId": "m", "value": "big-1"},
        {"sessionId": "s1", "configId": "web", "value": True, "type": "boolean"},
    ]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--model", "huge"), "--model 'huge': the agent does not list it; it lists small, big-1"),
        (("--set", "web=perhaps"), "--set web 'perhaps': the option is a switch; use true or false"),
        (("--set", "depth=3"), "--set depth=3: the agent has no option 'depth'; it lists 'm', 'web'"),
    ],
)
def test_an_unlisted_value_is_refused(
    harness: RunHarness, tmp_path: Path, words: tuple[str, ...], expected: str
) -> None:
    code, line, set_ = run_with_settings(harness, tmp_path, CONFIG, *words)
    assert (code, set_) == (2, [])
    assert expected in line


def test_the_coding_agent_accepts_models_that_it_does_not_list(harness: RunHarness) -> None:
    ran = harness.run("hello", "--model", "openai:some-model")
    assert ran.code == 6, "the provider is known and the key is missing"
    assert "OPENAI_API_KEY" in ran.err
    ran = harness.run("hello", "--model", "unknown:nothing")
    assert ran.code == 2


# -- trust -----------------------------------------------------------------------------------------------


def test_a_project_file_is_used_only_when_trusted(harness: RunHarness) -> None:
    _, command, *args = odd_agent("polite")
    file = {"servers": {"theirs": {"command": command, "args": args}}, "defaultServer": "theirs"}
    (harness.cwd / "acp.json").write_text(json.dumps(file))
    ran = harness.run("hello")
    assert ran.code == 2
    assert "is not trusted, and it can start programs" in ran.err
    assert harness.run("hello", "--trust", "--format", "quiet").out == "polite: hello\n"
    assert harness.run("hello", "--format", "quiet", *odd_agent("own")).out == "own: hello\n"
