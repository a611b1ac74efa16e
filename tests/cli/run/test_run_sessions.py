"""`accord run`: which session a turn runs in, and what is set in it."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.run.running import Place, odd

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


def heard(file: Path, *methods: str) -> list[dict[str, Any]]:
    """The parameters of those calls, in order."""
    messages = [json.loads(line) for line in file.read_text().splitlines()]
    return [message["params"] for message in messages if message.get("method") in methods]


# -- going on ---------------------------------------------------------------------------------------------------


def test_continue_is_the_newest_session_of_this_folder(place: Place, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    first = place.run("think: a", "--format", "json").result["session"]
    elsewhere = place.run("think: b", "--cwd", str(other), "--format", "json").result["session"]
    again = place.run("think: c", "--continue", "--format", "json")
    assert again.result["session"] == first != elsewhere
    assert "think: a" not in again.out, "what was said before is not shown again"
    named = place.run("think: d", "--session", elsewhere, "--cwd", str(other), "--format", "json")
    assert named.result["session"] == elsewhere


def test_an_agent_that_lists_nothing_is_remembered(place: Place, tmp_path: Path) -> None:
    log = tmp_path / "log"
    offers = {"CAPABILITIES": '{"loadSession": true}', "HEARD": str(log)}
    ran = place.run("hello", "--continue", *odd("polite"), **offers)
    assert ran.code == 2
    assert f"has no session of {place.cwd}: leave it out to begin one" in ran.err
    assert place.run("hello", *odd("polite"), **offers).code == 0
    assert place.run("again", "--continue", *odd("polite"), **offers).code == 0
    (loaded,) = heard(log, "session/load")
    assert loaded == {"sessionId": "s1", "cwd": str(place.cwd), "mcpServers": []}


def test_the_agents_own_list_goes_first_whatever_its_order_and_filter(place: Place, tmp_path: Path) -> None:
    log = tmp_path / "log"
    sessions = [
        {"sessionId": "old", "cwd": str(place.cwd), "updatedAt": "2026-01-01T00:00:00Z"},
        {"sessionId": "s1", "cwd": str(place.cwd), "updatedAt": "2026-03-01T00:00:00+02:00"},
        {"sessionId": "not here", "cwd": "/", "updatedAt": "2026-09-01T00:00:00Z"},
        {"sessionId": "timeless", "cwd": str(place.cwd)},
    ]
    capabilities = json.dumps({"sessionCapabilities": {"list": {}, "resume": {}}})
    ran = place.run(
        "hello", "--continue", *odd("polite"),
        CAPABILITIES=capabilities, SESSIONS=json.dumps(sessions), HEARD=str(log),
    )  # fmt: skip
    assert ran.code == 0, ran.err
    assert [asked["sessionId"] for asked in heard(log, "session/resume")] == ["s1"]


@pytest.mark.rule(103, 109)
def test_a_session_that_cannot_be_taken_up_is_2(place: Place, tmp_path: Path) -> None:
    log = tmp_path / "log"
    ran = place.run("hello", "--session", "s1", *odd("polite"), HEARD=str(log))
    assert ran.code == 2
    assert "can neither resume nor load sessions: begin a new one" in ran.err
    assert heard(log, "session/load", "session/resume") == []
    ran = place.run("hello", "--session", "s2", *odd("polite"), CAPABILITIES='{"loadSession": true}')
    assert ran.code == 2
    assert "the session 's2' cannot be taken up: Resource not found" in ran.err


def test_a_run_that_cannot_be_recorded_is_told_and_goes_on(place: Place) -> None:
    (place.home / "data" / "client.db").mkdir(parents=True)
    ran = place.run("hello", "--format", "quiet", *odd("polite"))
    assert (ran.code, ran.out) == (0, "polite: hello\n")
    (line,) = ran.err.splitlines()
    assert line.startswith("accord run: this session is not recorded: ")


# -- folders and servers ----------------------------------------------------------------------------------------


@pytest.mark.rule(91, 129, 130)
def test_folders_are_absolute_and_further_ones_only_for_agents_that_take_them(
    place: Place, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    (place.cwd / "sub").mkdir()
    capabilities = '{"sessionCapabilities": {"additionalDirectories": {}}}'
    words = ("hello", "--cwd", "sub", "--add-dir", ".", *odd("polite"))
    assert place.run(*words, CAPABILITIES=capabilities, HEARD=str(log)).code == 0
    (opened,) = heard(log, "session/new")
    assert opened == {
        "cwd": str(place.cwd / "sub"),
        "mcpServers": [],
        "additionalDirectories": [str(place.cwd)],
    }
    ran = place.run(*words)
    assert ran.code == 2
    assert "additional directories need sessionCapabilities.additionalDirectories" in ran.err


@pytest.mark.rule(98, 99, 100)
def test_mcp_servers_go_to_the_session_as_far_as_the_agent_takes_them(place: Place, tmp_path: Path) -> None:
    log = tmp_path / "log"
    place.settings(
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
    ran = place.run("hello", *odd("polite"), HEARD=str(log))
    (opened,) = heard(log, "session/new")
    assert (ran.code, opened["mcpServers"]) == (0, [docs])
    assert [line for line in ran.err.splitlines() if "MCP" in line] == [
        "accord run: the MCP server 'web' is left out: odd takes none over http",
        "accord run: the MCP server 'old' is left out: odd takes none over sse",
    ]
    ran = place.run(
        "hello",
        *odd("polite"),
        HEARD=str(log),
        CAPABILITIES='{"mcpCapabilities": {"http": true, "sse": true}}',
    )
    assert [server["name"] for server in heard(log, "session/new")[1]["mcpServers"]] == ["docs", "web", "old"]
    assert "MCP" not in ran.err


# -- settings ---------------------------------------------------------------------------------------------------


def settled(
    place: Place, tmp_path: Path, settings: Any, *words: str
) -> tuple[int, str, list[dict[str, Any]]]:
    log = tmp_path / "log"
    ran = place.run("hello", *words, *odd("polite"), SETTINGS=json.dumps(settings), HEARD=str(log))
    return ran.code, ran.err, heard(log, "session/set_mode", "session/set_config_option")


@pytest.mark.rule(207)
def test_a_mode_is_set_by_id_or_name_and_only_a_listed_one(place: Place, tmp_path: Path) -> None:
    code, _, set_ = settled(place, tmp_path, MODES, "--mode", "write code")
    assert (code, set_) == (0, [{"sessionId": "s1", "modeId": "code"}])
    code, said, _ = settled(place, tmp_path, MODES, "--mode", "yolo")
    assert code == 2
    assert "--mode 'yolo': the agent does not list it; it lists ask, code" in said
    code, said, _ = settled(place, tmp_path, {}, "--mode", "code")
    assert (code, "the agent has no modes" in said) == (2, True)


@pytest.mark.rule(218)
def test_models_and_options_are_set_by_what_they_are(place: Place, tmp_path: Path) -> None:
    code, said, set_ = settled(place, tmp_path, CONFIG, "--model", "Big", "--set", "web=on")
    assert (code, said) == (0, "")
    assert set_ == [
        {"sessionId": "s1", "configId": "m", "value": "big-1"},
        {"sessionId": "s1", "configId": "web", "value": True, "type": "boolean"},
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--model", "huge"), "--model 'huge': the agent does not list it; it lists small, big-1"),
        (("--set", "web=perhaps"), "--set web 'perhaps': it is a switch: true or false"),
        (("--set", "depth=3"), "--set depth=3: the agent has no option 'depth'; it lists 'm', 'web'"),
    ],
)
def test_what_is_not_listed_is_refused_not_dropped(
    place: Place, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    code, line, set_ = settled(place, tmp_path, CONFIG, *words)
    assert (code, set_) == (2, [])
    assert said in line


def test_the_agent_of_this_package_takes_models_that_it_does_not_list(place: Place) -> None:
    ran = place.run("hello", "--model", "openai:some-model")
    assert ran.code == 6, "it knows the provider, and misses the key"
    assert "OPENAI_API_KEY" in ran.err
    ran = place.run("hello", "--model", "nobody:nothing")
    assert ran.code == 2


# -- trust ------------------------------------------------------------------------------------------------------


def test_a_projects_file_counts_only_with_trust(place: Place) -> None:
    _, command, *args = odd("polite")
    file = {"servers": {"theirs": {"command": command, "args": args}}, "defaultServer": "theirs"}
    (place.cwd / "acp.json").write_text(json.dumps(file))
    ran = place.run("hello")
    assert ran.code == 2
    assert "you have not agreed to this file" in ran.err
    assert place.run("hello", "--trust", "--format", "quiet").out == "polite: hello\n"
    assert place.run("hello", "--format", "quiet", *odd("own")).out == "own: hello\n"
