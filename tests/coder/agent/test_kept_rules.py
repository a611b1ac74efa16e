"""Answers that count in this project or for the user: kept outside the project, listed, revoked."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.agent.agent_client import Client
from tests.coder.agent.harness import SANDBOX_OFF, AgentHarness, ScriptedModel, configure, use

from accord.cli.agent_arguments import manage_rules as rules
from accord.errors import UsageError
from accord.policy import Grants, Policy, options_for
from accord.policy.permission_store import PermissionStore
from accord.policy.request import ActionRequest, Grant, GrantScope, SessionDirectories

RUN = [use("bash", command="touch made.txt")]
OFFERED = ["allow_once", "allow_always", "reject_once", "reject_always", "allow_project", "allow_user"]


@pytest.fixture(autouse=True)
def config(harness: AgentHarness) -> None:
    configure(harness, SANDBOX_OFF)


async def asked(client: Client, session: str, answer: str = "reject_once") -> list[dict[str, Any]]:
    """Run a turn and return the options of its permission requests, which get this answer."""
    offered: list[dict[str, Any]] = []
    prompt = client.prompt(session)
    while True:
        message = await client.raw.next()
        if message.get("method") == "session/request_permission":
            offered.append({one["optionId"]: one for one in message["params"]["options"]})
            client.raw.reply(message, {"outcome": {"outcome": "selected", "optionId": answer}})
        elif "method" not in message and message["id"] == prompt:
            return offered


async def new_session(harness: AgentHarness, client: Client, name: str = "project") -> str:
    folder = harness.project.parent / name
    folder.mkdir(exist_ok=True)
    return await client.new_session(str(folder))


def turns(count: int) -> ScriptedModel:
    return ScriptedModel(*[step for _ in range(count) for step in (RUN, ["done"])])


async def test_an_answer_for_the_project_counts_there_until_it_is_revoked(
    harness: AgentHarness, capsys: pytest.CaptureFixture[str]
) -> None:
    async with harness.client(model=turns(5)) as client:
        session = await new_session(harness, client)
        [offered] = await asked(client, session, "allow_project")
        assert list(offered) == OFFERED
        assert offered["allow_project"]["name"] == f"Always allow `touch` in this project ({harness.project})"
        assert offered["allow_user"]["name"] == "Always allow `touch` for me, in all folders"
        assert await asked(client, session) == []
        other = await new_session(harness, client, "other")
        assert len(await asked(client, other)) == 1
        below = await new_session(harness, client, "project/sub")
        assert len(await asked(client, below)) == 1
    assert (harness.project / "made.txt").exists()
    async with harness.client(model=turns(2)) as client:
        session = await new_session(harness, client)
        assert await asked(client, session) == []
        assert rules([]) == 0
        [_, line] = capsys.readouterr().out.splitlines()
        rule_id = line.split()[0]
        assert (f"`touch`  {harness.project}" in line, len(rule_id)) == (True, 6)
        assert rules(["revoke", rule_id]) == 0
        assert capsys.readouterr().out == f"Revoked {rule_id}: `touch` in {harness.project}.\n"
        assert len(await asked(client, session)) == 1
    decisions = (harness.home / "data" / "decisions.jsonl").read_text().splitlines()
    assert [json.loads(line)["rule"] for line in decisions].count("always, kept") == 2


async def test_an_answer_for_the_user_counts_in_all_folders(
    harness: AgentHarness, capsys: pytest.CaptureFixture[str]
) -> None:
    async with harness.client(model=turns(2)) as client:
        assert len(await asked(client, await new_session(harness, client), "allow_user")) == 1
        assert await asked(client, await new_session(harness, client, "other")) == []
    assert rules(["--json"]) == 0
    [rule] = json.loads(capsys.readouterr().out)
    assert (rule["folder"], rule["allows"], rule["grants"]) == (
        None,
        "`touch`",
        [{"kind": "command", "key": ["touch"]}],
    )
    file = PermissionStore().file
    assert (file.parent, file.stat().st_mode & 0o777) == (harness.home / "data", 0o600)
    assert rules(["revoke", "--all"]) == 0
    assert PermissionStore().rules() == []


@pytest.mark.parametrize("content", ["{", '{"version": 99, "rules": []}', '{"rules": [{"id": 3}]}'])
async def test_an_unusable_file_allows_nothing(harness: AgentHarness, content: str) -> None:
    file = PermissionStore().file
    file.parent.mkdir(parents=True)
    file.write_text(content)
    async with harness.client(model=turns(2)) as client:
        session = await new_session(harness, client)
        assert len(await asked(client, session, "allow_project")) == 1
        assert await asked(client, session) == [], "the answer counts in this session"
    assert file.read_text() == content
    with pytest.raises(UsageError, match=r"permissions\.json"):
        rules([])


async def test_a_kept_rule_does_not_override_a_rule_or_the_mode(harness: AgentHarness) -> None:
    PermissionStore().keep(GrantScope((Grant("command", ("touch",)),)), None)
    configure(harness, f'{SANDBOX_OFF}[permissions]\nask = [{{ command = "touch *" }}]\n')
    async with harness.client(model=turns(2)) as client:
        session = await new_session(harness, client)
        [offered] = await asked(client, session)
        assert list(offered) == ["allow_once", "reject_once"]
        await client.call("session/set_mode", {"sessionId": session, "modeId": "read-only"})
        assert await asked(client, session) == []
    assert not (harness.project / "made.txt").exists()


def test_tools_of_servers_are_not_offered_for_all_folders(tmp_path: Path) -> None:
    directories = SessionDirectories.of(tmp_path)
    request = ActionRequest(directories=directories, tool="s__t", mode="ask", grants=Grants())
    ids = [option.option_id for option in options_for(request, Policy().decide(request), can_keep=True)]
    assert ids == [name for name in OFFERED if name != "allow_user"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["revoke"], "name the ids from `accord agent rules`, or pass --all"),
        (["revoke", "x", "--all"], "name the ids from"),
        (["revoke", "x"], "unknown rule 'x'; `accord agent rules` lists them"),
        (["nonsense"], "unrecognized arguments: nonsense"),
    ],
)
def test_wrong_usage_is_one_line(harness: AgentHarness, words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        rules(words)
