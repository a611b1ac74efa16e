"""The JSON Schema of `acp.json` accepts and refuses the same files as the reader."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from accord.errors import UsageError
from accord.frontend.agent_config.acp_file import read_content
from accord.frontend.agent_config.agent_list_formats import ENTRY_KEYS

SCHEMA: dict[str, Any] = json.loads(
    files("accord.frontend.agent_config").joinpath("acp.schema.json").read_text()
)


def test_the_json_schema_is_valid_and_knows_every_key() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert set(SCHEMA["$defs"]["serverKeys"]["properties"]) >= ENTRY_KEYS


def one(**entry: Any) -> dict[str, Any]:
    return {"servers": {"a": {"command": "x", **entry}}}


GOOD: list[Any] = [
    one(protocol="auto"),
    one(protocol=2),
    {},
    {"$schema": "./acp.schema.json", "servers": {}},
    one(
        args=["a"],
        env={"A": "b", "C": None},
        cwd="/x",
        timeoutMs=1,
        startupTimeoutMs=2,
        cancelTimeoutMs=3,
        maxRestarts=0,
        description="d",
    ),
    one(permissions="reads"),
    one(
        permissions={
            "allow": ["read", {"kind": ["edit"], "path": "src/**"}],
            "ask": [{"tool": "x"}],
            "deny": [{"command": "rm *"}],
            "default": "ask",
        }
    ),
    one(
        mcpServers={
            "m": {"command": "c", "args": [], "env": {"A": "b"}},
            "h": {"type": "http", "url": "http://x", "headers": {}},
        }
    ),
    one(mcpServers=[{"name": "m", "command": "c", "args": [], "env": [{"name": "A", "value": "b"}]}]),
    one(
        requestTimeoutMs=3,
        maxRecoverableRestarts=1,
        nonInteractivePolicy="reject_all",
        autoStart=True,
        capabilities={},
    ),
    one(nonInteractivePolicy={"mode": "accept_all"}),
    {
        "servers": [{"name": "a", "command": "x", "defaultAgent": "y"}],
        "defaultServer": "a",
        "defaultAgent": None,
    },
    {"servers": {"claude": {}}},
    {"agent_servers": {"a": {"type": "custom", "command": "x", "default_mode": "m"}}, "theme": "dark"},
    {"agents": {"a": {"command": "x y"}, "b": {"argv": ["x"]}}, "defaultPermissions": "deny-all", "ttl": 3},
]
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
    one(protocol=3),
    one(protocol=True),
    one(nonInteractivePolicy="yes"),
    one(argv=["x"]),
    {"agents": {"a": {"argv": []}}},
    {"agent_servers": {"a": {"type": "odd", "command": "x"}}},
    {"defaultServer": 3},
    {"agents": {}, "defaultPermissions": "all"},
]


@pytest.mark.parametrize("value", GOOD, ids=json.dumps)
def test_schema_and_reader_accept_the_same_files(value: Any) -> None:
    Draft202012Validator(SCHEMA).validate(value)
    read_content(Path("acp.json"), json.dumps(value).encode(), "user")


@pytest.mark.parametrize("value", BAD, ids=json.dumps)
def test_schema_and_reader_refuse_the_same_files(value: Any) -> None:
    assert not Draft202012Validator(SCHEMA).is_valid(value)
    with pytest.raises(UsageError):
        read_content(Path("acp.json"), json.dumps(value).encode(), "user")
