"""Cases: agents that die, stall, answer twice, or send invalid output.

The client must not hang, crash or give consent, and it must end clearly.
"""

import json
from typing import Any, Final

from accord.check.checked_connection import Reply, error_reply, result_reply, substitute
from accord.check.client.agent_responder import AgentExit
from accord.check.client.client_fixture import (
    ANSWER_TEXT,
    ClientCases,
    ClientFixture,
    ClientTurn,
    run_steps,
    tail,
)
from accord.check.client.client_under_test import text_chunk
from accord.check.client.user_decision_cases import is_consent, permission_params
from accord.check.findings import CaseUnavailable, RuleId

case: Final = ClientCases()


_HUGE_BYTES: Final = 8 * 1024 * 1024
_SPLIT_TEXT: Final = "AnswerOfThe你Check"
_INVALID_LINES: Final = (
    *(b"", b"plain words", b"\x1b[31mred\x1b[0m", b"\xff\xfe\x00"),
    *(b"[]", b"5", b"null", b'{"jsonrpc":"2.0"', b"{}"),
)
_REQUEST_COUNT: Final = 2000


async def _check_error_exit(fixture: ClientFixture, rule: RuleId, when: str) -> None:
    """Judge that the client exits with a message and an error code, without a crash."""
    if not fixture.traits.exits_after_turn:
        fixture.add_not_shown(rule, "it keeps running after a turn; only its screen shows the error")
        return
    ended = await fixture.process.wait(fixture.timeouts.answer)
    exit, output = fixture.process.exit, fixture.process.output
    if not ended:
        fixture.add_fail(rule, f"{when}: it hangs; output: {tail(output)}")
    elif exit is not None and exit.signal is not None:
        fixture.add_fail(rule, f"{when}: it crashed, it {exit}; output: {tail(output)}")
    elif exit is not None and exit.code == 0:
        fixture.add_fail(rule, f"{when}: it exited with code 0")
    elif not output.strip():
        fixture.add_fail(rule, f"{when}: it exited without a message")
    else:
        fixture.add_pass(rule, f"{when}: it {exit}, output: {tail(output, 80)}")


def _add_exit(name: str, about: str, method: str, code: int | None) -> None:
    """Add a case: the agent exits instead of answering a method."""

    async def run(fixture: ClientFixture) -> None:
        def exit_now(_: Any) -> Reply:
            raise AgentExit(code)

        fixture.responder.overrides[method] = exit_now
        await fixture.start()
        await fixture.wait_for_connection()
        await _check_error_exit(fixture, "fault-dies", f"exit at {method}")

    case.add(name, about, "fault-dies", run)


@case("fault-stalls")
async def agent_stalls_until_deadline(fixture: ClientFixture) -> None:
    """Agent stalls until the deadline: the deadline action; the agent answers nothing."""
    fixture.require_actions("deadline")
    fixture.responder.ignores_eof = True
    await fixture.start_turn("deadline")
    ended = await fixture.process.wait(fixture.timeouts.turn)
    failure = f"it hangs; output: {tail(fixture.process.output)}"
    fixture.judge("fault-stalls", ended, "its deadline ended the turn", failure)


_add_exit("agent dies at initialize", "the agent exits instead of answering", "initialize", 1)


_add_exit("agent dies at session/new", "the agent is killed", "session/new", None)


@case("framing.agent-dies")
async def killed_in_turn(fixture: ClientFixture) -> None:
    """Agent dies in a turn: the agent is killed after some text."""
    turn = await fixture.start_turn()
    turn.client.send_text("text before the kill")
    await turn.client.ping()
    turn.client.exit()
    await _check_error_exit(fixture, "framing.agent-dies", "killed in a turn")


@case("fault-dies")
async def exit_during_permission_request(fixture: ClientFixture) -> None:
    """Agent dies during a permission request: the agent exits."""
    turn = await fixture.start_turn(*fixture.available_actions("ask"))
    client = turn.client
    client.send_request(
        "session/request_permission", permission_params(client, path=str(fixture.folder / "notes.txt"))
    )
    await client.ping()
    client.exit(0)
    await _check_error_exit(fixture, "fault-dies", "exit during a permission request")


@case("fault-stalls")
async def agent_stalls(fixture: ClientFixture) -> None:
    """Agent stalls: the agent answers nothing; two interrupts."""
    # The agent answers neither the prompt nor the cancel; a second interrupt must end the client.
    if not fixture.script.cancels:
        raise CaseUnavailable("the script does not say that an interrupt cancels")
    fixture.responder.ignores_eof = True
    turn = await fixture.start_turn()
    await turn.client.ping()
    fixture.process.interrupt()
    await turn.client.wait_for_call("session/cancel", timeout=fixture.timeouts.soon)
    fixture.process.interrupt()
    ended = await fixture.process.wait(fixture.timeouts.answer)
    exit = fixture.process.exit
    failure = f"it cannot be interrupted; output: {tail(fixture.process.output)}"
    fixture.judge("fault-stalls", ended, f"the second interrupt ended it: it {exit}", failure)


@case("fault-twice")
async def second_answers(fixture: ClientFixture) -> None:
    """Agent answers twice: each answer is sent again with another value."""
    rule = "fault-twice"
    turn = await fixture.start_turn()
    client = turn.client
    client.reply(client.calls("session/new")[0], result_reply({"sessionId": "another"}))
    fixture.add_pass(rule, "it continues", await client.ping(rule=rule))
    client.send_text(ANSWER_TEXT)
    client.end_turn(turn.prompt)
    client.reply(turn.prompt, error_reply(-32603, "a second answer"))
    await _check_normal_exit(fixture, rule, ANSWER_TEXT)


async def _check_normal_end(
    fixture: ClientFixture, turn: ClientTurn, rule: RuleId, *, error_allowed: bool = False
) -> None:
    """End the turn with a text that the client must print, and judge that the client ends normally.

    `error_allowed`: with any exit code.
    """
    turn.client.send_text(ANSWER_TEXT)
    turn.client.end_turn(turn.prompt)
    await _check_normal_exit(fixture, rule, ANSWER_TEXT, error_allowed)


async def _check_normal_exit(
    fixture: ClientFixture, rule: RuleId, answer_text: str, error_allowed: bool = False
) -> None:
    ended = await fixture.wait_for_exit()
    exit, output = fixture.process.exit, fixture.process.output
    if fixture.traits.exits_after_turn and not ended:
        fixture.add_fail(rule, f"it hangs; output: {tail(output)}")
    elif exit is not None and (
        exit.signal is not None or (exit.code != 0 and fixture.traits.exits_after_turn and not error_allowed)
    ):
        fixture.add_fail(rule, f"it {exit}; output: {tail(output)}")
    elif fixture.traits.prints_messages and answer_text not in fixture.process.stdout:
        fixture.add_fail(rule, f"the text is not printed; output: {tail(output)}")
    else:
        fixture.add_pass(rule, "the turn ended normally")


@case("fault-unknown-ids")
async def unknown_ids(fixture: ClientFixture) -> None:
    """Unknown ids: answers with ids of no request."""
    turn = await fixture.start_turn()
    for id in (9999, "zzz", None, -1):
        for reply in (
            result_reply({"stopReason": "end_turn", "sessionId": "x"}),
            error_reply(-32603, "no such request"),
        ):
            turn.client.send({"jsonrpc": "2.0", "id": id, **reply})
    await turn.client.ping(rule="fault-unknown-ids")
    await _check_normal_end(fixture, turn, "fault-unknown-ids")


@case("fault-types")
async def wrong_types(fixture: ClientFixture) -> None:
    """Wrong types: in updates and in permission requests."""
    # Send wrong types everywhere; a permission request with wrong types must not be allowed.
    rule = "fault-types"
    turn = await fixture.start_turn(*fixture.available_actions("reads"))
    client = turn.client
    session = client.responder.session
    invalid_params: tuple[Any, ...] = (
        5,
        [],
        "x",
        None,
        {"sessionId": 5},
        {"sessionId": session, "update": "x"},
    )
    for params in invalid_params:
        client.send({"jsonrpc": "2.0", "method": "session/update", "params": params})
    for update in (
        {"sessionUpdate": 5},
        {"sessionUpdate": "plan", "entries": "x"},
        {"sessionUpdate": "tool_call"},
    ):
        client.notify("session/update", {"sessionId": session, "update": update})
    client.send({"jsonrpc": "2.0", "method": 5})
    for id in (1.5, True, ["a"]):
        client.send({"jsonrpc": "2.0", "id": id, "result": {}})
    valid_params = permission_params(client)
    call = valid_params["toolCall"]
    changes: tuple[dict[str, Any], ...] = (
        {"options": 5},
        {"options": [{"optionId": 5, "name": [], "kind": "allow_once"}]},
        {"options": [{"optionId": "x 1", "name": "Yes", "kind": ["allow_once"]}]},
        {"toolCall": []},
        {"toolCall": {**call, "toolCallId": 5}},
        {"toolCall": {**call, "kind": {"read": True}}},
    )
    for change in changes:
        answer = await client.call("session/request_permission", {**valid_params, **change}, rule=rule)
        failure = f"{sorted(change)} of a wrong type was approved: {answer.summary}"
        fixture.judge(rule, not is_consent(answer), "wrong types are not consent", failure, answer)
    await _check_normal_end(fixture, turn, rule, error_allowed=True)


@case("fault-huge")
async def huge_message(fixture: ClientFixture) -> None:
    """A huge message: 8 MiB."""
    turn = await fixture.start_turn()
    client = turn.client
    client.update("tool_call", toolCallId="c1", title="Huge input", rawInput={"data": "x" * _HUGE_BYTES})
    client.lines[-1] = client.lines[-1]._replace(data=b"(8 MiB)")
    await client.ping(rule="fault-huge")
    await _check_normal_end(fixture, turn, "fault-huge")


@case("fault-noise")
async def invalid_lines(fixture: ClientFixture) -> None:
    """Lines that are not messages: text, escape sequences, bytes, other JSON."""
    turn = await fixture.start_turn()
    await run_steps(turn.client, _INVALID_LINES)
    turn.client.pipe.write_stderr("a warning\n" * 50)
    turn.client.pipe.write(b"\xef\xbb\xbf\r\n\n")
    await turn.client.ping(rule="fault-noise")
    await _check_normal_end(fixture, turn, "fault-noise")


@case("fault-slow")
async def agent_reads_slowly(fixture: ClientFixture) -> None:
    """Agent reads slowly: 2000 requests while the agent reads nothing."""
    # Send thousands of requests without reading; the answers fill all pipes and must arrive later.
    rule = "fault-slow"
    turn = await fixture.start_turn()
    client = turn.client
    client.pipe.set_reading(False)
    requests = [client.send_request("_check/slow", {"number": number}) for number in range(_REQUEST_COUNT)]
    await fixture.clock.sleep(0.3)
    client.pipe.set_reading(True)
    await client.wait_for_answer(requests[-1], rule=rule)
    answered = {line.id for line in client.lines if line.sender == "client" and line.is_answer}
    missing = [request for request in requests if request.id not in answered]
    failure = f"{len(missing)} of {_REQUEST_COUNT} requests got no answer"
    fixture.judge(rule, not missing, "every request was answered", failure, *missing[:1])
    del client.lines[turn.prompt.number :]  # too many to check
    await _check_normal_end(fixture, turn, rule)


@case("fault-pieces")
async def byte_by_byte_output(fixture: ClientFixture) -> None:
    """Messages in pieces: byte by byte."""
    rule = "fault-pieces"
    turn = await fixture.start_turn()
    chunk = substitute(text_chunk(_SPLIT_TEXT), {"session": fixture.responder.session})
    for byte in json.dumps(chunk, ensure_ascii=False).encode() + b"\n":
        turn.client.pipe.write(bytes([byte]))
    await turn.client.ping(rule=rule)
    turn.client.end_turn(turn.prompt)
    await _check_normal_exit(fixture, rule, _SPLIT_TEXT)


@case("fault-reordered")
async def answers_in_other_order(fixture: ClientFixture) -> None:
    """Answers in another order: the turn ends before the agent's request is answered."""
    # End the turn before the agent's own request is answered, and send an update after it.
    turn = await fixture.start_turn()
    client = turn.client
    client.send_text(ANSWER_TEXT)
    client.send_request(
        "session/request_permission", permission_params(client, path=str(fixture.folder / "notes.txt"))
    )
    client.end_turn(turn.prompt)
    client.send_text("text after the end of the turn")
    ended = await fixture.wait_for_exit()
    exit = fixture.process.exit
    passed = (ended or not fixture.traits.exits_after_turn) and (exit is None or exit.signal is None)
    failure = f"it hangs or crashed: {tail(fixture.process.output)}"
    fixture.judge("fault-reordered", passed, "the turn ended", failure)
