"""Policy rules that answer permission requests without asking the user."""

from pathlib import Path
from typing import Any

import pytest

import accord
from accord.frontend.consent import Consent
from accord.frontend.policy_handler import by_policy
from accord.policy import Policy, Rule, Rules
from accord.testing import AgentScript, ask, tool

RULES = Rules(
    allow=(
        Rule(kind="edit", path="src/**"),
        Rule(kind="execute", command="npm test"),
        Rule(host="docs.example"),
        Rule(tool="lint"),
    ),
    deny=(Rule(path="src/secret/**"), Rule(command="npm publish")),
    default="reads",
)


async def is_approved(accord_agent: AgentScript, folder: Path, rules: Rules, **call: Any) -> bool:
    """Whether the call was approved."""
    agent = accord_agent(tool("Do it", ask(), **call))
    handlers = accord.ClientHandlers(permissions=by_policy(Policy(rules)))
    async with accord.connect_transport(agent.transport(), handlers=handlers) as remote:
        session = await remote.new_session(folder)
        await session.ask("go")
    (outcome,) = agent.outcomes
    return outcome


@pytest.mark.parametrize(
    ("call", "outcome"),
    [
        ({"kind": "read"}, True),
        ({"kind": "search", "raw_input": {"pattern": "x"}}, True),
        ({"kind": "read", "raw_input": {"path": "/etc/passwd"}}, False),
        ({"kind": "read", "raw_input": {"url": "https://evil.example/?q=1"}}, False),
        ({"kind": "read", "raw_input": {"command": "npm publish"}}, False),
        ({"kind": "read", "raw_input": {"command": "npm publish", "path": "src"}}, False),
        ({"kind": "read", "raw_input": {"command": "view", "path": "src/a.py"}}, True),
        ({"kind": "other", "name": "lint"}, True),
        ({"kind": "other", "name": "deploy"}, False),
        ({"kind": "edit", "raw_input": {"file_path": "src/a.py"}}, True),
        ({"kind": "edit", "raw_input": {"file_path": "src/secret/a.py"}}, False),
        ({"kind": "edit", "raw_input": {"file_path": "a.py"}}, False),
        ({"kind": "edit", "raw_input": {"paths": ["src/a.py", "b.py"]}}, False),
        ({"kind": "edit"}, False),
        ({"kind": "execute", "raw_input": {"command": "npm test"}}, True),
        ({"kind": "execute", "raw_input": {"command": ["npm", "test"]}}, True),
        ({"kind": "execute", "raw_input": {"command": "npm", "args": ["test"]}}, True),
        ({"kind": "execute", "raw_input": {"command": "npm test; rm -rf ."}}, False),
        ({"kind": "execute"}, False),
        ({"kind": "fetch", "raw_input": {"url": "https://docs.example/x"}}, True),
        ({"kind": "fetch", "raw_input": {"url": "https://evil.example/x"}}, False),
        ({"kind": "other", "raw_input": {"path": "src/a.py"}}, False),
        ({}, False),
    ],
    ids=str,
)
async def test_rules_decide_by_kind_path_command_and_host(
    accord_agent: AgentScript, tmp_path: Path, call: dict[str, Any], outcome: bool
) -> None:
    assert await is_approved(accord_agent, tmp_path, RULES, **call) is outcome


async def test_destructive_commands_are_denied_even_if_everything_is_allowed(
    accord_agent: AgentScript, tmp_path: Path
) -> None:
    everything = Rules(default="all")
    assert await is_approved(
        accord_agent, tmp_path, everything, kind="execute", raw_input={"command": "make"}
    )
    for kind in ("execute", "read", "other"):
        call = {"kind": kind, "raw_input": {"command": "rm -rf /"}}
        assert not await is_approved(accord_agent, tmp_path, everything, **call)


@pytest.mark.parametrize(
    ("raw_input", "what"),
    [
        ({"command": "npm publish"}, "`npm publish`"),
        ({"path": "src/secret/a.py", "command": "npm publish"}, "reading src/secret/a.py"),
    ],
    ids=str,
)
async def test_the_user_is_told_which_rule_denies_a_call(
    accord_agent: AgentScript, tmp_path: Path, raw_input: dict[str, Any], what: str
) -> None:
    """The rule for the call itself is named first, then the rule for the command in it."""
    notes: list[str] = []
    agent = accord_agent(tool("Do it", ask(), kind="read", raw_input=raw_input))
    handlers = accord.ClientHandlers(permissions=Consent(Policy(RULES), None, notes.append))
    async with accord.connect_transport(agent.transport(), handlers=handlers) as remote:
        await (await remote.new_session(tmp_path)).ask("go")
    assert notes == [f"refused: Do it: {what} is denied by a rule"]
