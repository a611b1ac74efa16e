"""What a permission that was given covers of what the agent then does through `accord run`: the very thing, and nothing besides."""

import json

import pytest
from tests.cli.run.running import Place, odd

ECHO = {"kind": "execute", "rawInput": {"command": ["echo", "hi; touch pwned"]}}


def allowing(place: Place, rule: dict[str, str], *command: str) -> None:
    """The user's rules for an agent that is started by this command."""
    program, *args = [word for word in command if word != "--"]
    entry = {"command": program, "args": args, "permissions": {"allow": [rule]}}
    place.settings(servers={"it": entry})


@pytest.mark.parametrize(
    ("call", "command", "outcome"),
    [
        (ECHO, ["echo", "hi; touch pwned"], "result"),
        (ECHO, ["sh", "-c", "echo 'hi; touch pwned'"], "result"),
        (ECHO, ["sh", "-c", "echo hi; touch pwned"], "error"),
        ({"kind": "execute", "title": "echo status"}, ["sh", "-c", "touch pwned"], "error"),
        ({"kind": "think", "rawInput": {"command": "touch pwned"}}, ["sh", "-c", "touch pwned"], "error"),
    ],
    ids=["the same words", "the same line", "the words as a line", "no command was named", "another kind"],
)
def test_a_yes_to_one_command_is_none_to_another(
    place: Place, call: object, command: list[str], outcome: str
):
    allowing(place, {"command": "echo *"}, *odd("agreed-to-run", json.dumps(call), json.dumps(command)))
    ran = place.run("go", "--format", "quiet", "-a", "it")
    assert ran.out.strip() == outcome, ran.err
    assert not (place.cwd / "pwned").exists()


@pytest.mark.parametrize(("name", "answered"), [("GIT_PAGER", "error"), ("NO_COLOR", "result")])
def test_an_allowed_command_with_variables_of_the_agents_own_is_another_command(
    place: Place, name: str, answered: str
):
    env = [{"name": name, "value": "touch pwned"}]
    asked = {"method": "terminal/create", "params": {"command": "echo", "args": ["hi"], "env": env}}
    allowing(place, {"command": "echo *"}, *odd("requests", json.dumps(asked)))
    ran = place.run("go", "--format", "quiet", "-a", "it")
    assert answered in json.loads(ran.out), ran.err


def test_a_mention_with_a_nul_in_it_is_text(place: Place):
    ran = place.run("-", *odd("echo"), stdin="see @~a\0b/c please")
    assert ran.code == 0, ran.err
