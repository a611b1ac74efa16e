"""The catalog of known agents is consistent."""

import pytest

from accord.frontend.known_agents import BUILT_IN, catalogue, known, started_by
from accord.policy.sandbox.command_environment import is_credential


def test_every_agent_has_unique_names_and_a_command() -> None:
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
def test_similar_commands_are_not_known_agents(command: list[str]) -> None:
    assert started_by(command) is None
