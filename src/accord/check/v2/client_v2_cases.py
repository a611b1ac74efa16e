"""Cases of version 2 for clients: calls of the agent, versions, turns, updates, permissions."""

import asyncio
from typing import Any, Final

from accord.check.checked_connection import ConnectionOver
from accord.check.client.client_fixture import ANSWER_TEXT, ClientCases, ClientFixture, Ping, tail
from accord.check.client.client_under_test import ClientUnderTest, update
from accord.check.client.user_decision_cases import OPTIONS
from accord.check.findings import CaseUnavailable, RuleId
from accord.check.v2.client_v2 import refusal
from accord.trace.trace_steps import at
from accord.trace.wire_line import WireLine

case: Final = ClientCases()

_CALLS: Final[tuple[tuple[RuleId, Any, str, Any, int | None], ...]] = (
    ("v2-framing.client-unknown-method", 0, "nope/nope", {}, -32601),
    ("v2-framing.client-unknown-method", "ask-1", "fs/read_text_file", {"path": "/notes.txt"}, -32601),
    ("v2-framing.client-unknown-method", -7, "terminal/create", {"command": "true"}, -32601),
    ("v2-framing.client-custom-request", "ask-2", "_check/x", {}, None),
)
"""Calls with their rule, id, method, params and error code; None: any answer."""


@case(
    "v2-framing.client-unknown-method v2-framing.client-custom-request v2-framing.client-returns-id "
    "v2-framing.client-one-answer v2-framing.client-error-members v2-framing.client-silent-on-notification "
    "v2-framing.client-only-messages v2-framing.client-known-methods v2-framing.client-custom-members "
    "v2-initialize.first v2-initialize.client-info v2-initialize.client-capability-objects "
    "v2-session.absolute-folder v2-auth.only-offered schema"
)
async def calls_of_the_agent(fixture: ClientFixture) -> None:
    """Calls of the agent: unknown methods with various ids, then notifications."""
    turn = await fixture.start_turn()
    client, session = turn.client, turn.client.responder.session
    for rule, id, method, params, code in _CALLS:
        answer = await client.call(method, {"sessionId": session, **params}, id=id, rule=rule)
        failure = f"{method} gave {answer.summary}; expected -32601"
        fixture.judge(rule, code in (None, answer.code), f"{method} was answered", failure, answer)
        rule, failure = "v2-framing.client-returns-id", f"the id {id!r} gave {answer.line.id!r}"
        fixture.judge(rule, answer.line.id == id, "ids are returned", failure, answer)
    rule = "v2-framing.client-silent-on-notification"
    for method in ("_check/note", "$/note"):
        sent = client.notify(method, {"sessionId": session})
        await client.ping(rule=rule)
        replies = [line for line in client.lines[sent.number :] if line.is_answer and line.id is None]
        fixture.judge(rule, not replies, f"{method} was ignored", f"{method} was answered", sent, *replies)
    await fixture.finish_turn(turn, ANSWER_TEXT)


async def _outcome_of_initialize(
    fixture: ClientFixture, rule: RuleId
) -> tuple[ClientUnderTest, WireLine | None]:
    """Start the client; return its call after `initialize`, or None if it ended."""
    await fixture.start()
    client = await fixture.wait_for_connection(rule=rule)
    first = await client.wait_for_call("initialize")
    if first is None:
        raise ConnectionOver("the client sent no initialize")

    async def call(timeout: float) -> WireLine | None:
        return await client.wait_for_line(
            lambda line: line.sender == "client" and bool(line.method), since=first.number, timeout=timeout
        )

    called = asyncio.ensure_future(call(fixture.timeouts.soon))
    exited = asyncio.ensure_future(fixture.process.wait(fixture.timeouts.soon))
    try:  # over HTTP, the exit of the client does not end the connection
        await asyncio.wait((called, exited), return_when=asyncio.FIRST_COMPLETED)
        return client, called.result() if called.done() else await call(0)
    finally:
        called.cancel()
        exited.cancel()


@case("v2-initialize.answered-version")
async def answered_with_version_1(fixture: ClientFixture) -> None:
    """Answered with version 1: it goes on in version 1, or ends with a message."""
    rule: RuleId = "v2-initialize.answered-version"
    fixture.responder.initialize_result = {
        "protocolVersion": 1,
        "agentCapabilities": {},
        "agentInfo": {"name": "accord-check", "version": "1"},
    }
    client, after = await _outcome_of_initialize(fixture, rule)
    ended = await fixture.wait_for_exit() or client.end is not None
    said = bool(fixture.process.output.strip())
    speaks_1 = after is not None and (
        after.method != "session/new" or isinstance(after.params.get("mcpServers"), list)
    )
    failure = f"it neither speaks version 1 nor ends with a message: {tail(fixture.process.output)}"
    shown = [line for line in (after,) if line is not None]
    fixture.judge(rule, speaks_1 or (ended and said), "it goes on or ends", failure, *shown)


@case("v2-initialize.refused-version")
async def refused_version(fixture: ClientFixture) -> None:
    """Refused version: initialize gives -32022."""
    rule: RuleId = "v2-initialize.refused-version"
    fixture.responder.overrides["initialize"] = lambda line: refusal(at(line.params, "protocolVersion"))
    client, after = await _outcome_of_initialize(fixture, rule)
    retried = after is not None and after.method == "initialize"
    ended = await fixture.wait_for_exit() or client.end is not None
    said = bool(fixture.process.output.strip())
    failure = f"it does not end with a message: {tail(fixture.process.output)}"
    passed = (after is None or retried) and (retried or (ended and said))
    fixture.judge(rule, passed, "it ends, or asks for another version", failure)


case.turn(
    "text after the response",
    "the prompt is answered, then text comes, then idle",
    "v2-prompt.waits-for-idle",
)(Ping("v2-prompt.waits-for-idle"))


case.turn("unknown states", "the states `_thinking` and requires_action", "v2-prompt.unknown-state")(
    update("state_update", state="_thinking"),
    Ping("v2-prompt.unknown-state"),
    update("state_update", state="requires_action"),
    update("state_update", state="running"),
    Ping("v2-prompt.unknown-state"),
)


case.turn("unknown updates", "updates of unknown kinds", "v2-update.unknown-kind")(
    update("_nope", anything=[1]),
    update("zzz", messageId="x"),
    update("tool_call_update", toolCallId="t", title="Odd", status="weird", kind="_own"),
    Ping("v2-update.unknown-kind"),
)


case.turn("malformed updates", "updates of known kinds with wrong shapes", "v2-update.malformed")(
    update("agent_message_chunk", messageId="broken"),
    update("state_update", state=5),
    update("plan_update", plan="x"),
    Ping("v2-update.malformed"),
)


case.turn("updates of other sessions", "an update of an unknown session", "v2-update.other-session")(
    update(
        "agent_message_chunk", "another-session", messageId="o", content={"type": "text", "text": "other"}
    ),
    update("state_update", "another-session", state="idle", stopReason="end_turn"),
    Ping("v2-update.other-session"),
)


@case("v2-prompt.early-updates")
async def early_updates(fixture: ClientFixture) -> None:
    """Early updates: text before the response to the prompt."""
    turn = await fixture.start_turn(inserted=False)  # pyright: ignore[reportArgumentType]
    turn.client.update("state_update", state="running")
    await fixture.finish_turn(turn, ANSWER_TEXT, ["v2-prompt.early-updates"])


@case("v2-update.append")
async def appended_chunks(fixture: ClientFixture) -> None:
    """Chunks: one word in two chunks of one message."""
    turn = await fixture.start_turn()
    half = len(ANSWER_TEXT) // 2
    for part in (ANSWER_TEXT[:half], ANSWER_TEXT[half:]):
        turn.client.send_text(part, messageId="one")
    await turn.client.ping(rule="v2-update.append")
    turn.client.end_turn(turn.prompt)
    await fixture.wait_for_exit()
    if not fixture.traits.prints_messages:
        fixture.add_not_shown("v2-update.append", "it prints no messages")
        return
    failure = f"the word of two chunks is not printed; output: {tail(fixture.process.output)}"
    passed = ANSWER_TEXT in fixture.process.stdout
    fixture.judge("v2-update.append", passed, "chunks are appended", failure)


@case("v2-prompt.error-reason v2-prompt.unknown-reason")
async def ends_of_turns(fixture: ClientFixture) -> None:
    """Ends of turns: the stop reasons `error` and `_nope`."""
    for rule, reason, more in (
        ("v2-prompt.error-reason", "error", {"error": {"code": -32603, "message": "ReasonOfTheCheck"}}),
        ("v2-prompt.unknown-reason", "_nope", {}),
    ):
        turn = await fixture.start_turn()
        last = turn.client.end_turn(turn.prompt, reason, **more)
        ended = await fixture.wait_for_exit()
        exit = fixture.process.exit
        failed = exit is not None and bool(exit.code or exit.signal)
        shown = reason != "error" or failed or "ReasonOfTheCheck" in fixture.process.output
        passed = shown and (ended or not fixture.traits.exits_after_turn)
        failure = f"after the stop reason {reason!r}: {tail(fixture.process.output)}"
        fixture.judge(rule, passed, "the turn ends", failure, last)
        await fixture.process.end()


@case("v2-cancel.client-notification")
async def interrupted(fixture: ClientFixture) -> None:
    """Interrupting: the client is interrupted, and idle comes late."""
    rule: RuleId = "v2-cancel.client-notification"
    if not fixture.script.cancels:
        raise CaseUnavailable("the script does not say that an interrupt cancels")
    turn = await fixture.start_turn()
    await turn.client.ping()
    fixture.process.interrupt()
    cancel = await turn.client.wait_for_call("session/cancel", timeout=fixture.timeouts.soon)
    if cancel is None:
        fixture.add_fail(rule, "an interrupt sent no session/cancel", turn.prompt)
        return
    fixture.judge(rule, not cancel.is_request, "it is a notification", "session/cancel is a request", cancel)
    await turn.client.ping(rule=rule)  # it still waits for the end
    turn.client.end_turn(turn.prompt, "cancelled")
    await fixture.wait_for_exit()


_SUBJECTS: Final[tuple[tuple[RuleId, dict[str, Any]], ...]] = (
    (
        "v2-permission.every-subject",
        {"subject": {"type": "tool_call", "toolCall": {"toolCallId": "t", "title": "Edit"}}},
    ),
    ("v2-permission.every-subject", {"subject": {"type": "command", "command": "true", "cwd": "$folder"}}),
    ("v2-permission.every-subject", {}),
    ("v2-permission.unknown-subject", {"subject": {"type": "_nope", "x": 1}}),
)


@case("v2-permission.every-subject v2-permission.unknown-subject v2-permission.offered-option")
async def permissions(fixture: ClientFixture) -> None:
    """Permissions: requests about a tool call, a command, nothing, and something unknown."""
    turn = await fixture.start_turn(*fixture.available_actions("allow"))
    for rule, subject in _SUBJECTS:
        answer = await turn.client.call(
            "session/request_permission", _permission(fixture, turn.client, subject)
        )
        failure = f"a request with {subject or 'no subject'} gave {answer.summary}"
        fixture.judge(rule, answer.ok, "it was answered", failure, answer)
    await fixture.finish_turn(turn)


def _permission(fixture: ClientFixture, client: ClientUnderTest, members: dict[str, Any]) -> dict[str, Any]:
    subject = {
        name: str(fixture.folder) if value == "$folder" else value
        for name, value in members.get("subject", {}).items()
    }
    more = {"subject": subject} if subject else {}
    options = [dict(option) for option in OPTIONS]
    return {"sessionId": client.responder.session, "title": "Do it", "options": options, **more}


async def _answers_at_once(fixture: ClientFixture, client: ClientUnderTest) -> bool:
    """Whether it answers a request that is not withdrawn: over HTTP, a withdrawal has a stream of its own."""
    asked = client.send_request("session/request_permission", _permission(fixture, client, {}))

    def is_answer(line: WireLine) -> bool:
        return line.sender == "client" and line.is_answer and line.id == asked.id

    return (
        await client.wait_for_line(is_answer, since=asked.number, timeout=fixture.timeouts.soon) is not None
    )


@case("v2-cancel.withdrawn-permission")
async def withdrawn_permission(fixture: ClientFixture) -> None:
    """A withdrawn question: a permission request, then $/cancel_request."""
    rule: RuleId = "v2-cancel.withdrawn-permission"
    turn = await fixture.start_turn(*fixture.available_actions("ask"))
    client = turn.client
    asked = client.send_request("session/request_permission", _permission(fixture, client, {}))
    await client.ping()
    if any(line.is_answer and line.id == asked.id for line in client.lines if line.sender == "client"):
        raise CaseUnavailable("it answered before the request was withdrawn")
    withdrawal = client.notify("$/cancel_request", {"requestId": asked.id})
    answer = await client.wait_for_answer(asked, rule=rule, timeout=fixture.timeouts.soon)
    cancelled = at(answer.result, "outcome", "outcome") == "cancelled" or answer.code == -32800
    if not cancelled and await _answers_at_once(fixture, client):
        raise CaseUnavailable("it answers before the withdrawal can arrive")
    failure = f"a withdrawn request gave {answer.summary}; expected `cancelled`"
    fixture.judge(rule, cancelled, "it is cancelled", failure, withdrawal, answer)
    await fixture.finish_turn(turn)
