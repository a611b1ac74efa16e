"""Cases: permissions, forms and web pages, cancellation."""

import asyncio
from typing import Any, Final

from accord.check.checked_connection import CallAnswer
from accord.check.client.client_fixture import (
    ANSWER_TEXT,
    LONG_COMMAND,
    ClientCases,
    ClientFixture,
    Ping,
    tail,
)
from accord.check.client.client_under_test import ClientUnderTest
from accord.check.findings import CaseUnavailable, RuleId
from accord.trace.trace_steps import at

case: Final = ClientCases()


OPTIONS: Final = (
    {"optionId": "x 1", "name": "Allow", "kind": "allow_once"},
    {"optionId": "always!", "name": "Always", "kind": "allow_always"},
    {"optionId": "n/2", "name": "Reject", "kind": "reject_once"},
    {"optionId": "never", "name": "Never", "kind": "reject_always"},
)


def permission_params(client: ClientUnderTest, call: str = "c1", **members: Any) -> dict[str, Any]:
    """The params of a permission request, by default for an edit."""
    path = str(members.pop("path", "/"))
    return {
        "sessionId": client.responder.session,
        "toolCall": {
            "toolCallId": call,
            "title": "Change notes.txt",
            "kind": "edit",
            "status": "pending",
            "locations": [{"path": path}],
            **members,
        },
        "options": [dict(option) for option in OPTIONS],
    }


def is_consent(answer: CallAnswer) -> bool:
    """Whether the answer selects an allow option."""
    outcome = at(answer.result, "outcome")
    chosen = at(outcome, "optionId")
    allow_ids = [option["optionId"] for option in OPTIONS if option["kind"].startswith("allow")]
    return at(outcome, "outcome") == "selected" and chosen in allow_ids


@case("prompt.client-serves-during-turn permission.served permission.offered-option")
async def permission_options(fixture: ClientFixture) -> None:
    """Permission requests: four options with unusual ids, under every policy of the script."""
    rule = "prompt.client-serves-during-turn"
    for action in fixture.available_actions("allow", "reject", "reads") or ("",):
        turn = await fixture.start_turn(*([action] if action else []))
        client = turn.client
        answer = await client.ping(rule=rule)
        fixture.add_pass(rule, "it answers requests during a turn", answer)
        for path in ("notes.txt", "other.txt"):
            request = permission_params(client, f"call {path}", path=str(fixture.folder / path))
            client.update("tool_call", **request["toolCall"])
            answer = await client.call("session/request_permission", request, rule="permission.served")
            served = answer.code != -32601
            failure = "session/request_permission is unknown to it"
            fixture.judge("permission.served", served, "it answered", failure, answer)
            if action == "reject" and is_consent(answer):
                fixture.add_fail(
                    "permission.offered-option", "it allowed a request, but its policy is to reject", answer
                )
        await fixture.finish_turn(turn)
        await fixture.process.end()


@case("permission.concurrent")
async def concurrent_permissions(fixture: ClientFixture) -> None:
    """Two permission requests at once: both are pending at the same time."""
    # Two requests at the same time must both be answered.
    rule = "permission.concurrent"
    turn = await fixture.start_turn()
    client = turn.client
    first = client.send_request("session/request_permission", permission_params(client, "c1"), id="first")
    second = client.send_request("session/request_permission", permission_params(client, "c2"), id="second")
    answers = [
        await client.wait_for_answer(second, rule=rule),
        await client.wait_for_answer(first, rule=rule),
    ]
    fixture.add_pass(rule, "both were answered", *answers)
    await fixture.finish_turn(turn)


@case("accord.only-official-read-kind")
async def read_only_policy(fixture: ClientFixture) -> None:
    """Read-only policy: official and other kinds of tool calls."""
    # Only the official kind `read` may be allowed automatically, and only once.
    fixture.require_actions("reads")
    turn = await fixture.start_turn("reads")
    client = turn.client
    path = str(fixture.folder / "notes.txt")
    kinds = (("read", True), ("file", False), ("Read", False), ("edit", False), (None, False))
    for number, (kind, expected) in enumerate(kinds):
        request = permission_params(client, f"k{number}", kind=kind, title="Read notes.txt", path=path)
        if kind is None:
            del request["toolCall"]["kind"]
        answer = await client.call("session/request_permission", request, rule="permission.served")
        chosen = at(answer.result, "outcome", "optionId")
        passed = (chosen == "x 1") if expected else not is_consent(answer)
        failure = f"kind {kind!r} was answered with {answer.summary}"
        reason = "it allows only the kind `read`, and only once"
        fixture.judge("accord.only-official-read-kind", passed, reason, failure, answer)
    await fixture.finish_turn(turn)


_ACTIONS: Final = ("accept", "decline", "cancel")


def _form(pattern: str | None = None, default: str = "blue") -> dict[str, Any]:
    field: dict[str, Any] = {"type": "string", "title": "Color", "default": default}
    if pattern is not None:
        field["pattern"] = pattern
    schema = {"type": "object", "properties": {"color": field}, "required": ["color"]}
    return {"mode": "form", "message": "Which color?", "requestedSchema": schema}


async def _elicit(client: ClientUnderTest, rule: RuleId, **params: Any) -> CallAnswer:
    return await client.call(
        "elicitation/create", {"sessionId": client.responder.session, **params}, rule=rule
    )


@case(
    "elicitation.unadvertised-mode elicitation.action elicitation.unknown-mode elicitation.bounded-pattern",
    "elicitation",
)
async def elicitations(fixture: ClientFixture) -> None:
    """Elicitations: a form, a slow pattern, an unknown mode, unsupported modes."""
    rule = "elicitation.unadvertised-mode"
    turn = await fixture.start_turn()
    client, notes = turn.client, fixture.notes
    if client.advertises("elicitation.form"):
        answer = await _elicit(client, "elicitation.action", **_form())
        action = at(answer.result, "action")
        failure = f"the form gave {answer.summary}"
        notes.judge("elicitation.action", action in _ACTIONS, f"{action}", failure, answer)
        answer = await _elicit(client, "elicitation.bounded-pattern", **_form("(a+)+$", "a" * 40 + "!"))
        ping_answer = await client.ping(rule="elicitation.bounded-pattern")
        notes.add_pass("elicitation.bounded-pattern", "it continues", answer, ping_answer)
    answer = await _elicit(client, "elicitation.unknown-mode", mode="_x", message="What?")
    failure = f"an unknown mode gave {answer.summary}"
    notes.judge("elicitation.unknown-mode", not answer.ok, answer.summary, failure, answer)
    for mode, params in (
        ("form", _form()),
        ("url", {"mode": "url", "message": "Go", "url": "https://agent.example/x", "elicitationId": "e"}),
    ):
        if not client.advertises(f"elicitation.{mode}"):
            answer = await _elicit(client, rule, **params)
            failure = f"{mode}, which it does not advertise, gave {answer.summary}; expected -32602"
            notes.judge(rule, answer.code == -32602, f"{mode} gave -32602", failure, answer)
    if not notes.for_rule(rule):
        notes.add_not_applicable(rule, "it advertises every mode")
    await fixture.finish_turn(turn)


case.turn("unknown completions", "elicitation/complete with an unknown id", "elicitation.unknown-completion")(
    *2 * [{"jsonrpc": "2.0", "method": "elicitation/complete", "params": {"elicitationId": "never-begun"}}],
    Ping("elicitation.unknown-completion"),
)


@case("elicitation.url-only-on-consent", "elicitation.url")
async def page_is_not_opened(fixture: ClientFixture) -> None:
    """Web page before consent: a URL on this machine."""
    # The page must not be requested before the user accepts.
    rule = "elicitation.url-only-on-consent"
    visits = 0

    def count_visit(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal visits
        visits += 1
        writer.close()

    server = await asyncio.start_server(count_visit, "127.0.0.1", 0)
    try:
        turn = await fixture.start_turn()
        port = server.sockets[0].getsockname()[1]
        page = {
            "mode": "url",
            "message": "Sign in",
            "url": f"http://127.0.0.1:{port}/x",
            "elicitationId": "e1",
        }
        answer = await _elicit(turn.client, rule, **page)
        await turn.client.ping(rule=rule)
        passed = visits == 0 or at(answer.result, "action") == "accept"
        failure = "the page was requested before the user accepted"
        fixture.judge(rule, passed, "the page was not requested", failure, answer)
        await fixture.finish_turn(turn)
    finally:
        server.close()


@case("cancel.notification cancel.pending-permissions")
async def cancel_with_pending_permissions(fixture: ClientFixture) -> None:
    """Cancel with pending permission requests: two requests are pending."""
    rule = "cancel.pending-permissions"
    if not fixture.script.cancels:
        raise CaseUnavailable("the script does not say that an interrupt cancels")
    fixture.require_actions("ask")
    turn = await fixture.start_turn("ask")
    client = turn.client
    requests = [
        client.send_request(
            "session/request_permission",
            permission_params(client, call, path=str(fixture.folder / "notes.txt")),
        )
        for call in ("c1", "c2")
    ]
    await client.ping()
    fixture.process.interrupt()
    cancel = await client.wait_for_call("session/cancel", timeout=fixture.timeouts.soon)
    if cancel is None:
        raise CaseUnavailable("an interrupt did not cancel the turn")
    for request in requests:
        answer = await client.wait_for_answer(request, rule=rule, timeout=fixture.timeouts.soon)
        passed = at(answer.result, "outcome", "outcome") == "cancelled"
        failure = f"a pending permission request got {answer.summary}; expected `cancelled`"
        fixture.judge(rule, passed, "pending requests are answered with `cancelled`", failure, cancel, answer)
    client.end_turn(turn.prompt, "cancelled")
    await fixture.wait_for_exit()


@case("cancel-request.client-own-abort cancel.notification cancel.late-updates-applied")
async def updates_after_cancel(fixture: ClientFixture) -> None:
    """Updates after a cancel: a late update, and a pending terminal wait."""
    rule = "cancel-request.client-own-abort"
    if not fixture.script.cancels:
        raise CaseUnavailable("the script does not say that an interrupt cancels")
    turn = await fixture.start_turn(*fixture.available_actions("allow"))
    client = turn.client
    client.update("tool_call", toolCallId="c1", title="Long", status="in_progress", kind="other")
    pending_wait = None
    if client.advertises("terminal"):
        terminal = await fixture.open_terminal(client, LONG_COMMAND, rule)
        pending_wait = terminal.send_request("wait_for_exit")
    await client.ping()
    fixture.process.interrupt()
    cancel = await client.wait_for_call("session/cancel", timeout=fixture.timeouts.soon)
    if cancel is None:
        raise CaseUnavailable("an interrupt did not cancel the turn")
    client.update("tool_call_update", toolCallId="c1", status="failed")
    client.send_text(ANSWER_TEXT)
    await client.ping(rule="cancel.late-updates-applied")
    client.end_turn(turn.prompt, "cancelled")
    ended = await fixture.wait_for_exit()
    crashed = fixture.process.exit is not None and fixture.process.exit.signal == "SIGSEGV"
    passed = (ended or not fixture.traits.exits_after_turn) and not crashed
    if fixture.traits.prints_messages:
        passed = passed and ANSWER_TEXT in fixture.process.stdout
    failure = f"updates after the cancel are lost: {tail(fixture.process.output)}"
    fixture.judge(
        "cancel.late-updates-applied", passed, "updates after the cancel are processed", failure, cancel
    )
    if pending_wait is None:
        fixture.add_not_applicable(rule, "it offers no terminals")
        return
    answers = [
        line
        for line in client.lines[pending_wait.number :]
        if line.sender == "client" and line.is_answer and line.id == pending_wait.id
    ]
    if answers:
        code = at(answers[0].message, "error", "code")
        passed = code in (None, -32800)
        fixture.judge(rule, passed, "a result or -32800", f"it aborted with {code}", answers[0])


@case("prompt.patient")
async def client_deadline(fixture: ClientFixture) -> None:
    """Deadline: the deadline action."""
    # The client's deadline must cancel the turn.
    rule = "prompt.patient"
    fixture.require_actions("deadline")
    turn = await fixture.start_turn("deadline")
    cancel = await turn.client.wait_for_call("session/cancel", timeout=fixture.timeouts.soon)
    if cancel is not None:
        fixture.add_pass(rule, "the deadline sent session/cancel", cancel)
        turn.client.end_turn(turn.prompt, "cancelled")
    else:
        fixture.add_fail(rule, "the deadline did not send session/cancel", turn.prompt)
    await fixture.wait_for_exit()
