"""Permissions: nothing is done before a yes, and nothing but a yes is one."""

from pathlib import Path
from typing import Final

from accord.check.agent.desk import (
    CANCELLED,
    EFFECTS,
    HOLD,
    Reply,
    Server,
    allow,
    error,
    option,
    reject,
    result,
    selected,
)
from accord.check.agent.scene import Scene
from accord.check.agent.stage import NOT_ASKED, Stage
from accord.check.agent.talk import Talk, Turn
from accord.check.lines import Line
from accord.check.scene import Missing

_NO_EFFECT: Final = "the permitted act made no file and asked the client for nothing"


def effects(talk: Talk, since: int, path: Path) -> list[Line]:
    """What was done since then: requests that do something, or the file itself."""
    done = [line for line in talk.lines[since:] if line.sender == "agent" and line.method in EFFECTS]
    if path.exists() and not done:
        done = talk.lines[-1:]
    return done


async def answered(
    stage: Stage, name: str, reply: Server, *, talk: Talk
) -> tuple[Turn, list[Line], list[Line]]:
    """The permission act with this answer to every question: the turn, the questions, what was done all the same."""
    session = await stage.session(talk)
    talk.desk.answers["session/request_permission"] = reply
    path = stage.folder / name
    since = len(talk.lines)
    turn = await stage.play(talk, session, "permission", file=name)
    questions = turn.asked("session/request_permission")
    if not questions:
        raise Missing(NOT_ASKED)
    return turn, questions, effects(talk, questions[0].number if questions else since, path)


async def permitted(stage: Stage) -> Talk:
    """A connection on which the permission act has its effect; without that, its absence would show nothing."""
    talk = await stage.begin()
    _, _, done = await answered(stage, "permitted.txt", allow, talk=talk)
    if not done:
        raise Missing(_NO_EFFECT)
    return talk


async def waiting(stage: Stage) -> None:
    talk, session = await stage.open()
    talk.desk.answers["session/request_permission"] = _hold
    asked = talk.prompt(session, stage.act("permission").filled(file="held.txt"))
    question = await stage.question(talk, asked)
    await talk.barrier()
    early = effects(talk, asked.number, stage.folder / "held.txt")
    del talk.desk.answers["session/request_permission"]
    talk.reply(question, talk.desk.serve(question) or {})
    await talk.turn_of(asked)
    if not effects(talk, asked.number, stage.folder / "held.txt"):
        raise Missing(_NO_EFFECT)
    shown = [question.shown, *(line.shown for line in early[:2])]
    bad = "something was done while the question was open"
    stage.ledger.judge(198, not early, "nothing is done while the question is open", bad, shown)


def _hold(line: Line) -> Reply:
    return HOLD


async def rejected(stage: Stage) -> None:
    turn, questions, done = await answered(stage, "rejected.txt", reject, talk=await permitted(stage))
    shown = [questions[0].shown, *(line.shown for line in done[:2]), turn.answer.line.shown]
    bad = "a refused tool did its work" if done else f"a refusal ended the turn with {turn.answer.says}"
    stage.ledger.judge(199, not done and turn.answer.ok, "a refused tool does nothing", bad, shown)


_NO: Final[tuple[tuple[str, Reply], ...]] = (
    ("cancelled", CANCELLED),
    ("an error", error(-32603, "Internal error")),
    ("an unknown outcome", result({"outcome": {"outcome": "zzz"}})),
    ("a bare `allowed`", result({"outcome": "allowed"})),
)


async def no_yes(stage: Stage) -> None:
    talk = await permitted(stage)
    for number, (name, reply) in enumerate(_NO):
        _, questions, done = await answered(stage, f"no-{number}.txt", _always(reply), talk=talk)
        bad = f"{name} counts as a yes"
        shown = [questions[0].shown, *(line.shown for line in done[:2])]
        stage.ledger.judge(200, not done, f"{name} is no yes", bad, shown)


def _always(reply: Reply) -> Server:
    return lambda line: reply


async def remembered(stage: Stage) -> None:
    talk = await stage.begin()
    for kind, again in (("allow_once", True), ("allow_always", False)):
        session = await stage.session(talk)
        chosen: list[str] = []

        def choose(line: Line, kind: str = kind, chosen: list[str] = chosen) -> Reply:
            id = option(line, kind)
            if id is None:
                return reject(line)
            chosen.append(id)
            return selected(id)

        talk.desk.answers["session/request_permission"] = choose
        await stage.play(talk, session, "permission", file=f"{kind}.txt")
        (stage.folder / f"{kind}.txt").unlink(missing_ok=True)
        turn = await stage.play(talk, session, "permission", file=f"{kind}.txt")
        asked = turn.asked("session/request_permission")
        if not chosen:
            stage.ledger.unseen(201, f"no option of the kind {kind} was offered")
            continue
        bad = f"{kind} {'is remembered' if again else 'is forgotten'}"
        good = f"{kind} {'is not' if again else 'is'} remembered"
        stage.ledger.judge(201, bool(asked) == again, good, bad, [line.shown for line in asked[:1]])


SCENES: Final = (
    Scene("an open question", "the answer to a permission is held back", (193, 194, 195, 198), waiting),
    Scene("a refusal", "a reject option is chosen", (199,), rejected),
    Scene("what is no yes", "cancelled, an error, an unknown outcome, a bare word", (200,), no_yes),
    Scene("what is remembered", "allow_always and allow_once, twice each", (201,), remembered),
)
