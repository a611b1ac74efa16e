"""Cases: permissions, forms and web pages, cancellation."""

import asyncio
from typing import Any, Final

from accord.check.checked_connection import CallAnswer
from accord.check.client.client_fixture import ANSWER_TEXT, ClientCase, ClientFixture, tail
from accord.check.client.client_under_test import ClientUnderTest
from accord.check.client.workspace_cases import LONG_COMMAND, open_terminal
from accord.check.findings import CaseUnavailable, RuleId
from accord.trace.trace_steps import at

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


async def permission_options(fixture: ClientFixture) -> None:
    """Run with every permission policy of the script."""
    for action in fixture.available_actions("allow", "reject", "reads") or ("",):
        turn = await fixture.start_turn(*([action] if action else []))
        client = turn.client
        answer = await client.ping(rule=158)
        fixture.notes.add_pass(158, "it answers requests during a turn", answer.evidence)
        for path in ("notes.txt", "other.txt"):
            request = permission_params(client, f"call {path}", path=str(fixture.folder / path))
            client.update("tool_call", **request["toolCall"])
            answer = await client.call("session/request_permission", request, rule=196)
            served = answer.code != -32601
            failure = "session/request_permission is unknown to it"
            fixture.notes.judge(196, served, "it answered", failure, answer.evidence)
            if action == "reject" and is_consent(answer):
                fixture.notes.add_fail(
                    197, "it allowed a request, but its policy is to reject", answer.evidence
                )
        await fixture.finish_turn(turn)
        await fixture.process.end()


async def concurrent_permissions(fixture: ClientFixture) -> None:
    """Two requests at the same time must both be answered."""
    turn = await fixture.start_turn()
    client = turn.client
    first = client.send_request("session/request_permission", permission_params(client, "c1"), id="first")
    second = client.send_request("session/request_permission", permission_params(client, "c2"), id="second")
    answers = [await client.wait_for_answer(second, rule=202), await client.wait_for_answer(first, rule=202)]
    fixture.notes.add_pass(
        202, "both were answered", [line for answer in answers for line in answer.evidence]
    )
    await fixture.finish_turn(turn)


async def read_only_policy(fixture: ClientFixture) -> None:
    """Only the official kind `read` may be allowed automatically, and only once."""
    fixture.require_actions("reads")
    turn = await fixture.start_turn("reads")
    client = turn.client
    path = str(fixture.folder / "notes.txt")
    kinds = (("read", True), ("file", False), ("Read", False), ("edit", False), (None, False))
    for number, (kind, expected) in enumerate(kinds):
        request = permission_params(client, f"k{number}", kind=kind, title="Read notes.txt", path=path)
        if kind is None:
            del request["toolCall"]["kind"]
        answer = await client.call("session/request_permission", request, rule=196)
        chosen = at(answer.result, "outcome", "optionId")
        passed = (chosen == "x 1") if expected else not is_consent(answer)
        failure = f"kind {kind!r} was answered with {answer.summary}"
        fixture.notes.judge(
            389, passed, "it allows only the kind `read`, and only once", failure, answer.evidence
        )
    await fixture.finish_turn(turn)


PERMISSION_CASES: Final = (
    ClientCase(
        "permission requests",
        "four options with unusual ids, under every policy of the script",
        (158, 196, 197),
        permission_options,
    ),
    ClientCase(
        "two permission requests at once", "both are pending at the same time", (202,), concurrent_permissions
    ),
    ClientCase("read-only policy", "official and other kinds of tool calls", (389,), read_only_policy),
)


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


async def elicitations(fixture: ClientFixture) -> None:
    turn = await fixture.start_turn()
    client, notes = turn.client, fixture.notes
    if client.advertises("elicitation.form"):
        answer = await _elicit(client, 271, **_form())
        action = at(answer.result, "action")
        failure = f"the form gave {answer.summary}"
        notes.judge(271, action in _ACTIONS, f"{action}", failure, answer.evidence)
        answer = await _elicit(client, 280, **_form("(a+)+$", "a" * 40 + "!"))
        ping_answer = await client.ping(rule=280)
        notes.add_pass(280, "it continues", [*answer.evidence, *ping_answer.evidence])
    answer = await _elicit(client, 277, mode="_x", message="What?")
    notes.judge(277, not answer.ok, answer.summary, f"an unknown mode gave {answer.summary}", answer.evidence)
    for mode, params in (
        ("form", _form()),
        ("url", {"mode": "url", "message": "Go", "url": "https://agent.example/x", "elicitationId": "e"}),
    ):
        if not client.advertises(f"elicitation.{mode}"):
            answer = await _elicit(client, 261, **params)
            failure = f"{mode}, which it does not advertise, gave {answer.summary}; expected -32602"
            notes.judge(261, answer.code == -32602, f"{mode} gave -32602", failure, answer.evidence)
    if not notes.for_rule(261):
        notes.add_not_applicable(261, "it advertises every mode")
    await fixture.finish_turn(turn)


async def unknown_completions(fixture: ClientFixture) -> None:
    turn = await fixture.start_turn()
    for _ in range(2):
        turn.client.notify("elicitation/complete", {"elicitationId": "never-begun"})
    answer = await turn.client.ping(rule=270)
    fixture.notes.add_pass(270, "it continues", answer.evidence)
    await fixture.finish_turn(turn, ANSWER_TEXT, (270,))


async def page_is_not_opened(fixture: ClientFixture) -> None:
    """The page must not be requested before the user accepts."""
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
        answer = await _elicit(turn.client, 278, **page)
        await turn.client.ping(rule=278)
        passed = visits == 0 or at(answer.result, "action") == "accept"
        failure = "the page was requested before the user accepted"
        fixture.notes.judge(278, passed, "the page was not requested", failure, answer.evidence)
        await fixture.finish_turn(turn)
    finally:
        server.close()


ELICITATION_CASES: Final = (
    ClientCase(
        "elicitations",
        "a form, a slow pattern, an unknown mode, unsupported modes",
        (261, 271, 277, 280),
        elicitations,
        "elicitation",
    ),
    ClientCase("unknown completions", "elicitation/complete with an unknown id", (270,), unknown_completions),
    ClientCase(
        "web page before consent",
        "a URL on this machine",
        (278,),
        page_is_not_opened,
        "elicitation.url",
    ),
)


async def cancel_with_pending_permissions(fixture: ClientFixture) -> None:
    """Two permissions are pending while the turn is canceled."""
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
        answer = await client.wait_for_answer(request, rule=165, timeout=fixture.timeouts.soon)
        passed = at(answer.result, "outcome", "outcome") == "cancelled"
        failure = f"a pending permission request got {answer.summary}; expected `cancelled`"
        fixture.notes.judge(
            165,
            passed,
            "pending requests are answered with `cancelled`",
            failure,
            [cancel.evidence, *answer.evidence],
        )
    client.end_turn(turn.prompt, "cancelled")
    await fixture.wait_for_exit()


async def updates_after_cancel(fixture: ClientFixture) -> None:
    """Updates arrive after the cancel, while a wait for a terminal is pending."""
    if not fixture.script.cancels:
        raise CaseUnavailable("the script does not say that an interrupt cancels")
    turn = await fixture.start_turn(*fixture.available_actions("allow"))
    client = turn.client
    client.update("tool_call", toolCallId="c1", title="Long", status="in_progress", kind="other")
    pending_wait = None
    if client.advertises("terminal"):
        terminal = await open_terminal(fixture, client, LONG_COMMAND, 55)
        pending_wait = terminal.send_request("wait_for_exit")
    await client.ping()
    fixture.process.interrupt()
    cancel = await client.wait_for_call("session/cancel", timeout=fixture.timeouts.soon)
    if cancel is None:
        raise CaseUnavailable("an interrupt did not cancel the turn")
    client.update("tool_call_update", toolCallId="c1", status="failed")
    client.send_text(ANSWER_TEXT)
    await client.ping(rule=167)
    client.end_turn(turn.prompt, "cancelled")
    ended = await fixture.wait_for_exit()
    crashed = fixture.process.exit is not None and fixture.process.exit.signal == "SIGSEGV"
    passed = (ended or not fixture.traits.exits_after_turn) and not crashed
    if fixture.traits.prints_messages:
        passed = passed and ANSWER_TEXT in fixture.process.stdout
    failure = f"updates after the cancel are lost: {tail(fixture.process.output)}"
    fixture.notes.judge(167, passed, "updates after the cancel are processed", failure, [cancel.evidence])
    if pending_wait is None:
        fixture.notes.add_not_applicable(55, "it offers no terminals")
        return
    answers = [
        line
        for line in client.lines[pending_wait.number :]
        if line.sender == "client" and line.is_answer and line.id == pending_wait.id
    ]
    if answers:
        code = at(answers[0].message, "error", "code")
        passed = code in (None, -32800)
        fixture.notes.judge(
            55, passed, "a result or -32800", f"it aborted with {code}", [answers[0].evidence]
        )


async def client_deadline(fixture: ClientFixture) -> None:
    """The client's deadline must cancel the turn."""
    fixture.require_actions("deadline")
    turn = await fixture.start_turn("deadline")
    cancel = await turn.client.wait_for_call("session/cancel", timeout=fixture.timeouts.soon)
    if cancel is not None:
        fixture.notes.add_pass(159, "the deadline sent session/cancel", [cancel.evidence])
        turn.client.end_turn(turn.prompt, "cancelled")
    else:
        fixture.notes.add_fail(159, "the deadline did not send session/cancel", [turn.prompt.evidence])
    await fixture.wait_for_exit()


CANCEL_CASES: Final = (
    ClientCase(
        "cancel with pending permission requests",
        "two requests are pending",
        (160, 165),
        cancel_with_pending_permissions,
    ),
    ClientCase(
        "updates after a cancel",
        "a late update, and a pending terminal wait",
        (55, 160, 167),
        updates_after_cancel,
    ),
    ClientCase("deadline", "the deadline action", (159,), client_deadline),
)


CASES: Final = (
    *PERMISSION_CASES,
    *ELICITATION_CASES,
    *CANCEL_CASES,
)
