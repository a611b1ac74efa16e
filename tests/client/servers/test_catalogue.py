"""The catalogue of well-known agents holds together, and the JSON Schema says what the reader says."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from accord.client.catalogue import BUILT_IN, catalogue, known, started_by
from accord.client.servers.forms import KEYS
from accord.client.servers.reading import read_content
from accord.errors import UsageError
from accord.policy.sandbox.environment import is_credential


def test_every_agent_has_names_of_its_own_and_a_command() -> None:
    names = [name for agent in catalogue() for name in (agent.id, *agent.aliases)]
    assert len(names) == len(set(names))
    assert BUILT_IN not in names
    assert len(catalogue()) > 30
    for agent in catalogue():
        assert agent.command
        assert agent.how_to_get
        assert known(agent.id.upper()) is agent
        assert started_by(agent.command) is agent, agent.id
        assert started_by(("/usr/bin/" + agent.command[0], *agent.command[1:])) is agent
        if agent.by_runner is not None:
            runner, *words = agent.by_runner
            package = next(word for word in words if word != "-y")
            pinned = f"{package}@1.0.0" if runner == "npx" else f"{package}==1.0.0"
            assert started_by([runner, pinned]) is agent


def test_only_credentials_are_listed_as_keys() -> None:
    for agent in catalogue():
        assert [key for key in agent.keys if not is_credential(key, "x")] == [], agent.id


@pytest.mark.parametrize(
    "command", [["docker", "run", "x"], ["npx"], ["npx", "other"], ["python3", "claude"], ["uvx", "-q"]]
)
def test_what_only_looks_like_one_is_none(command: list[str]) -> None:
    assert started_by(command) is None


SCHEMA: dict[str, Any] = json.loads(files("accord.client.servers").joinpath("acp.schema.json").read_text())


def test_the_schema_is_one_and_knows_every_key() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert set(SCHEMA["$defs"]["serverKeys"]["properties"]) >= KEYS


def one(**entry: Any) -> dict[str, Any]:
    return {"servers": {"a": {"command": "x", **entry}}}


GOOD: list[Any] = [
    {},
    {"$schema": "./acp.schema.json", "servers": {}},
    one(args=["a"], env={"A": "b", "C": None}, cwd="/x", timeoutMs=1, startupTimeoutMs=2, maxRestarts=0, description="d"),
    one(permissions="reads"),
    one(permissions={"allow": ["read", {"kind": ["edit"], "path": "src/**"}], "ask": [{"tool": "x"}], "deny": [{"command": "rm *"}], "default": "ask"}),
    one(mcpServers={"m": {"command": "c", "args": [], "env": {"A": "b"}}, "h": {"type": "http", "url": "http://x", "headers": {}}}),
    one(mcpServers=[{"name": "m", "command": "c", "args": [], "env": [{"name": "A", "value": "b"}]}]),
    one(requestTimeoutMs=3, maxRecoverableRestarts=1, nonInteractivePolicy="reject_all", autoStart=True, capabilities={}),
    one(nonInteractivePolicy={"mode": "accept_all"}),
    {"servers": [{"name": "a", "command": "x", "defaultAgent": "y"}], "defaultServer": "a", "defaultAgent": None},
    {"servers": {"claude": {}}},
    {"agent_servers": {"a": {"type": "custom", "command": "x", "default_mode": "m"}}, "theme": "dark"},
    {"agents": {"a": {"command": "x y"}, "b": {"argv": ["x"]}}, "defaultPermissions": "deny-all", "ttl": 3},
]  # fmt: skip
BAD: list[Any] = [
    [],
    {"server": {}},
    {"servers": 1},
    {"servers": {}, "agents": {}},
    {"agents": []},
    {"servers": [{"command": "x"}]},
    {"servers": [{"name": "a", "command": "x", "odd": 1}]},
    {"servers": {"-a": {"command": "x"}}},
    one(command=" "),
    one(command=1),
    one(args="a"),
    one(args=[1]),
    one(env={"A": 1}),
    one(env=["A=b"]),
    one(odd=1),
    one(timeoutMs=0),
    one(timeoutMs="1"),
    one(timeoutMs=1.5),
    one(maxRestarts=101),
    one(timeoutMs=1, requestTimeoutMs=1),
    one(permissions="some"),
    one(permissions={"alow": []}),
    one(permissions={"allow": ["raed"]}),
    one(permissions={"allow": [{}]}),
    one(mcpServers={"m": {}}),
    one(mcpServers=[{"command": "c"}]),
    one(mcpServers={"m": {"url": "ftp://x"}}),
    one(nonInteractivePolicy="yes"),
    one(argv=["x"]),
    {"agents": {"a": {"argv": []}}},
    {"agent_servers": {"a": {"type": "odd", "command": "x"}}},
    {"defaultServer": 3},
    {"agents": {}, "defaultPermissions": "all"},
]


@pytest.mark.parametrize("value", GOOD, ids=json.dumps)
def test_schema_and_reader_take_the_same(value: Any) -> None:
    Draft202012Validator(SCHEMA).validate(value)
    read_content(Path("acp.json"), json.dumps(value).encode(), "user")


@pytest.mark.parametrize("value", BAD, ids=json.dumps)
def test_schema_and_reader_refuse_the_same(value: Any) -> None:
    assert not Draft202012Validator(SCHEMA).is_valid(value)
    with pytest.raises(UsageError):
        read_content(Path("acp.json"), json.dumps(value).encode(), "user")
