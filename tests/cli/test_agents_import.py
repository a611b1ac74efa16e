"""`accord agents import`: agents of other tools become entries of the user's acp.json."""

import json
import os
from pathlib import Path

import pytest
from tests.accord_command import run_accord

FILES = {
    ".acpx/config.json": '{"agents": {"one": {"command": "one-agent --acp"}}, "ttl": 5}',
    ".config/zed/settings.json": '{"theme": "x", // mine\n "agent_servers": {"Two": {"type": "custom", '
    '"command": "bin/two", "args": ["a b"], "env": {"TWO_API_KEY": "sk-abcdefgh12345678", "PLAIN": "1"}}, '
    '"claude-acp": {"type": "registry"}}}',
    ".jetbrains/acp.json": '{"agent_servers": {"Three": {"command": "three", "use_idea_mcp": true}}}',
    "project/.agentao/acp.json": '{"servers": {"four": {"command": "four", "requestTimeoutMs": 5000}}}',
    "project/.simse/acp.json": '{"servers": [{"name": "five", "command": "five"}]}',
    ".config/simse/acp.json": '{"servers": [{"name": "six", "command": "six"}]}',
    ".iac-code/settings.yml": "model: x\n",
}


class ImportHarness:
    """A home folder with the files of other tools."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.own = home / "accord" / "acp.json"
        self.env = {"HOME": str(home), "PATH": os.environ["PATH"], "ACCORD_HOME": str(home / "accord")}
        (home / "project").mkdir()

    def write(self, name: str, text: str) -> Path:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def run(self, *words: str, code: int = 0) -> str:
        ran = run_accord("agents", "import", "--cwd", str(self.home / "project"), *words, env=self.env)
        assert ran.returncode == code, ran.stderr
        self.stderr = ran.stderr
        return ran.stdout


@pytest.fixture
def harness(tmp_path: Path) -> ImportHarness:
    return ImportHarness(tmp_path)


def own_servers(harness: ImportHarness) -> dict[str, object]:
    [path] = harness.home.glob("accord/**/acp.json")
    return json.loads(path.read_text())["servers"]


def test_agents_of_all_tools_are_imported_from_their_usual_places(harness: ImportHarness) -> None:
    for name, text in FILES.items():
        harness.write(name, text)
    assert "one-agent --acp" in harness.run("--dry-run")
    assert not list(harness.home.glob("accord/**/acp.json"))
    assert "7 imported to " in harness.run("--yes")
    assert own_servers(harness) == {
        "one": {"command": "one-agent", "args": ["--acp"]},
        "Two": {
            "command": str(harness.home / ".config/zed/bin/two"),
            "args": ["a b"],
            "env": {"TWO_API_KEY": "sk-abcdefgh12345678", "PLAIN": "1"},
        },
        "Three": {"command": "three"},
        "four": {"command": "four", "timeoutMs": 5000},
        "five": {"command": "five"},
        "six": {"command": "six"},
        "iac-code": {"command": "iac-code", "args": ["acp"], "description": "IaC Code"},
    }
    assert "Two: TWO_API_KEY is a key in plain text" in harness.stderr
    assert "sk-abcdefgh12345678" not in harness.stderr
    assert "Nothing to import." in harness.run("--yes")


def test_a_named_file_of_toad_and_an_agent_that_differs(harness: ImportHarness) -> None:
    path = harness.write("a.toml", 'identity = "x.dev"\nname = "X"\nrun_command."*" = "x --acp"\n')
    harness.run("--yes", str(path))
    assert own_servers(harness) == {"x.dev": {"command": "x", "args": ["--acp"], "description": "X"}}
    path.write_text(path.read_text().replace("--acp", "--other"))
    assert "no: yours differs; --replace" in harness.run("--yes", str(path))
    assert "replaces yours" in harness.run("--yes", "--replace", str(path))
    assert own_servers(harness)["x.dev"] == {"command": "x", "args": ["--other"], "description": "X"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "does not exist"),
        ("{", "a.json"),
        ('{"agents": []}', "it must be an object with the names of the agents as keys"),
        ('{"agents": {"x": {"command": "x"}}}', "cannot ask without a terminal; pass --yes"),
        ("{}", "no agents found; name a configuration file"),
    ],
)
def test_wrong_input_is_one_line(harness: ImportHarness, text: str | None, message: str) -> None:
    path = harness.home / "a.json" if text is None else harness.write("a.json", text)
    harness.run(str(path), code=2)
    assert harness.stderr.startswith("accord agents: ")
    assert message in harness.stderr
    assert harness.stderr.count("\n") == 1
    assert not list(harness.home.glob("accord/**/acp.json"))


def test_a_broken_file_in_a_usual_place_is_skipped(harness: ImportHarness) -> None:
    harness.write(".acpx/config.json", "{")
    harness.write(".jetbrains/acp.json", FILES[".jetbrains/acp.json"])
    assert "1 imported" in harness.run("--yes")
    assert "skipped " in harness.stderr
