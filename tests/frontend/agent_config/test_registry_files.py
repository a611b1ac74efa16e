"""Files of the official registry: pinned packages are accepted, everything else is refused with a reason."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.frontend.agent_config.config_folders import write

from accord.frontend.agent_config.acp_file import read_content
from accord.frontend.agent_config.config_values import BadAgentConfig
from accord.frontend.agent_config.registry_file import read_registry


def agent(distribution: Any, **more: Any) -> dict[str, Any]:
    return {
        "id": "thing",
        "name": "Thing",
        "version": "1.2.3",
        "description": "Does things",
        "authors": ["Example Maker"],
        "license": "MIT",
        "distribution": distribution,
        **more,
    }


def entry(path: Path, value: Any, name: str = "thing") -> dict[str, Any]:
    return read_registry(write(path / "agent.json", value))[name].entry()


def test_an_npx_agent_keeps_its_pinned_version(tmp_path: Path) -> None:
    value = agent(
        {"npx": {"package": "@maker/thing@1.2.3", "args": ["--acp"], "env": {"A": "$B ${C}", "D": "$E"}}}
    )
    converted = entry(tmp_path, value)
    assert converted == {
        "command": "npx",
        "args": ["-y", "@maker/thing@1.2.3", "--acp"],
        "env": {"A": "$B $${C}", "D": "$$E"},
        "description": "Thing 1.2.3: Does things",
    }
    content = json.dumps({"servers": {"thing": converted}}).encode()
    server = read_content(tmp_path / "acp.json", content, "user").agents[0]
    launched = server.launch(environ={"PATH": "/bin"}).env
    assert launched == {"A": "$B ${C}", "D": "$E"}, "registry values are literal texts, not references"


@pytest.mark.parametrize("package", ["thing==1.2.3", "thing@1.2.3", "thing[acp]==1.2.3"])
def test_a_uvx_agent_keeps_its_pinned_version(tmp_path: Path, package: str) -> None:
    assert entry(tmp_path, agent({"uvx": {"package": package, "args": ["acp"]}}))["args"] == [package, "acp"]


def test_a_registry_file_with_several_agents(tmp_path: Path) -> None:
    both = {"binary": {}, "npx": {"package": "two@1.2.3"}}
    registry = {
        "version": "1.0.0",
        "agents": [
            agent({"npx": {"package": "thing@1.2.3"}}),
            agent(both, id="two", preview={"version": "2.0.0"}),
        ],
    }
    agents = read_registry(write(tmp_path / "registry.json", registry))
    assert list(agents) == ["thing", "two"]
    assert agents["two"].entry()["command"] == "npx"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (
            agent({"npx": {"package": "thing"}}),
            "distribution.npx.package: 'thing' is refused: it has no pinned version",
        ),
        (
            agent({"npx": {"package": "thing@latest"}}),
            "distribution.npx.package: 'thing@latest' does not have the entry's version 1.2.3",
        ),
        (
            agent({"npx": {"package": "thing@^1.2.3"}}),
            "distribution.npx.package: 'thing@^1.2.3' does not have the entry's version 1.2.3",
        ),
        (
            agent({"npx": {"package": "--registry=http://x@1.2.3"}}),
            "distribution.npx.package: '--registry=http://x@1.2.3' is refused: it has no pinned",
        ),
        (
            agent({"uvx": {"package": "thing>=1.2.3"}}),
            "distribution.uvx.package: 'thing>=1.2.3' is refused: it has no pinned version",
        ),
        (
            agent({"uvx": {"package": "thing==2.0.0"}}),
            "distribution.uvx.package: 'thing==2.0.0' does not have the entry's version",
        ),
        (agent({"uvx": {}}), "distribution.uvx.package: it is missing"),
        (agent({"uvx": "thing"}), "distribution.uvx: it must be an object with `package`"),
        (
            agent({"binary": {"linux-x86_64": {"archive": "https://x.example/thing.tgz", "cmd": "./thing"}}}),
            "distribution: thing is an archive, not a package; run `accord agents install thing --registry ",
        ),
        (agent({}), "distribution: it must be an object with binary, npx or uvx"),
        (
            agent({"npx": {"package": "thing@1.2.3"}}, version="1.2"),
            "version: '1.2' is not a version such as 1.2.3",
        ),
        (
            agent({"npx": {"package": "thing@1.2.3"}}, version=""),
            "version: it is empty; it must name the version",
        ),
        (agent({"npx": {"package": "thing@1.2.3"}}, id="../x"), "id: '../x' is not a valid id"),
        ({"agents": [agent({"npx": {}}), agent({"npx": {}})]}, "agents[1].id: 'thing' appears twice"),
        ({"agents": {}}, "agents: it must be a list"),
        ({"agents": [3]}, "agents[0].id: it is missing"),
        ("[]", "it is neither a registry.json nor an agent.json"),
        ("{", "it is not JSON: line 1"),
    ],
)
def test_entries_that_cannot_be_used_are_refused(tmp_path: Path, value: Any, reason: str) -> None:
    with pytest.raises(BadAgentConfig) as caught:
        entry(tmp_path, value)
    assert str(caught.value).startswith(f"{tmp_path / 'agent.json'}: {reason}")


def test_a_url_is_not_downloaded(tmp_path: Path) -> None:
    with pytest.raises(BadAgentConfig, match=r"the file does not exist; download it first"):
        read_registry(Path("https://registry.example/registry.json"))
