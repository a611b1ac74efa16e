"""Clients that misbehave: they die, stall, answer twice or wrongly, send noise and huge lines, or do not read. The agent goes
on or ends; it never hangs, and nothing of this is consent.
"""

from contextlib import suppress
from typing import Any, Final

from accord.check.agent.agent_fixture import EVERYTHING, AgentCase, AgentFixture
from accord.check.agent.agent_under_test import AgentUnderTest
from accord.check.agent.client_responder import HOLD, Reply, allow, reject, result
from accord.check.agent.permission_cases import answered, effects, permitted
from accord.check.checked_connection import WireLine
from accord.check.findings import CaseUnavailable

_HUGE: Final = 4 * 1024 * 1024
_NOISE: Final = (
    b"",
    b"   ",
    b"hello?",
    b"\xff\xfe\x00",
    b"null",
    b'"text"',
    b"[" * 5000,
    b'{"jsonrpc":"2.0","id":',
)
_WRONG: Final[tuple[Any, ...]] = (
    None,
    5,
    "yes",
    [],
    {},
    {"outcome": 5},
    {"outcome": {"outcome": "selected", "optionId": 7}},
)


def _hold(line: WireLine) -> Reply:
    return HOLD


async def _question(stage: AgentFixture, talk: AgentUnderTest, name: str) -> tuple[WireLine, WireLine, str]:
    """The permission act, up to its question: the prompt, the question and the session."""
    session = await stage.session(talk)
    talk.desk.answers["session/request_permission"] = _hold
    asked = talk.prompt(session, stage.act("permission").filled(file=name))
    question = await stage.question(talk, asked)
    talk.desk.answers["session/request_permission"] = reject  # whatever it asks next
    return asked, question, session


async def _left(stage: AgentFixture, phase: str, talk: AgentUnderTest) -> None:
    told = await talk.leave()
    stage.ledger.judge("fault-dies", not told, f"left {phase}, it ends", f"left {phase}: {told}")


async def dying(stage: AgentFixture) -> None:
    """The client is gone: at once, after the handshake, in a turn, at a question."""
    await _left(stage, "at once", await stage.connect())
    await _left(stage, "after the handshake", await stage.begin())
    if stage.can("busy"):
        with suppress(CaseUnavailable):
            talk, session = await stage.open()
            await stage.busy(talk, session)
            await _left(stage, "in a turn", talk)
    if stage.can("permission"):
        with suppress(CaseUnavailable):
            talk = await stage.begin()
            await _question(stage, talk, "gone.txt")
            await _left(stage, "at a question", talk)


async def stalling(stage: AgentFixture) -> None:
    talk = await stage.begin()
    asked, question, session = await _question(stage, talk, "stalled.txt")
    await talk.barrier(owes="fault-stalls")
    talk.cancel(session)
    turn = await talk.turn_of(asked, owes="fault-stalls", bound=stage.bounds.soon)
    done = effects(talk, question.number, stage.folder / "stalled.txt")
    shown = [question.shown, turn.answer.line.shown]
    bad = "a question without an answer counts as a yes"
    stage.ledger.judge("fault-stalls", not done, "it goes on, and a cancel ends the turn", bad, shown)


async def twice(stage: AgentFixture) -> None:
    talk = await permitted(stage)
    asked, question, _ = await _question(stage, talk, "twice.txt")
    for reply in (reject(question), allow(question)):
        if reply is not None:
            talk.reply(question, reply)
    await talk.turn_of(asked, owes="fault-twice")
    await talk.barrier(owes="fault-twice")
    done = effects(talk, question.number, stage.folder / "twice.txt")
    bad = "a second answer counts"
    stage.ledger.judge("fault-twice", not done, "only the first answer counts", bad, [question.shown])


async def unknown_ids(stage: AgentFixture) -> None:
    talk = await stage.begin()
    for id in (12345, "nobody", None, 1.5):
        talk.send({"jsonrpc": "2.0", "id": id, "result": {}})
        talk.send({"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": "no"}})
    answer = await talk.barrier(owes="fault-unknown-ids")
    stage.ledger.kept("fault-unknown-ids", "it goes on", answer.shown)


async def wrong_types(stage: AgentFixture) -> None:
    talk = await permitted(stage)
    for number, value in enumerate(_WRONG):
        name = f"wrong-{number}.txt"
        turn, questions, done = await answered(
            stage, name, lambda line, value=value: result(value), talk=talk
        )
        shown = [questions[0].shown, *(line.shown for line in done[:2]), turn.answer.line.shown]
        bad = f"the answer {value!r} counts as a yes"
        stage.ledger.judge("fault-types", not done, "wrong answers are no yes", bad, shown)
    await talk.barrier(owes="fault-types")


async def huge(stage: AgentFixture) -> None:
    talk = await stage.begin()
    await talk.call("_check/huge", {"text": "x" * _HUGE}, owes="fault-huge")
    answer = await talk.barrier(owes="fault-huge")
    stage.ledger.kept("fault-huge", f"a line of {_HUGE // 1024 // 1024} MiB is taken", answer.shown)


async def noise(stage: AgentFixture) -> None:
    talk, session = await stage.open()
    for line in _NOISE:
        talk.send(line)
        await talk.barrier(owes="fault-noise")
    if stage.can("talk"):
        turn = await talk.turn(session, stage.act("talk").filled(), owes="fault-noise")
        stage.ledger.kept("fault-noise", "the session goes on", turn.answer.shown)


async def slow(stage: AgentFixture) -> None:
    talk, session = await stage.open()
    await stage.works(talk, session)
    talk.launched.transport.pause()
    asked = talk.prompt(session, stage.act("talk").filled())
    await talk.clock.sleep(0.5)
    talk.launched.transport.resume()
    turn = await talk.turn_of(asked, owes="fault-slow")
    bad = f"the turn gave {turn.answer.says}"
    stage.ledger.judge(
        "fault-slow", turn.answer.ok, "the turn is there once it is read", bad, turn.answer.shown
    )


async def in_pieces(stage: AgentFixture) -> None:
    talk = await stage.connect("byte by byte", pieces=True)
    answer = await talk.begin(EVERYTHING, owes="fault-pieces")
    if answer.ok:
        answer = await talk.call(
            "_check/pieces", {"text": "sm\u00f8rrebr\u00f8d \u4f60\u597d"}, owes="fault-pieces"
        )
        good = answer.code != -32700
    else:
        good = False
    bad = f"a message in pieces gave {answer.says}"
    stage.ledger.judge("fault-pieces", good, "messages byte by byte are read whole", bad, answer.shown)


async def reordered(stage: AgentFixture) -> None:
    talk = await permitted(stage)
    if not (stage.folder / "permitted.txt").exists():
        raise CaseUnavailable("the permitted act makes no file")
    first, earlier, _ = await _question(stage, talk, "first.txt")
    second, later, _ = await _question(stage, talk, "second.txt")
    for question, reply in ((later, reject(later)), (earlier, allow(earlier))):
        if reply is not None:
            talk.reply(question, reply)
    for asked in (first, second):
        await talk.turn_of(asked, owes="fault-reordered")
    made = [name for name in ("first.txt", "second.txt") if (stage.folder / name).exists()]
    bad = f"the first of two questions got a yes, the second a no, and made was {' and '.join(made) or 'nothing'}"
    shown = [earlier.shown, later.shown]
    stage.ledger.judge(
        "fault-reordered", made == ["first.txt"], "each answer goes to its question", bad, shown
    )


CASES: Final = (
    AgentCase(
        "a client that dies", "at once, after the handshake, in a turn, at a question", ("fault-dies",), dying
    ),
    AgentCase(
        "a client that stalls", "a question that stays open, then a cancel", ("fault-stalls",), stalling
    ),
    AgentCase("a client that answers twice", "no, then yes, to one question", ("fault-twice",), twice),
    AgentCase(
        "answers to nobody", "answers under ids that nobody asked with", ("fault-unknown-ids",), unknown_ids
    ),
    AgentCase(
        "answers of wrong types", "everything but an outcome, to a question", ("fault-types",), wrong_types
    ),
    AgentCase("a huge line", "a request of many megabytes", ("fault-huge",), huge),
    AgentCase("noise", "lines that are no messages, in a session", ("fault-noise",), noise),
    AgentCase("a slow reader", "nothing is read while a turn goes on", ("fault-slow",), slow),
    AgentCase("messages in pieces", "a handshake and a request, byte by byte", ("fault-pieces",), in_pieces),
    AgentCase(
        "answers in another order",
        "two questions, the later one answered first",
        ("fault-reordered",),
        reordered,
    ),
)
