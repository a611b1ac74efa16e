"""`accord agents`: its output, the files it writes, and its one-line errors."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from tests.accord_command import run_accord
from tests.cli.terminal import in_terminal

from accord.frontend.known_agents import catalog


class AgentsHarness:
    """A user with an own home, an empty PATH and a project."""

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
        }

    def agents(self, *words: str, code: int = 0) -> str:
        """Run the command in the project. Return its output, or its one-line error."""
        ran = run_accord("agents", *words, cwd=self.project, env=self.env)
        assert ran.returncode == code, ran.stderr
        if code == 0:
            self.stderr = ran.stderr
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
def harness(tmp_path: Path) -> AgentsHarness:
    return AgentsHarness(tmp_path)


def row(text: str, name: str) -> list[str]:
    line = next(line for line in text.splitlines() if name in line.split()[:2])
    return line.split()


def test_list_shows_the_built_in_agent_and_the_catalogue(harness: AgentsHarness) -> None:
    harness.install("gemini")
    text = harness.agents("list")
    assert row(text, "accord") == ["*", "accord", "built", "in", "ready", "accord", "agent"]
    assert row(text, "gemini") == ["gemini", "Gemini", "CLI", "installed", "gemini", "--acp"]
    assert row(text, "codex") == ["codex", "Codex", "missing", "codex-acp"]
    for agent in catalog():
        assert row(text, agent.id)
    assert harness.stderr == ""


def test_list_prints_json(harness: AgentsHarness) -> None:
    program = harness.install("gemini")
    listed = {agent["name"]: agent for agent in json.loads(harness.agents("list", "--json"))}
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


def test_an_agent_is_added_shown_and_removed(harness: AgentsHarness) -> None:
    harness.install("mine")
    output = harness.agents(
        "add", "helper", "--env", "KEY=${OPENAI_API_KEY}", "--env", "API_KEY=verysecret",
        "--permissions", "reads", "--description", "helps", "--timeout-ms", "5000",
        "--startup-timeout-ms", "9000", "--max-restarts", "1",
        "--default", "--", "mine", "--acp", "two words",
    )  # fmt: skip
    assert output == f"helper added to {harness.file}: mine --acp 'two words'\n"
    assert harness.written == {
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
    assert harness.file.stat().st_mode & 0o777 == 0o600
    shown = dict(
        line.split(":", 1)
        for line in harness.agents("show", "helper").splitlines()
        if not line.startswith("env")
    )
    assert {key: value.strip() for key, value in shown.items()} == {
        "name": "helper (default)",
        "from": f"{harness.file}: servers.helper",
        "description": "helps",
        "command": "mine --acp 'two words'",
        "state": f"installed: {harness.bin / 'mine'}",
        "timeout": "5 s",
        "start-up": "9 s",
        "restarts": "1",
        "permissions": "reads",
    }
    details = json.loads(harness.agents("show", "helper", "--json"))
    assert details == {
        "name": "helper",
        "from": "user",
        "place": f"{harness.file}: servers.helper",
        "default": True,
        "installed": str(harness.bin / "mine"),
        "command": ["mine", "--acp", "two words"],
        "description": "helps",
        "state": "installed",
        "trusted": True,
        "remark": None,
        "cwd": None,
        "env": {"KEY": "${OPENAI_API_KEY}", "API_KEY": "***"},
        "keysSet": [],
        "timeoutMs": 5000,
        "startupTimeoutMs": 9000,
        "cancelTimeoutMs": None,
        "maxRestarts": 1,
        "permissions": {"default": "reads", "allow": [], "ask": [], "deny": []},
        "projectPermissions": None,
        "unattended": None,
        "mcpServers": [],
    }
    text = harness.agents("show", "helper")
    assert "KEY=${OPENAI_API_KEY}" in text
    assert "verysecret" not in text
    assert harness.agents("show") == text, "without a name, the default must be shown"
    assert row(harness.agents("list"), "helper")[:2] == ["*", "helper"]
    assert harness.agents("remove", "HELPER") == f"HELPER removed from {harness.file}\n"
    assert harness.written == {"servers": {}}


def test_add_and_remove_print_no_control_characters_of_a_path(harness: AgentsHarness) -> None:
    folder = harness.project / "red\x1b[31m"
    (folder / ".git").mkdir(parents=True)
    options = ("--project", "--cwd", str(folder))
    assert "\x1b" not in harness.agents("add", "helper", *options, "--", "mine")
    assert "\x1b" not in harness.agents("remove", "helper", *options)


def test_a_known_agent_is_added_with_the_command_that_works_here(harness: AgentsHarness) -> None:
    assert harness.agents("add", "codex", code=2).startswith("codex is not installed; `npm install -g")
    harness.install("npx")
    harness.agents("add", "codex")
    assert harness.written["servers"]["codex"] == {
        "command": "npx",
        "args": ["-y", "@agentclientprotocol/codex-acp"],
    }
    assert row(harness.agents("list"), "codex")[:4] == ["codex", "yours", "by", "npx"]
    harness.install("codex-acp")
    harness.agents("add", "codex", "--replace")
    assert harness.written["servers"]["codex"] == {"command": "codex-acp"}


def test_settings_of_the_built_in_agent_can_be_added(harness: AgentsHarness) -> None:
    harness.agents("add", "accord", "--permissions", "none")
    assert harness.written == {"servers": {"accord": {"permissions": "none"}}}
    assert row(harness.agents("list"), "accord")[:3] == ["*", "accord", "yours"]
    assert (
        harness.agents("add", "accord", code=2) == "accord is built in; pass an option to change its settings"
    )


def test_an_agent_is_added_from_a_registry_file(harness: AgentsHarness) -> None:
    agent = {
        "id": "thing",
        "name": "Thing",
        "version": "1.2.3",
        "description": "d",
        "distribution": {"npx": {"package": "thing@1.2.3", "env": {"A": "1"}}},
    }
    other = {**agent, "id": "other", "distribution": {"binary": {}}}
    (harness.project / "registry.json").write_text(json.dumps({"version": "1.0.0", "agents": [agent, other]}))
    (harness.project / "agent.json").write_text(json.dumps(agent))
    listed = harness.agents("list", "--registry", "registry.json")
    assert row(listed, "thing") == ["thing", "1.2.3", "by", "npx", "Thing:", "d"]
    assert row(listed, "other") == ["other", "1.2.3", "no", "package", "Thing:", "d"]
    harness.agents("add", "thing", "--registry", "registry.json", "--env", "B=2")
    entry = {
        "command": "npx",
        "args": ["-y", "thing@1.2.3"],
        "env": {"A": "1", "B": "2"},
        "description": "Thing 1.2.3: d",
    }
    assert harness.written["servers"]["thing"] == entry
    harness.agents("add", "--registry", "agent.json", "--replace")
    assert harness.written["servers"]["thing"]["env"] == {"A": "1"}
    assert (
        harness.agents("add", "--registry", "registry.json", code=2)
        == "registry.json has 2 agents; pass the name of one"
    )
    assert (
        harness.agents("add", "thin", "--registry", "registry.json", code=2)
        == "registry.json has no agent 'thin'; did you mean thing?"
    )
    assert "is an archive" in harness.agents("add", "other", "--registry", "registry.json", code=2)
    assert "the file does not exist" in harness.agents("add", "x", "--registry", "none.json", code=2)
    assert "download it first" in harness.agents("add", "x", "--registry", "https://x.example/r.json", code=2)
    assert "exclude each other" in harness.agents("add", "x", "--registry", "agent.json", "--", "y", code=2)


def test_comments_and_other_entries_in_the_file_are_kept(harness: AgentsHarness) -> None:
    harness.file.parent.mkdir(parents=True)
    before = '{\n\t// my agents\n\t"servers": {\n\t\t"a": {"command": "x"} // mine\n\t}\n}\n'
    harness.file.write_text(before)
    harness.agents("add", "b", "--", "y")
    assert harness.file.read_text() == before.replace(
        "} // mine\n", '}, // mine\n\t\t"b": {\n\t\t\t"command": "y"\n\t\t}\n'
    )
    harness.agents("remove", "b")
    assert harness.file.read_text() == before


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            {"servers": [{"name": "a", "command": "x"}]},
            {"servers": [{"name": "a", "command": "x"}, {"name": "b", "command": "y"}]},
        ),
        ({"agent_servers": {}, "theme": 1}, {"agent_servers": {"b": {"command": "y"}}, "theme": 1}),
        ({"agents": {"a": {"command": "x z"}}}, {"agents": {"a": {"command": "x z"}, "b": {"command": "y"}}}),
        ({}, {"servers": {"b": {"command": "y"}}}),
    ],
)  # fmt: skip
def test_a_file_keeps_its_format(harness: AgentsHarness, before: Any, after: Any) -> None:
    harness.file.parent.mkdir(parents=True)
    harness.file.write_text(json.dumps(before))
    harness.agents("add", "b", "--", "y")
    assert harness.written == after
    harness.agents("remove", "b")
    assert harness.written == (before or {"servers": {}})


def test_a_project_file_is_trusted_by_the_user_who_wrote_it(harness: AgentsHarness) -> None:
    file = harness.project / "acp.json"
    harness.agents("add", "ours", "--project", "--default", "--", "y")
    assert json.loads(file.read_text())["servers"] == {"ours": {"command": "y"}}
    assert row(harness.agents("list"), "ours")[:3] == ["*", "ours", "project"]
    assert harness.agents("trust") == f"{file} is already trusted\n"
    harness.agents("remove", "ours", "--project")
    assert harness.agents("trust").endswith("is already trusted\n")
    assert harness.agents("trust", "--forget") == f"{file} is no longer trusted\n"
    assert (
        harness.agents("trust", code=2)
        == f"{file} is not trusted; run `accord agents trust` in a terminal to review it"
    )
    harness.agents("add", "more", "--project", "--", "z")
    assert row(harness.agents("list"), "more")[1:4] == ["project", "not", "trusted"], (
        "a change must not trust the other entries"
    )


def test_an_untrusted_project_file_is_shown_but_not_used(harness: AgentsHarness) -> None:
    file = harness.project / "acp.json"
    file.write_text(json.dumps({"servers": {"xy": {"command": "do\u001b[2Jit"}}, "defaultServer": "xy"}))
    text = harness.agents("list")
    assert row(text, "xy")[:4] == ["xy", "project", "not", "trusted"]
    assert row(text, "accord")[0] == "*"
    assert "do\\x1b[2Jit" in text
    assert "\x1b" not in text
    assert (
        harness.stderr == f"accord agents: note: {file} is not trusted; run `accord agents trust` to use it\n"
    )
    assert "(not trusted, ignored)" in harness.agents("show", "xy")
    for strange in (
        {"x\u202ey": {"command": "z"}},
        {"a": {"command": "z", "\u001b[2J\n": 1}},
        {"a": {"command": "z", "permissions": {"\u001b[2J\n": 1}}},
    ):
        file.write_text(json.dumps({"servers": strange}))
        assert harness.agents("list", code=2).isprintable()


def test_a_key_is_refused_in_a_project_file(harness: AgentsHarness) -> None:
    output = harness.agents("add", "x", "--project", "--env", "API_KEY=abc", "--", "y", code=2)
    assert output == "--env API_KEY=... is a key and must not be in a project's file; use --env API_KEY"
    harness.agents("add", "x", "--project", "--env", "API_KEY=${API_KEY}", "--", "y")


def test_the_schema_command_prints_a_valid_schema(harness: AgentsHarness) -> None:
    schema = json.loads(harness.agents("schema"))
    Draft202012Validator(schema).validate({"servers": {"a": {"command": "x"}}})


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ["nope"],
            "unknown subcommand 'nope'; use one of: list, show, add, remove, install, update, import, "
            "trust, schema, login, logout, setup",
        ),
        (["list", "extra"], "unrecognized arguments: extra; run `accord agents list --help` for the options"),
        (["list", "--cwd", "nowhere"], "--cwd 'nowhere' is not a folder; use one that exists"),
        (["list", "--cwd", ""], "--cwd '' is not a folder"),
        (["show", "gemni"], "unknown agent 'gemni'; did you mean gemini?"),
        (["add"], "missing name; use `accord agents add NAME -- COMMAND ...`"),
        (["add", "x"], "unknown agent 'x'; use `accord agents add x -- COMMAND ...`"),
        (["add", "x", "--"], "missing agent command after `--`"),
        (["add", "x", "--env", "NO_NAME", "--", "y"], "--env NO_NAME: NO_NAME is not set"),
        (["add", "x", "--env", "sk-12", "--", "y"], "--env needs NAME or NAME=VALUE"),
        (["add", "x", "--timeout-ms", "soon", "--", "y"], "argument --timeout-ms: invalid int value: 'soon'"),
        (["add", "-x", "--", "y"], "unrecognized arguments: -x"),
        (["remove"], "the following arguments are required: name"),
        (["trust"], "this project has no acp.json; run `accord agents add --project` to create one"),
        (["schema", "x"], "unrecognized arguments: x"),
    ],
)  # fmt: skip
def test_wrong_usage_is_a_one_line_error(harness: AgentsHarness, words: list[str], expected: str) -> None:
    assert harness.agents(*words, code=2).startswith(expected)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ["add", "x", "--permissions", "some", "--", "y"],
            "servers.x.permissions: 'some' is none of ask, reads, all, none",
        ),
        (
            ["add", "x", "--timeout-ms", "0", "--", "y"],
            "servers.x.timeoutMs: it must be a whole number from 1",
        ),
        (["add", " x", "--", "y"], "servers. x: ' x' is not a valid name"),
        (["add", "x", "--env", "A=${1}", "--", "y"], "servers.x.env.A: '${1}' is not a variable reference"),
        (["remove", "x"], "it has no agent 'x'"),
    ],
)  # fmt: skip
def test_an_invalid_entry_is_not_written(harness: AgentsHarness, words: list[str], expected: str) -> None:
    assert harness.agents(*words, code=2).startswith(f"{harness.file}: {expected}")
    assert not harness.file.exists()


def test_a_closed_stdout_is_not_an_error(harness: AgentsHarness) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed_pipe:
        ran = subprocess.run(
            [sys.executable, "-m", "accord.cli", "agents", "list"],
            env=harness.env, stdout=closed_pipe, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, "")


def test_an_existing_name_is_replaced_only_with_replace(harness: AgentsHarness) -> None:
    harness.agents("add", "x", "--", "y")
    assert "servers.x: 'x' already exists; use --replace to replace it" in harness.agents(
        "add", "X", "--", "z", code=2
    )
    harness.agents("add", "X", "--replace", "--", "z")
    assert harness.written["servers"] == {"x": {"command": "z"}}


def test_a_broken_file_is_reported_and_never_overwritten(harness: AgentsHarness) -> None:
    harness.file.parent.mkdir(parents=True)
    harness.file.write_text('{"servers": {')
    for words in (["list"], ["show"], ["add", "x", "--", "y"], ["remove", "x"]):
        assert (
            harness.agents(*words, code=2)
            == f"{harness.file}: it is not JSON: line 1, column 14: it ends too early"
        )
    assert harness.file.read_text() == '{"servers": {'


def test_help_lists_the_commands(harness: AgentsHarness) -> None:
    text = harness.agents("--help")
    for name in ("list", "show", "add", "remove", "trust", "schema", "setup"):
        assert f"  {name} " in text
        assert f"accord agents {name}" in harness.agents(name, "--help")


def doctor(harness: AgentsHarness) -> dict[str, str]:
    ran = subprocess.run(
        [sys.executable, "-m", "accord.cli", "doctor"],
        cwd=harness.project, env=harness.env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.stderr == ""
    assert ran.returncode == (1 if "BROKEN" in ran.stdout else 0)
    found: dict[str, str] = {}
    for line in ran.stdout.splitlines():
        name, *rest = line.split()
        found[name] = f"{found[name]}; {' '.join(rest)}" if name in found else " ".join(rest)
    return found


def test_the_doctor_reports_agents_and_terminals(harness: AgentsHarness) -> None:
    report = doctor(harness)
    assert report["agents"] == "1 default: accord; accord agents list shows more"
    assert report["terminals"].startswith("work ")
    harness.install("gemini")
    harness.agents("add", "gone", "--default", "--", "not-there")
    (harness.project / "acp.json").write_text('{"servers": {}}')
    report = doctor(harness)
    assert report["agents"].startswith("2 default: gone; installed: gemini; ")
    assert report["agents"].endswith("; missing gone: accord agents show NAME says how to install it")
    assert report["acp.json"].startswith("waiting ")
    harness.file.write_text("{")
    assert f"BROKEN {harness.file}: it is not JSON" in doctor(harness)["agents"]


def test_list_names_the_files_it_read(harness: AgentsHarness) -> None:
    assert f"User file: {harness.file} (does not exist). Project file: none." in harness.agents("list")
    harness.agents("add", "mine", "--", "x")
    assert f"User file: {harness.file}. Project file: none." in harness.agents("list")
    theirs = harness.project / "acp.json"
    theirs.write_text('{"servers": {"theirs": {"command": "x"}}, "defaultServer": "theirs"}')
    assert f"User file: {harness.file}. Project file: {theirs} (not trusted)." in harness.agents("list")


def test_list_with_trust_uses_the_project_file_for_that_run(harness: AgentsHarness) -> None:
    (harness.project / "acp.json").write_text('{"servers": {"xy": {"command": "z"}}, "defaultServer": "xy"}')
    assert row(harness.agents("list", "--trust"), "xy")[:4] == ["*", "xy", "project", "missing"]
    assert harness.stderr == ""
    assert "xy (default)" in harness.agents("show", "xy", "--trust")
    assert "xy (default)" in harness.agents("show", "--trust")
    assert row(harness.agents("list"), "xy")[1:4] == ["project", "not", "trusted"], (
        "--trust must apply to one run only"
    )


def test_json_output_escapes_control_characters(harness: AgentsHarness) -> None:
    harness.agents("add", "mine", "--description", "nice\u202eecin", "--", "do\x9b31m")
    text = harness.agents("show", "mine", "--json")
    assert "\\u202e" in text
    assert "\\u009b" in text
    assert json.loads(text)["description"] == "nice\u202eecin"


def test_all_names_of_an_agent_refer_to_one_entry(harness: AgentsHarness) -> None:
    harness.agents("add", "claude-code", "--default", "--", "mine")
    output = harness.agents("add", "claude", "--", "other", code=2)
    assert "servers.claude-code: 'claude-code' already exists; use --replace" in output
    harness.agents("add", "Claude", "--replace", "--", "other")
    assert harness.written["servers"] == {"claude-code": {"command": "other"}}
    assert "claude-code (default)" in harness.agents("show", "claude-agent")
    harness.agents("remove", "claude")
    assert harness.written == {"servers": {}}, "the default must be removed as well"


def test_the_name_of_the_built_in_agent_ignores_case(harness: AgentsHarness) -> None:
    harness.agents("add", "Accord", "--permissions", "none")
    assert harness.written == {"servers": {"accord": {"permissions": "none"}}}
    harness.file.write_text('{"servers": {"ACCORD": {"permissions": "reads"}}}')
    assert row(harness.agents("list"), "accord")[:3] == ["*", "accord", "yours"]


@pytest.mark.parametrize("where", [[], ["--project"]])
def test_agents_added_at_the_same_time_are_all_kept(harness: AgentsHarness, where: list[str]) -> None:
    names = [f"a{number}" for number in range(5)]
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "accord.cli", "agents", "add", name, *where, "--", "x"],
            cwd=harness.project, env=harness.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for name in names
    ]  # fmt: skip
    for process in running:
        _, output = process.communicate()
        assert (process.returncode, output) == (0, b"")
    file = harness.project / "acp.json" if where else harness.file
    assert sorted(json.loads(file.read_text())["servers"]) == names
    assert [path.name for path in file.parent.iterdir() if path.name != ".git"] == ["acp.json"]


def test_an_external_change_is_not_trusted_by_a_later_add(harness: AgentsHarness) -> None:
    file = harness.project / "acp.json"
    harness.agents("add", "ours", "--project", "--", "y")
    file.write_text(file.read_text().replace('"y"', '"z"'))
    harness.agents("add", "more", "--project", "--", "y")
    assert row(harness.agents("list"), "more")[1:4] == ["project", "not", "trusted"]


def test_a_home_that_cannot_be_written_is_a_one_line_error(harness: AgentsHarness) -> None:
    (harness.home / "file").write_text("")
    harness.env["ACCORD_HOME"] = str(harness.home / "file" / "below")
    place = f"{harness.env['ACCORD_HOME']}/config/acp.json"
    assert harness.agents("add", "x", "--", "y", code=2) == f"{place}: it cannot be written (Not a directory)"
    assert harness.agents("remove", "x", code=2) == f"{place}: it has no agent 'x'"
    file = harness.project / "acp.json"
    output = harness.agents("add", "x", "--project", "--", "y", code=2)
    assert output == f"{file}: cannot store that you trust it (Not a directory)"
    with in_terminal("agents", "trust", "--cwd", str(harness.project), env=harness.env) as terminal:
        terminal.expect("[y/N] ")
        terminal.type("y\n")
        assert terminal.end() == 0
    assert f"Trusted for this run only: {file}: cannot store that you trust it" in terminal.shown
