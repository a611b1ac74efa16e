"""Elicitation: forms and URLs that the agent shows to the user."""

import asyncio
import socket
from typing import Any

import pytest
from tests.client.raw_agent import connected, in_session

from accord.client import DECLINED, ClientHandlers, ClientOptions
from accord.client.elicitation_forms import matches
from accord.testing.fake_clock import settle

SCHEMA = {
    "type": "object",
    "properties": {
        "how": {
            "type": "string",
            "oneOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}],
            "default": "a",
        },
        "name": {"type": "string", "minLength": 2, "maxLength": 5, "pattern": "^[a-z]+$"},
        "mail": {"type": "string", "format": "email"},
        "count": {"type": "integer", "minimum": 1, "maximum": 3, "default": 2},
        "ratio": {"type": "number", "maximum": 1.5},
        "sure": {"type": "boolean", "default": False},
        "tags": {
            "type": "array",
            "items": {"type": "string", "enum": ["x", "y"]},
            "minItems": 1,
            "maxItems": 1,
        },
        "more": {"type": "array", "items": {"anyOf": [{"const": "p", "title": "P"}]}},
        "odd": {"type": "_color"},
    },
    "required": ["how"],
}


def form(**more):
    return {"mode": "form", "message": "Which way?", "sessionId": "s1", "requestedSchema": SCHEMA, **more}


def address(url="https://agent.example/connect?x=1", id="e1", **more):
    return {"mode": "url", "message": "Authorise", "sessionId": "s1", "url": url, "elicitationId": id, **more}


async def answer_to_form(handler, options=None, **more):
    async with in_session(handlers=ClientHandlers(forms=handler), options=options) as (_, peer):
        return await peer.result_of("elicitation/create", form(**more))


@pytest.mark.rule("elicitation.action", "elicitation.dismissal")
async def test_a_form_can_be_submitted_declined_or_dismissed():
    values = {"how": "b", "name": "abc", "count": 1, "ratio": 0.5, "sure": True, "tags": ["x"], "more": []}
    assert await answer_to_form(lambda form: values) == {"action": "accept", "content": values}
    assert await answer_to_form(lambda form: DECLINED) == {"action": "decline"}
    assert await answer_to_form(lambda form: None) == {"action": "cancel"}

    async def later(form):
        decided = asyncio.Event()
        asyncio.get_running_loop().call_soon(decided.set)
        await decided.wait()
        return form.defaults

    assert await answer_to_form(later) == {
        "action": "accept",
        "content": {"how": "a", "count": 2, "sure": False},
    }


@pytest.mark.rule("elicitation.validated", "elicitation.form-review")
async def test_a_form_has_the_agent_name_fields_defaults_and_problems():
    seen: list[object] = []

    async def look(form):
        seen.append((form.agent, form.message, list(form.fields)[:2], form.required, form.defaults))
        seen.append(await form.problems({}))
        wrong = {
            "how": "c",
            "name": "x",
            "mail": "nobody",
            "count": 4,
            "ratio": True,
            "sure": "yes",
            "tags": ["x", "y"],
            "more": ["q"],
            "odd": "red",
            "extra": 1,
        }
        seen.append(await form.problems(wrong))
        seen.append(await form.problems({"how": "a", "name": "ABC", "tags": "x", "count": 1.5, "ratio": 2}))
        return DECLINED

    info = {"name": "x", "version": "1", "title": "Agent X"}
    async with connected(handlers=ClientHandlers(forms=look), agentInfo=info) as (agent, peer):
        opening = asyncio.create_task(agent.new_session("/"))
        await peer.open()
        await opening
        await peer.result_of("elicitation/create", form())
    shown, missing, wrong, patterned = seen
    assert shown == (
        "Agent X",
        "Which way?",
        ["how", "name"],
        ["how"],
        {"how": "a", "count": 2, "sure": False},
    )
    assert missing == {"how": "is required"}
    assert wrong == {
        "how": "is not one of the choices",
        "name": "must have at least 2 characters",
        "mail": "is not a valid email",
        "count": "must be at most 3",
        "ratio": "must be a number",
        "sure": "must be true or false",
        "tags": "takes at most 1 choices",
        "more": "contains a value that is not one of the choices",
        "odd": "has a type that this client does not support",
        "extra": "is not a field of this form",
    }
    assert patterned == {
        "name": "does not match ^[a-z]+$",
        "tags": "must be a list of choices",
        "count": "must be a whole number",
        "ratio": "must be at most 1.5",
    }


async def test_invalid_form_values_are_not_sent():
    reports: list[str] = []
    options = ClientOptions(observer=lambda report: reports.append(report.detail))
    assert await answer_to_form(lambda form: {"how": "zzz"}, options) == {"action": "cancel"}
    assert reports == ["the form handler returned values that cannot be sent: how is not one of the choices"]


async def test_a_failing_form_handler_cancels_the_elicitation():
    def broken(_form):
        raise RuntimeError("no screen")

    assert await answer_to_form(broken) == {"action": "cancel"}


@pytest.mark.rule("elicitation.bounded-pattern")
async def test_a_hostile_pattern_does_not_block_the_client():
    schema = {"type": "object", "properties": {"x": {"type": "string", "pattern": "^(a+)+$"}}}
    async with in_session(handlers=ClientHandlers(forms=lambda form: {"x": "a" * 60 + "!"})) as (
        session,
        peer,
    ):
        asked = peer.ask("elicitation/create", form(requestedSchema=schema))
        peer.say("still alive")
        await anext(session.events())
        # A value that could not be checked in time is sent; the agent checks it again.
        assert (await peer.answer_to(asked))["result"]["action"] == "accept"


async def test_a_hostile_pattern_does_not_prevent_the_other_checks():
    pairs = [("^b$", "a"), ("^(a+)+$", "a" * 60 + "!"), ("[", "x"), ("x" * 2000, "x")]
    assert await matches(pairs, seconds=5.0) == [False, None, None, None]
    assert await matches([("b", "abc"), ("[", "x")]) == [True, None]
    assert await matches([]) == []


@pytest.mark.rule("elicitation.unadvertised-mode", "elicitation.unknown-mode")
async def test_unknown_and_unsupported_elicitation_modes_are_refused():
    never = ClientHandlers(forms=_must_not_be_asked)
    async with in_session(handlers=never) as (_, peer):
        assert (await peer.error_of("elicitation/create", address()))["code"] == -32602
        assert (await peer.error_of("elicitation/create", form(mode="_x")))["code"] == -32602
        no_mode = form()
        del no_mode["mode"]
        assert (await peer.error_of("elicitation/create", no_mode))["code"] == -32602
    async with in_session(handlers=ClientHandlers(urls=_must_not_be_asked)) as (_, peer):
        assert (await peer.error_of("elicitation/create", form()))["code"] == -32602
    async with in_session() as (_, peer):
        assert (await peer.error_of("elicitation/create", form()))["code"] == -32602


def _must_not_be_asked(_question):
    raise AssertionError


@pytest.mark.rule("accord.client-unknown-session")
async def test_an_elicitation_for_an_unknown_session_is_refused():
    async with in_session(handlers=ClientHandlers(forms=_must_not_be_asked)) as (_, peer):
        error = await peer.error_of("elicitation/create", form(sessionId="nope"))
        assert (error["code"], error["data"]) == (-32002, {"sessionId": "nope"})


@pytest.mark.rule("elicitation.url-only-on-consent")
async def test_a_url_is_shown_in_full_with_its_host_and_never_opened():
    server = socket.create_server(("127.0.0.1", 0))
    server.setblocking(False)
    url = f"http://127.0.0.1:{server.getsockname()[1]}/secret?token=1"
    shown: list[object] = []

    def look(address):
        shown.append((address.url, address.host, address.message, address.punycode))
        return True

    async with in_session(handlers=ClientHandlers(urls=look)) as (_, peer):
        assert await peer.result_of("elicitation/create", address(url)) == {"action": "accept"}
        odd = address("https://xn--80ak6aa92e.com/", "e2")
        assert await peer.result_of("elicitation/create", odd) == {"action": "accept"}
    assert shown == [
        (url, "127.0.0.1", "Authorise", False),
        ("https://xn--80ak6aa92e.com/", "xn--80ak6aa92e.com", "Authorise", True),
    ]
    with pytest.raises(BlockingIOError):
        server.accept()
    server.close()


@pytest.mark.rule("elicitation.dismissal", "elicitation.url-only-on-consent")
async def test_a_url_that_the_user_does_not_accept_is_declined_or_cancelled():
    for answer, action in ((False, "decline"), (None, "cancel"), ("yes", "cancel")):
        says: Any = answer
        async with in_session(handlers=ClientHandlers(urls=lambda address, says=says: says)) as (_, peer):
            assert await peer.result_of("elicitation/create", address()) == {"action": action}


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "javascript:alert(1)", "agent.example", "", "http://", "https://[x"]
)
async def test_an_invalid_url_is_not_shown(url):
    async with in_session(handlers=ClientHandlers(urls=_must_not_be_asked)) as (_, peer):
        assert (await peer.error_of("elicitation/create", address(url)))["code"] == -32602


@pytest.mark.rule("elicitation.unknown-completion")
async def test_completions_are_matched_by_id_and_unknown_ones_are_ignored():
    addresses = []

    def agree(address):
        addresses.append(address)
        return True

    reports: list[Any] = []
    options = ClientOptions(observer=reports.append)
    async with connected(handlers=ClientHandlers(urls=agree), options=options) as (_, peer):
        scoped = address(id="e1", requestId=29)
        del scoped["sessionId"]
        assert await peer.result_of("elicitation/create", scoped) == {"action": "accept"}
        (shown,) = addresses
        assert shown.session is None
        peer.notify("elicitation/complete", {"elicitationId": "unknown"})
        await settle()
        assert not shown.completed.done()
        for _ in range(2):
            peer.notify("elicitation/complete", {"elicitationId": "e1"})
        await shown.completed
        await settle()
        assert all("method" in message or message["id"] for message in peer.received)
    assert reports == []


@pytest.mark.dialect(203)
async def test_the_old_method_name_is_accepted():
    async with in_session(handlers=ClientHandlers(forms=lambda form: DECLINED)) as (_, peer):
        assert await peer.result_of("session/elicitation", form()) == {"action": "decline"}
