"""Permission requests: nothing runs before approval, and only an offered allow option approves."""

from typing import Any, cast

import pytest
from tests.agent.agent_client import STRICT, connected_client, make_agent

from accord.agent import AgentOptions, PermissionAnswer, Turn
from accord.errors import UsageError
from accord.schema import PermissionOption, ToolCallUpdate
from accord.testing.fake_clock import FakeClock

OPTIONS = [
    PermissionOption("x 1", "Allow", "allow_once"),
    PermissionOption("always", "Always allow", "allow_always"),
    PermissionOption("no", "Reject", "reject_once"),
    PermissionOption("never", "Never", "reject_always"),
]


async def permission_answer(
    result: Any, *, options: AgentOptions | None = None, offered: Any = OPTIONS
) -> PermissionAnswer:
    """How the agent reads this answer to a permission request; asserts that nothing ran before it."""
    answers: list[PermissionAnswer] = []
    ran: list[str] = []

    async def asks(turn: Turn) -> None:
        async with turn.tool_call("Delete a.py", kind="delete") as call:
            answers.append(await call.ask_permission(offered))
            if answers[0]:
                ran.append(call.id)

    async with connected_client(make_agent(asks), options=options) as client:
        id = client.prompt(await client.new_session())
        asked = await client.asked("session/request_permission")
        assert ran == []
        if isinstance(result, dict) and "code" in result:
            client.raw.refuse(asked, result["code"])
        else:
            client.raw.reply(asked, result)
        updates, _ = await client.turn_of(id)
    statuses = [update["status"] for update in updates]
    assert statuses == (["in_progress", "completed"] if ran else ["failed"])
    assert bool(ran) is bool(answers[0]) is answers[0].allowed
    return answers[0]


def selected(option: Any) -> Any:
    return {"outcome": {"outcome": "selected", "optionId": option}}


@pytest.mark.rule(
    "tool-call.announced", "permission.request-members", "permission.option-members", "permission.option-ids"
)
async def test_the_request_names_the_tool_call_and_offers_options() -> None:
    async def asks(turn: Turn) -> None:
        async with turn.tool_call("Edit a.py", kind="edit") as call:
            await call.diff("a.py", old="a", new="b")
            await call.ask_permission()

    async with connected_client(make_agent(asks)) as client:
        session = await client.new_session("/app")
        id = client.prompt(session)
        asked = await client.asked("session/request_permission")
        client.raw.reply(asked, selected("reject"))
        await client.turn_of(id)
    announced = client.updates_of("tool_call")[0]
    assert announced["status"] == "pending"
    assert asked["params"] == {
        "sessionId": session,
        "toolCall": {
            "toolCallId": announced["toolCallId"],
            "title": "Edit a.py",
            "kind": "edit",
            "content": [{"type": "diff", "path": "/app/a.py", "oldText": "a", "newText": "b"}],
        },
        "options": [
            {"optionId": "allow", "name": "Allow", "kind": "allow_once"},
            {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
        ],
    }


@pytest.mark.rule("permission.nothing-before-answer")
@pytest.mark.parametrize("strict", [False, True])
async def test_an_offered_allow_option_approves(strict: bool) -> None:
    options = AgentOptions(strict=strict)
    once = await permission_answer(selected("x 1"), options=options)
    always = await permission_answer(selected("always"), options=options)
    assert (once.allowed, once.always, once.option) == (True, False, OPTIONS[0])
    assert (always.allowed, always.always, always.reason) == (True, True, "selected")


@pytest.mark.rule("permission.reject-prevents")
async def test_a_reject_option_denies() -> None:
    once, always = await permission_answer(selected("no")), await permission_answer(selected("never"))
    assert (once.option, once.always, once.reason) == (OPTIONS[2], False, "selected")
    assert (always.option, always.always) == (OPTIONS[3], True)


@pytest.mark.rule("permission.only-consent-allows", "accord.dialect-is-not-consent")
@pytest.mark.parametrize(
    "result",
    [
        {"outcome": {"outcome": "cancelled"}},
        {"outcome": {"outcome": "zzz", "optionId": "x 1"}},
        {"outcome": {"outcome": "selected"}},
        {"outcome": {"outcome": "selected", "optionId": "nope"}},
        {"outcome": {"outcome": "selected", "optionId": None}},
        {"outcome": "zzz"},
        {"outcome": "allowed"},
        {"outcome": "approved"},
        {"outcome": True},
        {"outcome": "selected", "optionId": "X 1"},
        {"allowed": True},
        "allowed",
        "yes",
        True,
        None,
        {},
        [],
        5,
        {"code": -32603},
        {"code": -32800},
        {"code": -32601},
    ],
)
async def test_any_other_answer_denies(result: Any) -> None:
    for options in (None, STRICT):
        answer = await permission_answer(result, options=options)
        assert answer.option is None
        assert answer.reason in ("cancelled", "failed")
        assert (answer.error is not None) is (answer.reason == "failed")


REJECTED = {"outcome": "selected", "optionId": "no"}


@pytest.mark.parametrize(
    ("result", "official"),
    [
        ({"outcome": REJECTED, "_meta": {"reason": " use tabs "}}, True),
        ({"outcome": REJECTED | {"_meta": {"feedback": "use tabs"}}}, True),
        ({"outcome": {"outcome": "cancelled"}, "_meta": {"comment": "use tabs"}}, True),
        ({"outcome": REJECTED, "message": "use tabs"}, False),
        ({"outcome": REJECTED | {"reason": "use tabs"}}, False),
        ({"outcome": "denied", "reason": "use tabs"}, False),
    ],
)
async def test_the_comment_of_a_denial_reaches_the_agent(result: Any, official: bool) -> None:
    assert (await permission_answer(result)).message == "use tabs"
    assert (await permission_answer(result, options=STRICT)).message == ("use tabs" if official else "")


@pytest.mark.parametrize(
    "result",
    [
        {"outcome": REJECTED},
        {"outcome": REJECTED, "_meta": {"reason": 5, "feedback": "  "}},
        {"outcome": REJECTED, "_meta": "use tabs"},
        {"outcome": {"outcome": "selected", "optionId": "x 1"}, "_meta": {"reason": "use tabs"}},
        {"code": -32603},
        "use tabs",
    ],
)
async def test_without_a_valid_comment_or_with_an_approval_the_comment_is_empty(result: Any) -> None:
    assert (await permission_answer(result)).message == ""


@pytest.mark.rule("accord.dialect-is-not-consent")
async def test_a_comment_is_truncated_and_never_approves() -> None:
    answer = await permission_answer({"outcome": REJECTED, "_meta": {"reason": "allow_once" * 1000}})
    assert (answer.allowed, len(answer.message)) == (False, 2000)
    assert not await permission_answer({"reason": "allow_once", "message": "x 1"})


@pytest.mark.rule("accord.dialect-is-not-consent", "accord.agent-strict-mode")
@pytest.mark.dialect(24, 25, 26, 27)
@pytest.mark.parametrize(
    "result",
    [
        {"outcome": "allowed", "option_id": "x 1"},
        {"outcome": "selected", "optionId": "x 1"},
        "x 1",
        "allow_once",
        {"outcome": "allow_once"},
        {"outcome": {"outcome": "selected", "option_id": "x 1"}},
    ],
)
async def test_a_dialect_approval_selects_an_offered_option_unless_strict(result: Any) -> None:
    assert (await permission_answer(result)).option == OPTIONS[0]
    assert not await permission_answer(result, options=STRICT)


@pytest.mark.rule("accord.dialect-is-not-consent")
async def test_a_kind_shared_by_two_options_selects_neither() -> None:
    offered = [PermissionOption(id, id, "allow_once") for id in ("a", "b")]
    assert not await permission_answer("allow_once", offered=offered)


@pytest.mark.rule("permission.remembered")
async def test_an_always_answer_can_be_stored_and_a_once_answer_is_asked_again() -> None:
    async def deletes(turn: Turn) -> None:
        allowed: set[str] = turn.session.data or set()
        async with turn.tool_call("Delete", name="delete") as call:
            if "delete" not in allowed:
                answer = await call.ask_permission(OPTIONS)
                if answer and answer.always:
                    turn.session.data = {"delete"}

    async with connected_client(make_agent(deletes)) as client:
        session = await client.new_session()
        for option in ("x 1", "always"):
            id = client.prompt(session)
            client.raw.reply(await client.asked("session/request_permission"), selected(option))
            await client.turn_of(id)
        await client.turn(session)
    assert client.methods().count("session/request_permission") == 2


async def test_a_timeout_denies() -> None:
    clock = FakeClock()
    answers: list[PermissionAnswer] = []

    async def asks(turn: Turn) -> None:
        async with turn.tool_call("Delete") as call:
            answers.append(await turn.ask_permission(call, timeout=30))

    async with connected_client(make_agent(asks), options=AgentOptions(clock=clock)) as client:
        id = client.prompt(await client.new_session())
        asked = await client.asked("session/request_permission")
        await clock.advance(30)
        cancel = await client.raw.next("$/cancel_request")
        client.raw.reply(asked, selected("allow"))
        updates, _ = await client.turn_of(id)
    assert cancel["params"] == {"requestId": asked["id"]}
    assert (bool(answers[0]), answers[0].reason) == (False, "timeout")
    assert [update["status"] for update in updates] == ["failed"]


async def test_a_permission_request_may_announce_a_new_tool_call() -> None:
    async def asks(turn: Turn) -> None:
        await turn.say(str(bool(await turn.ask_permission(ToolCallUpdate("own-1", title="Format the disk")))))

    async with connected_client(make_agent(asks)) as client:
        id = client.prompt(await client.new_session())
        client.raw.reply(await client.asked("session/request_permission"), selected("allow"))
        updates, _ = await client.turn_of(id)
    assert updates[0]["content"]["text"] == "True"


@pytest.mark.rule("permission.option-ids")
async def test_a_request_with_unusable_options_is_never_sent() -> None:
    unknown_kind = PermissionOption("a", "Yes", cast(Any, "allow"))

    async def asks(turn: Turn) -> None:
        async with turn.tool_call("Delete") as call:
            for options in ([], [OPTIONS[0], OPTIONS[0]], [unknown_kind]):
                with pytest.raises(UsageError, match=r"permission option|options\[0\].kind"):
                    await call.ask_permission(options)

    async with connected_client(make_agent(asks)) as client:
        await client.turn(await client.new_session())
    assert "session/request_permission" not in client.methods()
