"""Questions of the model to the user, by form or by extension, and which responses count as answers."""

import asyncio
import json
from typing import Any

import pytest
from tests.agent.agent_client import Client, connected_client, make_agent

from accord.agent import Agent, AgentOptions, Turn
from accord.coder.tools.tool import ToolFailure
from accord.coder.tools.tool_context import UserQuestion
from accord.coder.turn.user_questions import asks_for_secret, question_asker, read_answer
from accord.schema.methods import AGENTAO_ASK_USER
from accord.testing import FakeClock

FORMS = {"elicitation": {"form": {}}}
ANNOUNCED = {"_meta": {AGENTAO_ASK_USER: True}}


def asking_agent(
    *questions: UserQuestion, seconds: float | None = 60, clock: FakeClock | None = None
) -> Agent:
    """Return an agent that asks these questions in order and says the answers."""

    async def reply(turn: Turn) -> None:
        ask = question_asker(turn, seconds=seconds, clock=clock or FakeClock())
        lines: list[str] = []
        for question in questions:
            try:
                lines.append(json.dumps(await ask(question)))
            except ToolFailure as failure:
                lines.append(f"refused: {failure}")
        await turn.say("\n".join(lines))

    return make_agent(reply)


async def answers_read(client: Client, id: Any) -> list[Any]:
    """Return the answers as the agent read them."""
    updates, result = await client.turn_of(id)
    assert result == {"stopReason": "end_turn"}
    words = "".join(update["content"]["text"] for update in updates)
    return [json.loads(line) if not line.startswith("refused") else line for line in words.splitlines()]


WHICH = UserQuestion("Which colour?")
CHOICE = UserQuestion("Which colour?", ("red", "blue"))


# -- forms ---------------------------------------------------------------------------------------------------


async def test_question_is_a_form_with_one_field() -> None:
    async with connected_client(asking_agent(WHICH), capabilities=FORMS) as client:
        session = await client.new_session()
        id = client.prompt(session)
        question_request = await client.asked("elicitation/create")
        assert question_request["params"]["message"] == "Which colour?"
        assert question_request["params"]["sessionId"] == session
        schema = question_request["params"]["requestedSchema"]
        assert schema["required"] == ["answer"]
        assert list(schema["properties"]) == ["answer"]
        client.raw.reply(question_request, {"action": "accept", "content": {"answer": " green "}})
        assert await answers_read(client, id) == ["green"]


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        ({"choice": "blue"}, "blue"),
        ({"choice": "blue", "words": "  "}, "blue"),
        ({"choice": "Something else", "words": "the one of the sea"}, "the one of the sea"),
        ({"choice": "Something else"}, "Something else"),
        ({"choice": "red", "words": "but dark"}, "red\nbut dark"),
        ({"choice": "mauve"}, None),
        ({"words": "mauve"}, None),
        ({}, None),
        (None, None),
    ],
)
async def test_options_are_a_choice_with_a_free_text_field(content: Any, answer: str | None) -> None:
    async with connected_client(asking_agent(CHOICE), capabilities=FORMS) as client:
        id = client.prompt(await client.new_session())
        question_request = await client.asked("elicitation/create")
        fields = question_request["params"]["requestedSchema"]["properties"]
        assert fields["choice"]["enum"] == ["red", "blue", "Something else"]
        assert fields["words"]["type"] == "string"
        assert question_request["params"]["requestedSchema"]["required"] == ["choice"]
        client.raw.reply(question_request, {"action": "accept", "content": content})
        assert await answers_read(client, id) == [answer]


async def test_options_are_sanitized_and_shortened() -> None:
    options = ("a\nb", "", "  ", "a b", "x" * 500)
    async with connected_client(asking_agent(UserQuestion("Which?", options)), capabilities=FORMS) as client:
        id = client.prompt(await client.new_session())
        question_request = await client.asked("elicitation/create")
        shown = question_request["params"]["requestedSchema"]["properties"]["choice"]["enum"]
        assert shown[0] == "a b"
        assert len(shown) == 3
        assert max(map(len, shown)) <= 200
        client.raw.reply(question_request, {"action": "accept", "content": {"choice": "a b"}})
        assert await answers_read(client, id) == ["a b"]


@pytest.mark.parametrize(
    "reply", [{"action": "decline"}, {"action": "cancel"}, {"action": "later"}, {}, "yes"]
)
async def test_declined_form_is_not_followed_by_the_extension(reply: Any) -> None:
    async with connected_client(asking_agent(WHICH), capabilities={**FORMS, **ANNOUNCED}) as client:
        id = client.prompt(await client.new_session())
        client.raw.reply(await client.asked("elicitation/create"), reply)
        assert await answers_read(client, id) == [None]
    assert AGENTAO_ASK_USER not in client.methods()


async def test_failed_form_is_followed_by_the_extension() -> None:
    async with connected_client(asking_agent(WHICH), capabilities={**FORMS, **ANNOUNCED}) as client:
        id = client.prompt(await client.new_session())
        client.raw.refuse(await client.asked("elicitation/create"), -32603)
        client.raw.reply(await client.asked(AGENTAO_ASK_USER), {"answer": "green"})
        assert await answers_read(client, id) == ["green"]


# -- extension -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "meta",
    [
        {},
        {AGENTAO_ASK_USER: True},
        {AGENTAO_ASK_USER: {}},
        {"_agentao.cn/extensions": [{"method": AGENTAO_ASK_USER, "description": "asks"}]},
        {"_agentao.cn/extensions": [AGENTAO_ASK_USER]},
    ],
)
async def test_extension_is_used_without_form_support(meta: dict[str, Any]) -> None:
    async with connected_client(asking_agent(CHOICE), capabilities={"_meta": meta}) as client:
        session = await client.new_session()
        id = client.prompt(session)
        question_request = await client.asked(AGENTAO_ASK_USER)
        assert question_request["params"] == {
            "sessionId": session,
            "question": "Which colour?",
            "options": ["red", "blue"],
        }
        client.raw.reply(question_request, {"answer": "red"})
        assert await answers_read(client, id) == ["red"]


@pytest.mark.parametrize(
    "members",
    [
        {"clientCapabilities": {"_meta": {AGENTAO_ASK_USER: False}}},
        {"clientCapabilities": {"_meta": {"extensions": {AGENTAO_ASK_USER: False}}}},
        {"clientInfo": {"name": "editor", "version": "1", "_meta": {AGENTAO_ASK_USER: False}}},
    ],
)
async def test_client_that_disables_the_extension_is_not_asked(members: dict[str, Any]) -> None:
    async with connected_client(asking_agent(WHICH), initialize=False) as client:
        await client.call("initialize", {"protocolVersion": 1, **members})
        assert await answers_read(client, client.prompt(await client.new_session())) == [None]
    assert AGENTAO_ASK_USER not in client.methods()


async def test_client_without_the_extension_is_asked_once_per_connection() -> None:
    async with connected_client(asking_agent(WHICH, WHICH)) as client:
        id = client.prompt(await client.new_session())
        client.raw.refuse(await client.asked(AGENTAO_ASK_USER), -32601)
        assert await answers_read(client, id) == [None, None]
        another = await client.new_session()
        assert await answers_read(client, client.prompt(another)) == [None, None]
    assert client.methods().count(AGENTAO_ASK_USER) == 1


async def test_error_of_an_unannounced_extension_counts_as_unsupported() -> None:
    async with connected_client(asking_agent(WHICH, WHICH)) as client:
        id = client.prompt(await client.new_session())
        client.raw.refuse(await client.asked(AGENTAO_ASK_USER), -32603)
        assert await answers_read(client, id) == [None, None]


async def test_announced_extension_is_used_again_after_an_error() -> None:
    async with connected_client(asking_agent(WHICH, WHICH), capabilities=ANNOUNCED) as client:
        id = client.prompt(await client.new_session())
        client.raw.refuse(await client.asked(AGENTAO_ASK_USER), -32603)
        client.raw.reply(await client.asked(AGENTAO_ASK_USER), {"answer": "green"})
        assert await answers_read(client, id) == [None, "green"]


@pytest.mark.parametrize(
    ("answer", "read"),
    [
        ({"answer": "red"}, "red"),
        ({"answer": "  red\n"}, "red"),
        ({"outcome": "answered", "text": "red"}, "red"),
        ({"outcome": "answered", "answer": "red"}, "red"),
        ({"outcome": {"outcome": "answered", "text": "red"}}, "red"),
        ({"outcome": {"answer": "red"}}, "red"),
        ({"outcome": {"outcome": "selected", "optionId": "red"}}, "red"),
        ({"outcome": "selected", "index": 1}, "blue"),
        ("red", "red"),
        ({"answer": "(user unavailable)"}, None),
        ({"outcome": "answered", "text": "(user unavailable)"}, None),
        ({"answer": ""}, None),
        ({"answer": 7}, None),
        ({"outcome": "cancelled"}, None),
        ({"outcome": "declined", "text": "red"}, None),
        ({"outcome": {"outcome": "cancelled", "text": "red"}}, None),
        ({"outcome": None, "text": "red"}, None),
        ({"outcome": "selected", "index": 7}, None),
        ({"outcome": "selected", "index": True}, None),
        ({}, None),
        (None, None),
        ([], None),
        (True, None),
    ],
)
def test_answer_formats_are_read_and_other_values_are_ignored(answer: Any, read: str | None) -> None:
    assert read_answer(answer, ("red", "blue")) == read


async def test_very_long_answer_is_truncated() -> None:
    async with connected_client(asking_agent(WHICH)) as client:
        id = client.prompt(await client.new_session())
        client.raw.reply(await client.asked(AGENTAO_ASK_USER), {"answer": "red " * 100_000})
        [answer] = await answers_read(client, id)
        assert len(answer) < 25_000
        assert answer.startswith("red")


# -- timeouts and cancellation -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("capabilities", "method"), [(FORMS, "elicitation/create"), (ANNOUNCED, AGENTAO_ASK_USER)]
)
async def test_timeout_withdraws_the_question_and_skips_others_in_the_turn(
    capabilities: dict[str, Any], method: str
) -> None:
    clock = FakeClock()
    agent = asking_agent(WHICH, WHICH, clock=clock)
    async with connected_client(
        agent, capabilities=capabilities, options=AgentOptions(clock=clock)
    ) as client:
        session = await client.new_session()
        id = client.prompt(session)
        question_request = await client.asked(method)
        await clock.advance(61)
        withdrawn = await client.raw.until_method("$/cancel_request")
        assert withdrawn["params"]["requestId"] == question_request["id"]
        assert await answers_read(client, id) == [None, None]
        id = client.prompt(session)
        client.raw.reply(
            await client.asked(method),
            {"answer": "back", "action": "accept", "content": {"answer": "back"}},
        )
        client.raw.reply(
            await client.asked(method), {"answer": "x", "action": "accept", "content": {"answer": "x"}}
        )
        assert await answers_read(client, id) == ["back", "x"]


@pytest.mark.parametrize(
    ("capabilities", "method"), [(FORMS, "elicitation/create"), (ANNOUNCED, AGENTAO_ASK_USER)]
)
async def test_cancelling_the_turn_withdraws_the_question(capabilities: dict[str, Any], method: str) -> None:
    async with connected_client(asking_agent(WHICH, seconds=None), capabilities=capabilities) as client:
        session = await client.new_session()
        id = client.prompt(session)
        question_request = await client.asked(method)
        client.cancel(session)
        withdrawn = await client.raw.until_method("$/cancel_request")
        assert withdrawn["params"]["requestId"] == question_request["id"]
        answer = await client.raw.answer_to(id)
        assert answer["result"] == {"stopReason": "cancelled"}


async def test_parallel_questions_are_asked_one_at_a_time() -> None:
    async def reply(turn: Turn) -> None:
        ask = question_asker(turn, seconds=None)
        await turn.say(json.dumps(await asyncio.gather(ask(UserQuestion("One?")), ask(UserQuestion("Two?")))))

    async with connected_client(make_agent(reply), capabilities=FORMS) as client:
        id = client.prompt(await client.new_session())
        for number in ("One?", "Two?"):
            question_request = await client.asked("elicitation/create")
            assert question_request["params"]["message"] == number
            assert client.methods().count("elicitation/create") == (1 if number == "One?" else 2)
            client.raw.reply(question_request, {"action": "accept", "content": {"answer": number[:-1]}})
        assert await answers_read(client, id) == [["One", "Two"]]


# -- secrets -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "question",
    [
        "Please enter your password.",
        "What is your OpenAI API key?",
        "Paste the GitHub token so that I can push",
        "I need the private key for the server",
        "Could you provide me with the database credentials?",
        "Tell me the one-time code",
    ],
)
async def test_secrets_are_never_asked_for(question: str) -> None:
    assert asks_for_secret(question)
    async with connected_client(asking_agent(UserQuestion(question)), capabilities=FORMS) as client:
        [refusal] = await answers_read(client, client.prompt(await client.new_session()))
    assert "environment variable" in refusal
    assert "elicitation/create" not in client.methods()


@pytest.mark.parametrize(
    "question",
    [
        "What is the password policy?",
        "Should the parser keep the token type?",
        "What should the password field be called?",
        "Which API key header does the server expect?",
        "Shall I store credentials in a file?",
        "Which colour?",
    ],
)
def test_questions_about_secrets_are_not_requests_for_them(question: str) -> None:
    assert not asks_for_secret(question)


async def test_choice_between_options_is_not_a_request_for_a_secret() -> None:
    question = UserQuestion("What is your password?", ("I will set it myself", "skip the login"))
    async with connected_client(asking_agent(question)) as client:
        id = client.prompt(await client.new_session())
        client.raw.reply(await client.asked(AGENTAO_ASK_USER), {"answer": "skip the login"})
        assert await answers_read(client, id) == ["skip the login"]
