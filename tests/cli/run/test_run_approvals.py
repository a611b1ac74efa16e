"""Which commands a granted permission covers in `accord run`: the approved one and no other."""

import json

import pytest
from tests.cli.run.run_harness import RunHarness, odd_agent

ECHO = {"kind": "execute", "rawInput": {"command": ["echo", "hi; touch pwned"]}}


def configure_rule(harness: RunHarness, rule: dict[str, str], *command: str) -> None:
    """Configure rules for an agent that this command starts."""
    program, *args = [word for word in command if word != "--"]
    entry = {"command": program, "args": args, "permissions": {"allow": [rule]}}
    harness.settings(servers={"it": entry})


@pytest.mark.parametrize(
    ("call", "command", "outcome"),
    [
        (ECHO, ["echo", "hi; touch pwned"], "result"),
        (ECHO, ["sh", "-c", "echo 'hi; touch pwned'"], "result"),
        (ECHO, ["sh", "-c", "echo hi; touch pwned"], "error"),
        ({"kind": "execute", "title": "echo status"}, ["sh", "-c", "touch pwned"], "error"),
        ({"kind": "think", "rawInput": {"command": "touch pwned"}}, ["sh", "-c", "touch pwned"], "error"),
    ],
    ids=["same words", "same line", "words as a line", "no command named", "another kind"],
)
def test_an_approval_covers_only_the_approved_command(
    harness: RunHarness, call: object, command: list[str], outcome: str
):
    configure_rule(
        harness, {"command": "echo *"}, *odd_agent("agreed-to-run", json.dumps(call), json.dumps(command))
    )
    ran = harness.run("go", "--format", "quiet", "-a", "it")
    assert ran.out.strip() == outcome, ran.err
    assert not (harness.cwd / "pwned").exists()


@pytest.mark.parametrize(("name", "answered"), [("GIT_PAGER", "error"), ("NO_COLOR", "result")])
def test_an_approval_does_not_cover_a_command_with_extra_variables(
    harness: RunHarness, name: str, answered: str
):
    env = [{"name": name, "value": "touch pwned"}]
    request = {"method": "terminal/create", "params": {"command": "echo", "args": ["hi"], "env": env}}
    configure_rule(harness, {"command": "echo *"}, *odd_agent("requests", json.dumps(request)))
    ran = harness.run("go", "--format", "quiet", "-a", "it")
    assert answered in json.loads(ran.out), ran.err


def test_a_mention_with_a_nul_character_is_sent_as_text(harness: RunHarness):
    ran = harness.run("-", *odd_agent("echo"), stdin="see @~a\0b/c please")
    assert ran.code == 0, ran.err
