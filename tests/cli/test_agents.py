"""`accord agents` as a user meets it: what it prints, what it writes, and one line for everything that is wrong."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from tests.cli.terminal import in_terminal

from accord.client.catalogue import catalogue


class Desk:
    """A user with a home of their own, an empty PATH and a project."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.project = folder / "project"
        self.bin = folder / "bin"
        for made in (self.home, self.project / ".git", self.bin):
            made.mkdir(parents=True)
        self.file = self.home / "accord" / "config" / "acp.json"
        self.env = {
            "ACCORD_HOME": str(self.home / "accord"),
            "HOME": str(self.home),
            "PATH": str(self.bin),
            "PYTHONPATH": os.pathsep.join(sys.path),
        }

    def agents(self, *words: str, code: int = 0) -> str:
        """Run it in the project; what it printed, or where it failed its one line."""
        ran = subprocess.run(
            [sys.executable, "-m", "accord.cli", "agents", *words],
            cwd=self.project, env=self.env, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert ran.returncode == code, ran.stderr
        if code == 0:
            self.said = ran.stderr
            return ran.stdout
        assert ran.stdout == ""
        assert ran.stderr.startswith("accord agents: ")
        assert ran.stderr.count("\n") == 1, ran.stderr
        return ran.stderr.removeprefix("accord agents: ").rstrip("\n")

    def install(self, name: str) -> Path:
        program = self.bin / name
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        return program

    @property
    def written(self) -> Any:
        return json.loads(self.file.read_text())


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def row(text: str, name: str) -> list[str]:
    line = next(line for line in text.splitlines() if name in line.split()[:2])
    return line.split()


def test_the_list_has_the_built_in_one_and_the_catalogue(desk: Desk) -> None:
    desk.install("gemini")
    text = desk.agents("list")
    assert row(text, "accord") == ["*", "accord", "built", "in", "ready", "accord", "agent"]
    assert row(text, "gemini") == ["gemini", "Gemini", "CLI", "installed", "gemini", "--acp"]
    assert row(text, "codex") == ["codex", "Codex", "missing", "codex-acp"]
    for agent in catalogue():
        assert row(text, agent.id)
    assert desk.said == ""


def test_the_list_for_programs(desk: Desk) -> None:
    program = desk.install("gemini")
    listed = {agent["name"]: agent for agent in json.loads(desk.agents("list", "--json"))}
    assert listed["accord"]["default"] is True
    assert listed["gemini"] == {
        "name": "gemini",
        "from": "catalogue",
        "default": False,
        "installed": str(program),
        "command": ["gemini", "--acp"],
        "description": "Gemini CLI",
    }
    assert listed["codex"]["installed"] is None
    assert "npm install -g" in listed["codex"]["howToGet"]


def test_an_agent_is_added_shown_and_removed(desk: Desk) -> None:
    desk.install("mine")
    told = desk.agents(
        "add", "helper", "--env", "KEY=${OPENAI_API_KEY}", "--env", "API_KEY=verysecret", "--permissions", "reads",
        "--description", "helps", "--timeout-ms", "5000", "--startup-timeout-ms", "9000", "--max-restarts", "1",
        "--default", "--", "mine", "--acp", "two words",
    )  # fmt: skip
    assert told == f"helper is in {desk.file}: mine --acp 'two words'\n"
    assert desk.written == {
        "servers": {
            "helper": {
                "command": "mine",
                "args": ["--acp", "two words"],
                "env": {"KEY": "${OPENAI_API_KEY}", "API_KEY": "verysecret"},
                "permissions": "reads",
                "description": "helps",
                "timeoutMs": 5000,
                "startupTimeoutMs": 9000,
                "maxRestarts": 1,
            }
        },
        "defaultServer": "helper",
    }
    assert desk.file.stat().st_mode & 0o777 == 0o600
    shown = dict(
        line.split(":", 1)
        for line in desk.agents("show", "helper").splitlines()
        if not line.startswith("env")
    )
    assert {key: value.strip() for key, value in shown.items()} == {
        "name": "helper (default)",
        "from": f"{desk.file}: servers.helper",
        "description": "helps",
        "command": "mine --acp 'two words'",
        "state": f"installed: {desk.bin / 'mine'}",
        "timeout": "5 s",
        "start-up": "9 s",
        "restarts": "1",
        "permissions": "reads",
    }
    text = desk.agents("show", "helper")
    assert "KEY=${OPENAI_API_KEY}" in text
    assert "verysecret" not in text
    assert desk.agents("show") == text, "without a name it is the default"
    assert row(desk.agents("list"), "helper")[:2] == ["*", "helper"]
    assert desk.agents("remove", "HELPER") == f"HELPER is no longer in {desk.file}\n"
    assert desk.written == {"servers": {}}


def test_a_well_known_agent_is_added_as_it_can_be_run_here(desk: Desk) -> None:
    assert desk.agents("add", "codex", code=2).startswith("codex is not installed here: `npm install -g")
    desk.install("npx")
    desk.agents("add", "codex")
    assert desk.written["servers"]["codex"] == {
        "command": "npx",
        "args": ["-y", "@agentclientprotocol/codex-acp"],
    }
    assert row(desk.agents("list"), "codex")[:4] == ["codex", "yours", "by", "npx"]
    desk.install("codex-acp")
    desk.agents("add", "codex", "--replace")
    assert desk.written["servers"]["codex"] == {"command": "codex-acp"}


def test_the_built_in_agent_can_be_told_more(desk: Desk) -> None:
    desk.agents("add", "accord", "--permissions", "none")
    assert desk.written == {"servers": {"accord": {"permissions": "none"}}}
    assert row(desk.agents("list"), "accord")[:3] == ["*", "accord", "yours"]
    assert (
        desk.agents("add", "accord", code=2)
        == "accord is built in; there is nothing to add without an option"
    )


def test_an_agent_comes_from_a_registry_file_in_its_version(desk: Desk) -> None:
    agent = {
        "id": "thing",
        "name": "Thing",
        "version": "1.2.3",
        "description": "d",
        "distribution": {"npx": {"package": "thing@1.2.3", "env": {"A": "1"}}},
    }
    other = {**agent, "id": "other", "distribution": {"binary": {}}}
    (desk.project / "registry.json").write_text(json.dumps({"version": "1.0.0", "agents": [agent, other]}))
    (desk.project / "agent.json").write_text(json.dumps(agent))
    listed = desk.agents("list", "--registry", "registry.json")
    assert row(listed, "thing") == ["thing", "1.2.3", "by", "npx", "Thing:", "d"]
    assert row(listed, "other") == ["other", "1.2.3", "not", "here", "Thing:", "d"]
    desk.agents("add", "thing", "--registry", "registry.json", "--env", "B=2")
    entry = {
        "command": "npx",
        "args": ["-y", "thing@1.2.3"],
        "env": {"A": "1", "B": "2"},
        "description": "Thing 1.2.3: d",
    }
    assert desk.written["servers"]["thing"] == entry
    desk.agents("add", "--registry", "agent.json", "--replace")
    assert desk.written["servers"]["thing"]["env"] == {"A": "1"}
    assert (
        desk.agents("add", "--registry", "registry.json", code=2)
        == "registry.json has 2 agents: name one of them"
    )
    assert (
        desk.agents("add", "thin", "--registry", "registry.json", code=2)
        == "registry.json: there is no 'thin'; did you mean thing?"
    )
    assert "comes as an archive" in desk.agents("add", "other", "--registry", "registry.json", code=2)
    assert "there is no such file" in desk.agents("add", "x", "--registry", "none.json", code=2)
    assert "downloaded first" in desk.agents("add", "x", "--registry", "https://x.example/r.json", code=2)
    assert "make no sense" in desk.agents("add", "x", "--registry", "agent.json", "--", "y", code=2)


def test_what_stands_in_the_file_stays(desk: Desk) -> None:
    desk.file.parent.mkdir(parents=True)
    before = '{\n\t// my agents\n\t"servers": {\n\t\t"a": {"command": "x"} // mine\n\t}\n}\n'
    desk.file.write_text(before)
    desk.agents("add", "b", "--", "y")
    assert desk.file.read_text() == before.replace(
        "} // mine\n", '}, // mine\n\t\t"b": {\n\t\t\t"command": "y"\n\t\t}\n'
    )
    desk.agents("remove", "b")
    assert desk.file.read_text() == before


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"servers": [{"name": "a", "command": "x"}]}, {"servers": [{"name": "a", "command": "x"}, {"name": "b", "command": "y"}]}),
        ({"agent_servers": {}, "theme": 1}, {"agent_servers": {"b": {"command": "y"}}, "theme": 1}),
        ({"agents": {"a": {"command": "x z"}}}, {"agents": {"a": {"command": "x z"}, "b": {"command": "y"}}}),
        ({}, {"servers": {"b": {"command": "y"}}}),
    ],
)  # fmt: skip
def test_a_file_keeps_its_form(desk: Desk, before: Any, after: Any) -> None:
    desk.file.parent.mkdir(parents=True)
    desk.file.write_text(json.dumps(before))
    desk.agents("add", "b", "--", "y")
    assert desk.written == after
    desk.agents("remove", "b")
    assert desk.written == (before or {"servers": {}})


def test_the_projects_file_is_written_for_the_project_and_counts_for_who_wrote_it(desk: Desk) -> None:
    file = desk.project / "acp.json"
    desk.agents("add", "ours", "--project", "--default", "--", "y")
    assert json.loads(file.read_text())["servers"] == {"ours": {"command": "y"}}
    assert row(desk.agents("list"), "ours")[:3] == ["*", "ours", "project"]
    assert desk.agents("trust") == f"{file} counts: you agreed to it as it is\n"
    desk.agents("remove", "ours", "--project")
    assert desk.agents("trust").endswith("as it is\n")
    assert desk.agents("trust", "--forget") == f"{file} does not count any more\n"
    assert (
        desk.agents("trust", code=2) == f"{file}: you have not agreed to it, and only a terminal can ask you"
    )
    desk.agents("add", "more", "--project", "--", "z")
    assert row(desk.agents("list"), "more")[1:4] == ["project", "not", "trusted"], (
        "a change is no agreement to the rest"
    )


def test_what_somebody_else_wrote_is_shown_and_does_not_count(desk: Desk) -> None:
    file = desk.project / "acp.json"
    file.write_text(json.dumps({"servers": {"xy": {"command": "do\u001b[2Jit"}}, "defaultServer": "xy"}))
    text = desk.agents("list")
    assert row(text, "xy")[:4] == ["xy", "project", "not", "trusted"]
    assert row(text, "accord")[0] == "*"
    assert "do\\x1b[2Jit" in text
    assert "\x1b" not in text
    assert (
        desk.said
        == f"accord agents: note: {file} does not count until you agree to it: accord agents trust\n"
    )
    assert "(not trusted: it does not count)" in desk.agents("show", "xy")
    for strange in (
        {"x\u202ey": {"command": "z"}},
        {"a": {"command": "z", "\u001b[2J\n": 1}},
        {"a": {"command": "z", "permissions": {"\u001b[2J\n": 1}}},
    ):
        file.write_text(json.dumps({"servers": strange}))
        assert desk.agents("list", code=2).isprintable()


def test_a_key_does_not_go_into_a_projects_file(desk: Desk) -> None:
    told = desk.agents("add", "x", "--project", "--env", "API_KEY=abc", "--", "y", code=2)
    assert (
        told == "--env API_KEY: a key does not belong in a project's file: write --env 'API_KEY=${API_KEY}'"
    )
    desk.agents("add", "x", "--project", "--env", "API_KEY=${API_KEY}", "--", "y")


def test_the_schema_is_printed(desk: Desk) -> None:
    schema = json.loads(desk.agents("schema"))
    Draft202012Validator(schema).validate({"servers": {"a": {"command": "x"}}})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nope"], "there is no 'nope'; there are: list, show, add, remove, trust, schema, login, logout, setup"),
        (["list", "extra"], "unrecognized arguments: extra (accord agents list --help tells more)"),
        (["list", "--cwd", "nowhere"], "--cwd 'nowhere' is no folder"),
        (["list", "--cwd", ""], "--cwd '' is no folder"),
        (["show", "gemni"], "no agent is called 'gemni'; did you mean gemini?"),
        (["add"], "a name is missing: accord agents add NAME -- COMMAND ..."),
        (["add", "x"], "'x' is no well-known agent: accord agents add x -- COMMAND ..."),
        (["add", "x", "--"], "a command is missing behind `--`"),
        (["add", "x", "--env", "NAME", "--", "y"], "--env 'NAME' is not NAME=VALUE"),
        (["add", "x", "--timeout-ms", "soon", "--", "y"], "argument --timeout-ms: invalid int value: 'soon'"),
        (["add", "-x", "--", "y"], "unrecognized arguments: -x"),
        (["remove"], "the following arguments are required: name"),
        (["trust"], "there is no acp.json in this project"),
        (["schema", "x"], "unrecognized arguments: x"),
    ],
)  # fmt: skip
def test_wrong_words_are_one_line(desk: Desk, words: list[str], said: str) -> None:
    assert desk.agents(*words, code=2).startswith(said)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["add", "x", "--permissions", "some", "--", "y"], "servers.x.permissions: 'some' is none of ask, reads, all, none"),
        (["add", "x", "--timeout-ms", "0", "--", "y"], "servers.x.timeoutMs: it must be a whole number from 1"),
        (["add", " x", "--", "y"], "servers. x: ' x' is no name"),
        (["add", "x", "--env", "A=${1}", "--", "y"], "servers.x.env.A: '${1}' names no variable"),
        (["remove", "x"], "no agent is called 'x' there"),
    ],
)  # fmt: skip
def test_what_could_not_be_read_again_is_not_written(desk: Desk, words: list[str], said: str) -> None:
    assert desk.agents(*words, code=2).startswith(f"{desk.file}: {said}")
    assert not desk.file.exists()


def test_who_has_read_enough_may_go(desk: Desk) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as gone:
        ran = subprocess.run(
            [sys.executable, "-m", "accord.cli", "agents", "list"],
            env=desk.env, stdout=gone, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_taken_name_is_kept(desk: Desk) -> None:
    desk.agents("add", "x", "--", "y")
    assert "servers.x: there already is 'x'; --replace puts the new one in its place" in desk.agents(
        "add", "X", "--", "z", code=2
    )
    desk.agents("add", "X", "--replace", "--", "z")
    assert desk.written["servers"] == {"x": {"command": "z"}}


def test_a_broken_file_is_told_by_every_command_and_never_overwritten(desk: Desk) -> None:
    desk.file.parent.mkdir(parents=True)
    desk.file.write_text('{"servers": {')
    for words in (["list"], ["show"], ["add", "x", "--", "y"], ["remove", "x"]):
        assert (
            desk.agents(*words, code=2)
            == f"{desk.file}: it is not JSON: line 1, column 14: it ends too early"
        )
    assert desk.file.read_text() == '{"servers": {'


def test_help_tells_the_commands(desk: Desk) -> None:
    text = desk.agents("--help")
    for name in ("list", "show", "add", "remove", "trust", "schema", "setup"):
        assert f"  {name} " in text
        assert f"accord agents {name}" in desk.agents(name, "--help")


def doctor(desk: Desk) -> dict[str, str]:
    ran = subprocess.run(
        [sys.executable, "-m", "accord.cli", "doctor"],
        cwd=desk.project, env=desk.env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.stderr == ""
    assert ran.returncode == (1 if "BROKEN" in ran.stdout else 0)
    found: dict[str, str] = {}
    for line in ran.stdout.splitlines():
        name, *rest = line.split()
        found[name] = f"{found[name]}; {' '.join(rest)}" if name in found else " ".join(rest)
    return found


def test_the_doctor_tells_the_agents_and_the_terminals(desk: Desk) -> None:
    report = doctor(desk)
    assert report["agents"] == "1 accord runs by default; accord agents list tells how to get others"
    assert report["terminals"].startswith("work ")
    desk.install("gemini")
    desk.agents("add", "gone", "--default", "--", "not-there")
    (desk.project / "acp.json").write_text('{"servers": {}}')
    report = doctor(desk)
    assert report["agents"].startswith("2 gone runs by default, here are gemini; ")
    assert report["agents"].endswith(
        "; missing gone: accord agents show NAME tells which program is not there"
    )
    assert report["acp.json"].startswith("waiting ")
    desk.file.write_text("{")
    assert f"BROKEN {desk.file}: it is not JSON" in doctor(desk)["agents"]


def test_the_list_names_the_files_it_was_made_from(desk: Desk) -> None:
    assert f"Yours would be {desk.file}, which is not there. The project has none." in desk.agents("list")
    desk.agents("add", "mine", "--", "x")
    assert f"Yours: {desk.file}. The project has none." in desk.agents("list")
    theirs = desk.project / "acp.json"
    theirs.write_text('{"servers": {"theirs": {"command": "x"}}, "defaultServer": "theirs"}')
    assert f"Yours: {desk.file}. The project's: {theirs} (not trusted)." in desk.agents("list")


def test_with_trust_a_projects_file_is_shown_as_it_would_count(desk: Desk) -> None:
    (desk.project / "acp.json").write_text('{"servers": {"xy": {"command": "z"}}, "defaultServer": "xy"}')
    assert row(desk.agents("list", "--trust"), "xy")[:4] == ["*", "xy", "project", "missing"]
    assert desk.said == ""
    assert "xy (default)" in desk.agents("show", "xy", "--trust")
    assert "xy (default)" in desk.agents("show", "--trust")
    assert row(desk.agents("list"), "xy")[1:4] == ["project", "not", "trusted"], "it was for that run only"


def test_what_programs_read_is_safe_to_look_at(desk: Desk) -> None:
    desk.agents("add", "mine", "--description", "nice\u202eecin", "--", "do\x9b31m")
    text = desk.agents("show", "mine", "--json")
    assert "\\u202e" in text
    assert "\\u009b" in text
    assert json.loads(text)["description"] == "nice\u202eecin"


def test_every_name_of_an_agent_means_its_one_entry(desk: Desk) -> None:
    desk.agents("add", "claude-code", "--default", "--", "mine")
    told = desk.agents("add", "claude", "--", "other", code=2)
    assert "servers.claude-code: there already is 'claude-code'; --replace puts the new one" in told
    desk.agents("add", "Claude", "--replace", "--", "other")
    assert desk.written["servers"] == {"claude-code": {"command": "other"}}
    assert "claude-code (default)" in desk.agents("show", "claude-agent")
    desk.agents("remove", "claude")
    assert desk.written == {"servers": {}}, "the default went with it"


def test_the_built_in_agent_is_told_more_in_any_case(desk: Desk) -> None:
    desk.agents("add", "Accord", "--permissions", "none")
    assert desk.written == {"servers": {"accord": {"permissions": "none"}}}
    desk.file.write_text('{"servers": {"ACCORD": {"permissions": "reads"}}}')
    assert row(desk.agents("list"), "accord")[:3] == ["*", "accord", "yours"]


@pytest.mark.parametrize("where", [[], ["--project"]])
def test_what_several_add_at_the_same_time_is_all_there(desk: Desk, where: list[str]) -> None:
    names = [f"a{number}" for number in range(5)]
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "accord.cli", "agents", "add", name, *where, "--", "x"],
            cwd=desk.project, env=desk.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for name in names
    ]  # fmt: skip
    for process in running:
        _, said = process.communicate()
        assert (process.returncode, said) == (0, b"")
    file = desk.project / "acp.json" if where else desk.file
    assert sorted(json.loads(file.read_text())["servers"]) == names
    assert [path.name for path in file.parent.iterdir() if path.name != ".git"] == ["acp.json"]


def test_what_somebody_else_changed_meanwhile_is_not_trusted_by_a_change_of_ones_own(desk: Desk) -> None:
    file = desk.project / "acp.json"
    desk.agents("add", "ours", "--project", "--", "y")
    file.write_text(file.read_text().replace('"y"', '"z"'))
    desk.agents("add", "more", "--project", "--", "y")
    assert row(desk.agents("list"), "more")[1:4] == ["project", "not", "trusted"]


def test_a_home_that_cannot_be_written_is_one_line(desk: Desk) -> None:
    (desk.home / "file").write_text("")
    desk.env["ACCORD_HOME"] = str(desk.home / "file" / "below")
    place = f"{desk.env['ACCORD_HOME']}/config/acp.json"
    assert desk.agents("add", "x", "--", "y", code=2) == f"{place}: it cannot be written (Not a directory)"
    assert desk.agents("remove", "x", code=2) == f"{place}: no agent is called 'x' there"
    file = desk.project / "acp.json"
    told = desk.agents("add", "x", "--project", "--", "y", code=2)
    assert told == f"{file}: that you agree to it cannot be kept (Not a directory)"
    with in_terminal("agents", "trust", "--cwd", str(desk.project), env=desk.env) as terminal:
        terminal.expect("[y/N] ")
        terminal.type("y\n")
        assert terminal.end() == 0
    assert f"It counts this once: {file}: that you agree to it cannot be kept" in terminal.shown
