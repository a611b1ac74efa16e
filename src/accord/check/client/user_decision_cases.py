"""Cases: permissions, forms and web pages, cancellation."""

import asyncio
from typing import Any, Final

from accord.check.checked_connection import CallAnswer
from accord.check.client.client_fixture import ClientCase, ClientFixture, tail
from accord.check.client.client_under_test import ClientUnderTest
from accord.check.client.workspace_cases import LONG_COMMAND, open_terminal
from accord.check.findings import CaseUnavailable, Rule
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


def consents(answer: CallAnswer) -> bool:
    """Whether the answer selects an allow option."""
    outcome = at(answer.result, "outcome")
    chosen = at(outcome, "optionId")
    allowing = [option["optionId"] for option in OPTIONS if option["kind"].startswith("allow")]
    return at(outcome, "outcome") == "selected" and chosen in allowing


async def permission_options(fixture: ClientFixture) -> None:
    """Run with every permission policy of the script."""
    for action in fixture.available_actions("allow", "reject", "reads") or ("",):
        turn = await fixture.start_turn(*([action] if action else []))
        client = turn.client
        answer = await client.barrier(rule=158)
        fixture.notes.add_pass(158, "the agent was answered within a turn", answer.evidence)
        for path in ("notes.txt", "other.txt"):
            request = permission_params(client, f"call {path}", path=str(fixture.folder / path))
            client.update("tool_call", **request["toolCall"])
            answer = await client.call("session/request_permission", request, rule=196)
            served = answer.code != -32601
            bad = "session/request_permission is unknown to it"
            fixture.notes.judge(196, served, "it answered", bad, answer.evidence)
            if action == "reject" and consents(answer):
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
        202, "both were answered", [frames for answer in answers for frames in answer.evidence]
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
        passed = (chosen == "x 1") if expected else not consents(answer)
        bad = f"kind {kind!r} was answered with {answer.summary}"
        fixture.notes.judge(389, passed, "only official kinds, only once", bad, answer.evidence)
    await fixture.finish_turn(turn)


PERMISSION_CASES: Final = (
    ClientCase(
        "permission",
        "four options with odd ids, under every policy there is",
        (158, 196, 197),
        permission_options,
    ),
    ClientCase("two permissions at once", "both pending at the same time", (202,), concurrent_permissions),
    ClientCase("automatic reading", "official and other kinds of tool calls", (389,), read_only_policy),
)


_ACTIONS: Final = ("accept", "decline", "cancel")


def _form(pattern: str | None = None, default: str = "blue") -> dict[str, Any]:
    field: dict[str, Any] = {"type": "string", "title": "Colour", "default": default}
    if pattern is not None:
        field["pattern"] = pattern
    schema = {"type": "object", "properties": {"colour": field}, "required": ["colour"]}
    return {"mode": "form", "message": "Which colour?", "requestedSchema": schema}


async def _ask(client: ClientUnderTest, rule: Rule, **params: Any) -> CallAnswer:
    return await client.call(
        "elicitation/create", {"sessionId": client.responder.session, **params}, rule=rule
    )


async def elicitations(fixture: ClientFixture) -> None:
    turn = await fixture.start_turn()
    client, notes = turn.client, fixture.notes
    if client.advertises("elicitation.form"):
        answer = await _ask(client, 271, **_form())
        action = at(answer.result, "action")
        bad = f"the form gave {answer.summary}"
        notes.judge(271, action in _ACTIONS, f"{action}", bad, answer.evidence)
        answer = await _ask(client, 280, **_form("(a+)+$", "a" * 40 + "!"))
        alive = await client.barrier(rule=280)
        notes.add_pass(280, "it continues", [*answer.evidence, *alive.evidence])
    answer = await _ask(client, 277, mode="_x", message="What?")
    notes.judge(277, not answer.ok, answer.summary, f"an unknown mode gave {answer.summary}", answer.evidence)
    for mode, params in (
        ("form", _form()),
        ("url", {"mode": "url", "message": "Go", "url": "https://agent.example/x", "elicitationId": "e"}),
    ):
        if not client.advertises(f"elicitation.{mode}"):
            answer = await _ask(client, 261, **params)
            bad = f"{mode}, which it does not advertise, gave {answer.summary}; expected -32602"
            notes.judge(261, answer.code == -32602, f"{mode} gave -32602", bad, answer.evidence)
    if not notes.for_rule(261):
        notes.add_not_applicable(261, "it advertises every mode")
    await fixture.finish_turn(turn)


async def unknown_completions(fixture: ClientFixture) -> None:
    turn = await fixture.start_turn()
    for _ in range(2):
        turn.client.notify("elicitation/complete", {"elicitationId": "never-begun"})
    answer = await turn.client.barrier(rule=270)
    fixture.notes.add_pass(270, "it continues", answer.evidence)
    await fixture.finish_turn(turn, "marigold", (270,))


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
        answer = await _ask(turn.client, 278, **page)
        await turn.client.barrier(rule=278)
        passed = visits == 0 or at(answer.result, "action") == "accept"
        bad = "the page was requested before the user accepted"
        fixture.notes.judge(278, passed, "the page was not requested", bad, answer.evidence)
        await fixture.finish_turn(turn)
    finally:
        server.close()


ELICITATION_CASES: Final = (
    ClientCase(
        "questions",
        "a form, a slow pattern, an unknown mode, modes it lacks",
        (261, 271, 277, 280),
        elicitations,
        "elicitation",
    ),
    ClientCase(
        "completions of nothing", "elicitation/complete for what never began", (270,), unknown_completions
    ),
    ClientCase(
        "a page that is not opened",
        "a web address on this machine",
        (278,),
        page_is_not_opened,
        "elicitation.url",
    ),
)


async def cancel_with_pending_permissions(fixture: ClientFixture) -> None:
    """Two permissions are pending while the turn is cancelled."""
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
    await client.barrier()
    fixture.process.interrupt()
    cancel = await client.wait_for_call("session/cancel", timeout=fixture.timeouts.soon)
    if cancel is None:
        raise CaseUnavailable("an interrupt did not cancel the turn")
    for one in requests:
        answer = await client.wait_for_answer(one, rule=165, timeout=fixture.timeouts.soon)
        passed = at(answer.result, "outcome", "outcome") == "cancelled"
        bad = f"a pending permission got {answer.summary}; expected cancelled"
        fixture.notes.judge(165, passed, "cancelled", bad, [cancel.evidence, *answer.evidence])
    client.end_turn(turn.prompt, "cancelled")
    await fixture.wait_for_exit()


async def updates_after_cancel(fixture: ClientFixture) -> None:
    """Updates arrive after the cancel, while a wait for a terminal is pending."""
    if not fixture.script.cancels:
        raise CaseUnavailable("the script does not say that an interrupt cancels")
    turn = await fixture.start_turn(*fixture.available_actions("allow"))
    client = turn.client
    client.update("tool_call", toolCallId="c1", title="Long", status="in_progress", kind="other")
    waiting = None
    if client.advertises("terminal"):
        terminal = await open_terminal(fixture, client, LONG_COMMAND, 55)
        waiting = terminal.send_request("wait_for_exit")
    await client.barrier()
    fixture.process.interrupt()
    cancel = await client.wait_for_call("session/cancel", timeout=fixture.timeouts.soon)
    if cancel is None:
        raise CaseUnavailable("an interrupt did not cancel the turn")
    client.update("tool_call_update", toolCallId="c1", status="failed")
    client.say("calendula")
    await client.barrier(rule=167)
    client.end_turn(turn.prompt, "cancelled")
    ended = await fixture.wait_for_exit()
    crashed = fixture.process.exit is not None and fixture.process.exit.signal == "SIGSEGV"
    passed = (ended or not fixture.traits.exits_after_turn) and not crashed
    if fixture.traits.prints_messages:
        passed = passed and "calendula" in fixture.process.printed
    bad = f"updates after the cancel are lost: {tail(fixture.process.output)}"
    fixture.notes.judge(167, passed, "updates after the cancel are processed", bad, [cancel.evidence])
    if waiting is None:
        fixture.notes.add_not_applicable(55, "it offers no terminals")
        return
    answers = [
        line
        for line in client.lines[waiting.number :]
        if line.sender == "client" and line.is_answer and line.id == waiting.id
    ]
    if answers:
        code = at(answers[0].message, "error", "code")
        good = code in (None, -32800)
        fixture.notes.judge(55, good, "a result or -32800", f"it aborted with {code}", [answers[0].evidence])


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
        "cancelled while it is asked",
        "two permissions are pending",
        (160, 165),
        cancel_with_pending_permissions,
    ),
    ClientCase(
        "after a cancel", "a late update, and a wait that is pending", (55, 160, 167), updates_after_cancel
    ),
    ClientCase("deadline", "the client has a deadline", (159,), client_deadline),
)


CASES: Final = (
    *PERMISSION_CASES,
    *ELICITATION_CASES,
    *CANCEL_CASES,
)
