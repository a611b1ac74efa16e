"""Faults: the agent dies, stalls, repeats itself, babbles. Nobody hangs, crashes or consents, and the end is clear."""

import json
from typing import Any, Final

from accord.check.client.agent_responder import AgentExit, Reply, Server
from accord.check.client.client_fixture import ClientCase, ClientFixture, tail
from accord.check.client.client_under_test import ClientUnderTest
from accord.check.client.user_decision_cases import consents, permission
from accord.check.findings import CaseUnavailable, Rule

_HUGE: Final = 8 * 1024 * 1024
_MANY: Final = 2000


def _dies(code: int | None = None) -> Server:
    def server(_: Any) -> Reply:
        raise AgentExit(code)

    return server


async def _clear_end(stage: ClientFixture, rules: tuple[Rule, ...], when: str) -> None:
    """The client has to end by itself, with a word, and not by a crash."""
    if not stage.traits.leaves:
        for rule in rules:
            stage.ledger.unseen(rule, "it stays after a turn; whether it tells, only its screen shows")
        return
    ended = await stage.client.wait(stage.bounds.answer)
    exit, output = stage.client.exit, stage.client.output
    for rule in rules:
        if not ended:
            stage.ledger.broken(rule, f"{when}: it hangs; it says: {tail(output)}")
        elif exit is not None and exit.signal is not None:
            stage.ledger.broken(rule, f"{when}: it crashed, it {exit}; it says: {tail(output)}")
        elif exit is not None and exit.code == 0:
            stage.ledger.broken(rule, f"{when}: it ended as if all were well")
        elif not output.strip():
            stage.ledger.broken(rule, f"{when}: it ended without a word")
        else:
            stage.ledger.kept(rule, f"{when}: it {exit}, and says: {tail(output, 80)}")


async def _dies_at(stage: ClientFixture, method: str, code: int | None) -> None:
    stage.desk.answers[method] = _dies(code)
    await stage.start()
    await stage.agent()
    await _clear_end(stage, ("fault-dies",), f"dead at {method}")


async def dies_first(stage: ClientFixture) -> None:
    await _dies_at(stage, "initialize", 1)


async def dies_opening(stage: ClientFixture) -> None:
    await _dies_at(stage, "session/new", None)


async def dies_in_turn(stage: ClientFixture) -> None:
    turn = await stage.turn()
    turn.part.say("some words")
    await turn.part.barrier()
    turn.part.die()
    await _clear_end(stage, (37,), "killed in a turn")


async def dies_asking(stage: ClientFixture) -> None:
    turn = await stage.turn(*stage.if_can("ask"))
    part = turn.part
    part.ask("session/request_permission", permission(part, path=str(stage.folder / "notes.txt")))
    await part.barrier()
    part.die(0)
    await _clear_end(stage, ("fault-dies",), "gone while it asked")


async def stalls(stage: ClientFixture) -> None:
    """No answer to the prompt, nor to the cancel. Whoever waits can still get away."""
    if not stage.script.cancels:
        raise CaseUnavailable("the script does not say that an interrupt cancels")
    stage.desk.stays = True
    turn = await stage.turn()
    await turn.part.barrier()
    stage.client.interrupt()
    await turn.part.hears("session/cancel", bound=stage.bounds.soon)
    stage.client.interrupt()
    ended = await stage.client.wait(stage.bounds.answer)
    exit = stage.client.exit
    bad = f"it cannot be stopped; it says: {tail(stage.client.output)}"
    stage.ledger.judge("fault-stalls", ended, f"the second interrupt ended it: it {exit}", bad)


async def stalls_silently(stage: ClientFixture) -> None:
    """The same, with a client that gives up by itself."""
    stage.need("deadline")
    stage.desk.stays = True
    await stage.turn("deadline")
    ended = await stage.client.wait(stage.bounds.turn)
    bad = f"it hangs; it says: {tail(stage.client.output)}"
    stage.ledger.judge("fault-stalls", ended, "it gave up by itself", bad)


async def twice(stage: ClientFixture) -> None:
    """Every answer comes twice, the second one otherwise."""
    turn = await stage.turn()
    part = turn.part
    opened = next(line for line in part.lines if line.method == "session/new")
    part.send({"jsonrpc": "2.0", "id": opened.id, "result": {"sessionId": "another"}})
    answer = await part.barrier(owes="fault-twice")
    stage.ledger.kept("fault-twice", "it goes on", answer.shown)
    part.say("marigold")
    part.stop(turn.prompt)
    part.reply(turn.prompt, {"error": {"code": -32603, "message": "never mind"}})
    await _good_end(stage, "fault-twice", "marigold")


async def _good_end(stage: ClientFixture, rule: Rule, marker: str, *, refusing: bool = False) -> None:
    """The client has to end as after any good turn. `refusing`: it may tell that it refused something."""
    ended = await stage.over()
    exit, output = stage.client.exit, stage.client.output
    if stage.traits.leaves and not ended:
        stage.ledger.broken(rule, f"it hangs; it says: {tail(output)}")
    elif exit is not None and (
        exit.signal is not None or (exit.code != 0 and stage.traits.leaves and not refusing)
    ):
        stage.ledger.broken(rule, f"it {exit}; it says: {tail(output)}")
    elif stage.traits.shows and marker not in stage.client.printed:
        stage.ledger.broken(rule, f"what was said is not shown; it says: {tail(output)}")
    else:
        stage.ledger.kept(rule, "the turn ended well")


async def unknown_ids(stage: ClientFixture) -> None:
    turn = await stage.turn()
    part = turn.part
    for id in (9999, "zzz", None, -1):
        part.send({"jsonrpc": "2.0", "id": id, "result": {"stopReason": "end_turn", "sessionId": "x"}})
        part.send({"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": "nobody asked"}})
    await part.barrier(owes="fault-unknown-ids")
    part.say("marigold")
    part.stop(turn.prompt)
    await _good_end(stage, "fault-unknown-ids", "marigold")


async def types(stage: ClientFixture) -> None:
    """Wrong types in everything that is sent; a permission with them is no consent, whatever the policy."""
    turn = await stage.turn(*stage.if_can("reads"))
    part = turn.part
    session = part.desk.session
    shapes: tuple[Any, ...] = (5, [], "x", None, {"sessionId": 5}, {"sessionId": session, "update": "x"})
    for params in shapes:
        part.send({"jsonrpc": "2.0", "method": "session/update", "params": params})
    for update in (
        {"sessionUpdate": 5},
        {"sessionUpdate": "plan", "entries": "x"},
        {"sessionUpdate": "tool_call"},
    ):
        part.notify("session/update", {"sessionId": session, "update": update})
    part.send({"jsonrpc": "2.0", "method": 5})
    for id in (1.5, True, ["a"]):
        part.send({"jsonrpc": "2.0", "id": id, "result": {}})
    good = permission(part)
    call = good["toolCall"]
    changes: tuple[dict[str, Any], ...] = (
        {"options": 5},
        {"options": [{"optionId": 5, "name": [], "kind": "allow_once"}]},
        {"options": [{"optionId": "x 1", "name": "Yes", "kind": ["allow_once"]}]},
        {"toolCall": []},
        {"toolCall": {**call, "toolCallId": 5}},
        {"toolCall": {**call, "kind": {"read": True}}},
    )
    for change in changes:
        answer = await part.call("session/request_permission", {**good, **change}, owes="fault-types")
        bad = f"{sorted(change)} of a wrong type was approved: {answer.says}"
        stage.ledger.judge("fault-types", not consents(answer), "no consent", bad, answer.shown)
    part.say("marigold")
    part.stop(turn.prompt)
    await _good_end(stage, "fault-types", "marigold", refusing=True)


async def huge(stage: ClientFixture) -> None:
    turn = await stage.turn()
    part = turn.part
    part.update("tool_call", toolCallId="c1", title="Much", rawInput={"data": "x" * _HUGE})
    part.lines[-1] = part.lines[-1]._replace(data=b"(8 MiB)")
    await part.barrier(owes="fault-huge")
    part.say("marigold")
    part.stop(turn.prompt)
    await _good_end(stage, "fault-huge", "marigold")


async def noise(stage: ClientFixture) -> None:
    turn = await stage.turn()
    part = turn.part
    for line in (
        b"",
        b"plain words",
        b"\x1b[31mred\x1b[0m",
        b"\xff\xfe\x00",
        b"[]",
        b"5",
        b"null",
        b'{"jsonrpc":"2.0"',
        b"{}",
    ):
        part.send(line)
    part.wire.complain("a warning\n" * 50)
    part.wire.write(b"\xef\xbb\xbf\r\n\n")
    await part.barrier(owes="fault-noise")
    part.say("marigold")
    part.stop(turn.prompt)
    await _good_end(stage, "fault-noise", "marigold")


async def slow(stage: ClientFixture) -> None:
    """Thousands of requests while nothing is read: the answers fill every pipe, and have to come in the end."""
    turn = await stage.turn()
    part = turn.part
    part.wire.hear(False)
    asked = [part.ask("_check/slow", {"number": number}) for number in range(_MANY)]
    await stage.clock.sleep(0.3)
    part.wire.hear(True)
    await part.answer(asked[-1], owes="fault-slow")
    answered = {line.id for line in part.lines if line.sender == "client" and line.is_answer}
    missing = [one for one in asked if one.id not in answered]
    bad = f"{len(missing)} of {_MANY} requests got no answer"
    stage.ledger.judge(
        "fault-slow", not missing, "every answer came", bad, [one.shown for one in missing[:1]]
    )
    del part.lines[turn.prompt.number :]  # far too many to look at one by one
    part.say("marigold")
    part.stop(turn.prompt)
    await _good_end(stage, "fault-slow", "marigold")


async def pieces(stage: ClientFixture) -> None:
    turn = await stage.turn()
    part = turn.part
    _in_pieces(part, "mari你gold")
    await part.barrier(owes="fault-pieces")
    part.stop(turn.prompt)
    await _good_end(stage, "fault-pieces", "mari你gold")


def _in_pieces(part: ClientUnderTest, text: str) -> None:
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    note = {
        "jsonrpc": "2.0",
        "method": "session/update",
        "params": {"sessionId": part.desk.session, "update": update},
    }
    for byte in json.dumps(note, ensure_ascii=False).encode() + b"\n":
        part.wire.write(bytes([byte]))


async def reordered(stage: ClientFixture) -> None:
    """The turn is answered before the agent's own request is, and an update comes after the end."""
    turn = await stage.turn()
    part = turn.part
    part.say("marigold")
    part.ask("session/request_permission", permission(part, path=str(stage.folder / "notes.txt")))
    part.stop(turn.prompt)
    part.say("too late")
    ended = await stage.over()
    exit = stage.client.exit
    fine = (ended or not stage.traits.leaves) and (exit is None or exit.signal is None)
    bad = f"it hangs or crashed: {tail(stage.client.output)}"
    stage.ledger.judge("fault-reordered", fine, "the turn ended", bad)


CASES: Final = (
    ClientCase(
        "stalls, and nobody is there", "the client gives up by itself", ("fault-stalls",), stalls_silently
    ),
    ClientCase(
        "dies at once", "the agent exits instead of answering initialize", ("fault-dies",), dies_first
    ),
    ClientCase("dies opening a session", "killed at session/new", ("fault-dies",), dies_opening),
    ClientCase("dies in a turn", "killed in the middle of it", (37,), dies_in_turn),
    ClientCase("dies while it asks", "with a permission pending", ("fault-dies",), dies_asking),
    ClientCase("stalls", "no answer to anything, until somebody has enough", ("fault-stalls",), stalls),
    ClientCase("answers twice", "each answer again, otherwise", ("fault-twice",), twice),
    ClientCase("unknown ids", "answers that nobody asked for", ("fault-unknown-ids",), unknown_ids),
    ClientCase("wrong types", "in updates and in permissions", ("fault-types",), types),
    ClientCase("a huge message", "8 MiB", ("fault-huge",), huge),
    ClientCase(
        "noise between messages", "words, escapes, bytes, JSON that is no message", ("fault-noise",), noise
    ),
    ClientCase("reads slowly", "2000 requests while nothing is read", ("fault-slow",), slow),
    ClientCase("messages in pieces", "byte by byte", ("fault-pieces",), pieces),
    ClientCase(
        "answers in another order", "the turn ends before its own question", ("fault-reordered",), reordered
    ),
)
