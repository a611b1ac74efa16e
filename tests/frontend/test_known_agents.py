"""The catalog of known agents is consistent."""

import pytest

from accord.frontend.known_agents import BUILT_IN, catalog, find_known_agent, known_agent_of
from accord.policy.sandbox.command_environment import is_credential


def test_every_agent_has_unique_names_and_a_command() -> None:
    names = [name for agent in catalog() for name in (agent.id, *agent.aliases)]
    assert len(names) == len(set(names))
    assert BUILT_IN not in names
    assert len(catalog()) > 30
    for agent in catalog():
        assert agent.command
        assert agent.install_hint
        assert find_known_agent(agent.id.upper()) is agent
        assert known_agent_of(agent.command) is agent, agent.id
        assert known_agent_of(("/usr/bin/" + agent.command[0], *agent.command[1:])) is agent
        if agent.runner_command is not None:
            runner, *words = agent.runner_command
            package = next(word for word in words if word != "-y")
            pinned = f"{package}@1.0.0" if runner == "npx" else f"{package}==1.0.0"
            assert known_agent_of([runner, pinned]) is agent


def test_only_credentials_are_listed_as_keys() -> None:
    for agent in catalog():
        assert [key for key in agent.keys if not is_credential(key, "x")] == [], agent.id


@pytest.mark.parametrize(
    "command", [["docker", "run", "x"], ["npx"], ["npx", "other"], ["python3", "claude"], ["uvx", "-q"]]
)
def test_similar_commands_are_not_known_agents(command: list[str]) -> None:
    assert known_agent_of(command) is None
