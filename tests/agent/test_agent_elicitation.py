"""Elicitation by form and by URL: only in offered modes, and no secrets in forms."""

from typing import Any

import pytest
from tests.agent.agent_client import EVERYTHING, connected_client, make_agent

from accord.agent import Turn
from accord.agent.elicitation import looks_secret
from accord.errors import NotOffered, UsageError
from accord.schema import (
    BooleanPropertySchema,
    ElicitationSchema,
    EnumOption,
    IntegerPropertySchema,
    MultiSelectPropertySchema,
    NumberPropertySchema,
    StringMultiSelectItems,
    StringPropertySchema,
    TitledMultiSelectItems,
)

FORM = {"elicitation": {"form": {}}}
URL = {"elicitation": {"url": {}}}
HOW = {"how": StringPropertySchema(enum=["left", "right"])}
PAGE = "https://agent.example/connect"


async def elicit_both(turn: Turn) -> None:
    """Elicit in both modes and report which were possible."""
    for ask in (turn.elicit("Which way?", HOW), turn.elicit_url("Sign in", PAGE)):
        try:
            answer = await ask
            await turn.say(answer.action)
        except NotOffered:
            await turn.say("not offered")


@pytest.mark.rule(
    "initialize.missing-client-capability",
    "elicitation.mode-needs-capability",
    "elicitation.no-secrets-without-url",
)
@pytest.mark.parametrize(
    ("capabilities", "asked"),
    [
        ({}, []),
        ({"elicitation": {}}, []),
        ({"elicitation": None}, []),
        ({"elicitation": {"form": None, "url": None}}, []),
        ({"elicitation": True}, []),
        (FORM, ["form"]),
        (URL, ["url"]),
        (EVERYTHING, ["form", "url"]),
    ],
)
async def test_only_offered_elicitation_modes_are_used(capabilities: Any, asked: list[str]) -> None:
    modes: list[str] = []
    async with connected_client(make_agent(elicit_both), capabilities=capabilities) as client:
        id = client.prompt(await client.new_session())
        for _ in asked:
            question = await client.asked("elicitation/create")
            modes.append(question["params"]["mode"])
            client.raw.reply(question, {"action": "decline"})
        await client.raw.answer_to(id)
    assert modes == asked
    texts = [chunk["content"]["text"] for chunk in client.updates_of("agent_message_chunk")]
    assert texts.count("not offered") == 2 - len(asked)


@pytest.mark.rule("elicitation.members", "elicitation.one-scope", "elicitation.flat-schema")
async def test_a_form_request_names_its_session_tool_call_and_fields() -> None:
    async def asks(turn: Turn) -> None:
        async with turn.tool_call("Deploy") as call:
            tags = MultiSelectPropertySchema(StringMultiSelectItems(["x", "y"]))
            form = ElicitationSchema(properties={**HOW, "tags": tags}, required=["how"], title="Way")
            answer = await turn.elicit("Which way?", form, call=call)
            await call.text(f"{answer.content}")
        answer = await turn.elicit("Which way?", HOW)
        await turn.say(f"{bool(answer)} {answer.content}")

    async with connected_client(make_agent(asks), capabilities=FORM) as client:
        session = await client.new_session()
        id = client.prompt(session)
        first = await client.asked("elicitation/create")
        client.raw.reply(first, {"action": "accept", "content": {"how": "left", "tags": ["x"]}})
        second = await client.asked("elicitation/create")
        client.raw.reply(second, {"action": "accept", "content": {"how": "right"}})
        updates, _ = await client.turn_of(id)
    assert first["params"] == {
        "mode": "form",
        "sessionId": session,
        "toolCallId": client.updates_of("tool_call")[0]["toolCallId"],
        "message": "Which way?",
        "requestedSchema": {
            "type": "object",
            "title": "Way",
            "properties": {
                "how": {"type": "string", "enum": ["left", "right"]},
                "tags": {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}},
            },
            "required": ["how"],
        },
    }
    assert "toolCallId" not in second["params"]
    assert second["params"]["requestedSchema"]["required"] == ["how"]
    assert updates[-1]["content"]["text"] == "True {'how': 'right'}"


async def form_outcome(result: Any, schema: Any = None) -> tuple[bool, str, Any]:
    """How the agent reads this answer to a form: whether it is accepted, the action, the content."""
    outcome: list[Any] = []

    async def asks(turn: Turn) -> None:
        answer = await turn.elicit("?", schema or {})
        outcome.append((bool(answer), answer.action, answer.content))

    async with connected_client(make_agent(asks), capabilities=FORM) as client:
        id = client.prompt(await client.new_session())
        question = await client.asked("elicitation/create")
        if isinstance(result, int):
            client.raw.refuse(question, result)
        else:
            client.raw.reply(question, result)
        _, ended = await client.turn_of(id)
    assert ended == {"stopReason": "end_turn"}
    return outcome[0]


@pytest.mark.rule("elicitation.declined", "elicitation.null-content", "elicitation.unknown-action")
@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        ({"action": "accept", "content": {"x": 1}}, (True, "accept", {"x": 1})),
        ({"action": "accept"}, (True, "accept", {})),
        ({"action": "accept", "content": None}, (True, "accept", {})),
        ({"action": "decline", "content": {"x": 1}}, (False, "decline", {})),
        ({"action": "cancel"}, (False, "cancel", {})),
        ({"action": "_x", "content": {"x": 1}}, (False, "_x", {})),
        ({"action": "accept", "content": "x"}, (False, "cancel", {})),
        ({}, (False, "cancel", {})),
        (None, (False, "cancel", {})),
        (-32602, (False, "cancel", {})),
        (-32800, (False, "cancel", {})),
    ],
)
async def test_only_a_valid_accept_action_accepts_a_form(result: Any, outcome: Any) -> None:
    assert await form_outcome(result) == outcome


@pytest.mark.rule("elicitation.declined")
@pytest.mark.parametrize(
    "content",
    [
        {},
        {"how": "up"},
        {"how": 5},
        {"how": "left", "n": 1.5},
        {"how": "left", "n": 11},
        {"how": "left", "n": True},
        {"how": "left", "r": "x"},
        {"how": "left", "r": -1},
        {"how": "left", "b": "yes"},
        {"how": "left", "tags": "x"},
        {"how": "left", "tags": ["z"]},
        {"how": "left", "tags": ["x", "y"]},
        {"how": "left", "more": ["q"]},
        {"how": "left", "s": "toolong"},
    ],
)
async def test_content_that_does_not_match_the_form_is_not_accepted(content: Any) -> None:
    schema = ElicitationSchema(
        properties={
            **HOW,
            "n": IntegerPropertySchema(maximum=10),
            "r": NumberPropertySchema(minimum=0),
            "b": BooleanPropertySchema(),
            "s": StringPropertySchema(max_length=3),
            "tags": MultiSelectPropertySchema(StringMultiSelectItems(["x", "y"]), max_items=1),
            "more": MultiSelectPropertySchema(TitledMultiSelectItems([EnumOption("p", "P")])),
        },
        required=["how"],
    )
    good = {"how": "left", "n": 3, "r": 0.5, "b": True, "s": "ok", "tags": ["x"], "more": ["p"]}
    assert (await form_outcome({"action": "accept", "content": good}, schema))[0] is True
    assert (await form_outcome({"action": "accept", "content": content}, schema))[0] is False


@pytest.mark.rule("elicitation.no-secrets", "elicitation.no-secrets-without-url")
@pytest.mark.parametrize(
    "name",
    [
        "password",
        "apiKey",
        "api_key",
        "API-KEY",
        "accessToken",
        "client_secret",
        "privateKey",
        "cvv",
        "apikey",
    ],
)
async def test_a_form_never_asks_for_a_secret(name: str) -> None:
    async def asks(turn: Turn) -> None:
        with pytest.raises(UsageError, match="elicit_url"):
            await turn.elicit("Sign in", {name: StringPropertySchema()})
        with pytest.raises(UsageError, match="elicit_url"):
            await turn.elicit("Sign in", {"field": StringPropertySchema(title=name)})
        with pytest.raises(NotOffered):
            await turn.elicit_url("Sign in", PAGE)

    async with connected_client(make_agent(asks), capabilities=FORM) as client:
        await client.turn(await client.new_session())
    assert client.methods() == []


def test_ordinary_names_are_not_treated_as_secrets() -> None:
    for name in ("max_tokens", "keyboard", "path", "secretary", "passwordless", "key", "Tokenizer", None, 5):
        assert not looks_secret(name), name


@pytest.mark.rule(
    "elicitation.members", "elicitation.one-scope", "elicitation.unique-id", "elicitation.own-completions"
)
async def test_a_url_elicitation_is_completed_once_after_acceptance() -> None:
    async def asks(turn: Turn) -> None:
        one = await turn.elicit_url("Connect", PAGE)
        two = await turn.elicit_url("Connect", "http://localhost:8080/x")
        assert one
        assert not two
        await one.complete()
        await one.complete()
        await two.complete()
        await turn.say("done")

    async with connected_client(make_agent(asks), capabilities=URL) as client:
        session = await client.new_session()
        id = client.prompt(session)
        first = await client.asked("elicitation/create")
        client.raw.reply(first, {"action": "accept"})
        second = await client.asked("elicitation/create")
        client.raw.reply(second, {"action": "decline"})
        done = await client.raw.next("elicitation/complete")
        await client.turn_of(id)
    assert first["params"] == {
        "mode": "url",
        "sessionId": session,
        "message": "Connect",
        "elicitationId": first["params"]["elicitationId"],
        "url": PAGE,
    }
    assert first["params"]["elicitationId"] != second["params"]["elicitationId"]
    assert done["params"] == {"elicitationId": first["params"]["elicitationId"]}
    assert client.methods().count("elicitation/complete") == 1


@pytest.mark.rule("elicitation.url")
@pytest.mark.parametrize(
    "url",
    [
        "http://agent.example/login",
        "https://user:pass@agent.example/",
        "https://agent.example/?token=abc",
        "https://agent.example/?api_key=abc",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "agent.example",
        "https://[oops/",
    ],
)
async def test_an_unsafe_url_is_never_sent(url: str) -> None:
    async def asks(turn: Turn) -> None:
        with pytest.raises(UsageError):
            await turn.elicit_url("Connect", url)

    async with connected_client(make_agent(asks), capabilities=URL) as client:
        await client.turn(await client.new_session())
    assert client.methods() == []


@pytest.mark.rule("elicitation.declined")
async def test_a_cancelled_turn_cancels_its_elicitation() -> None:
    async def asks(turn: Turn) -> None:
        await turn.elicit_url("Connect", PAGE)

    async with connected_client(make_agent(asks), capabilities=URL) as client:
        session = await client.new_session()
        id = client.prompt(session)
        question = await client.asked("elicitation/create")
        client.cancel(session)
        cancel = await client.raw.next("$/cancel_request")
        _, result = await client.turn_of(id)
    assert cancel["params"] == {"requestId": question["id"]}
    assert result == {"stopReason": "cancelled"}
