"""Cases: permissions, elicitation, dialects of their answers."""

from pathlib import Path
from typing import Any, Final

from accord.check.agent.agent_fixture import NOT_ASKED, AgentCase, AgentFixture, without
from accord.check.agent.agent_under_test import AgentTurn, AgentUnderTest
from accord.check.agent.client_responder import (
    CANCELLED,
    EFFECTS,
    HOLD,
    Reply,
    Server,
    allow,
    error,
    filled_in,
    option,
    reject,
    result,
    selected,
)
from accord.check.check_script import fill
from accord.check.checked_connection import WireLine
from accord.check.findings import CaseUnavailable

# MERGED check.agent.scenes.permissions: Permissions: nothing is done before a yes, and nothing but a yes is one.

_NO_EFFECT: Final = "the permitted act made no file and asked the client for nothing"


def effects(talk: AgentUnderTest, since: int, path: Path) -> list[WireLine]:
    """What was done since then: requests that do something, or the file itself."""
    done = [line for line in talk.lines[since:] if line.sender == "agent" and line.method in EFFECTS]
    if path.exists() and not done:
        done = talk.lines[-1:]
    return done


async def answered(
    stage: AgentFixture, name: str, reply: Server, *, talk: AgentUnderTest
) -> tuple[AgentTurn, list[WireLine], list[WireLine]]:
    """The permission act with this answer to every question: the turn, the questions, what was done all the same."""
    session = await stage.session(talk)
    talk.desk.answers["session/request_permission"] = reply
    path = stage.folder / name
    since = len(talk.lines)
    turn = await stage.play(talk, session, "permission", file=name)
    questions = turn.asked("session/request_permission")
    if not questions:
        raise CaseUnavailable(NOT_ASKED)
    return turn, questions, effects(talk, questions[0].number if questions else since, path)


async def permitted(stage: AgentFixture) -> AgentUnderTest:
    """A connection on which the permission act has its effect; without that, its absence would show nothing."""
    talk = await stage.begin()
    _, _, done = await answered(stage, "permitted.txt", allow, talk=talk)
    if not done:
        raise CaseUnavailable(_NO_EFFECT)
    return talk


async def waiting(stage: AgentFixture) -> None:
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
        raise CaseUnavailable(_NO_EFFECT)
    shown = [question.shown, *(line.shown for line in early[:2])]
    bad = "something was done while the question was open"
    stage.ledger.judge(198, not early, "nothing is done while the question is open", bad, shown)


def _hold(line: WireLine) -> Reply:
    return HOLD


async def rejected(stage: AgentFixture) -> None:
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


async def no_yes(stage: AgentFixture) -> None:
    talk = await permitted(stage)
    for number, (name, reply) in enumerate(_NO):
        _, questions, done = await answered(stage, f"no-{number}.txt", _always(reply), talk=talk)
        bad = f"{name} counts as a yes"
        shown = [questions[0].shown, *(line.shown for line in done[:2])]
        stage.ledger.judge(200, not done, f"{name} is no yes", bad, shown)


def _always(reply: Reply) -> Server:
    return lambda line: reply


async def remembered(stage: AgentFixture) -> None:
    talk = await stage.begin()
    for kind, again in (("allow_once", True), ("allow_always", False)):
        session = await stage.session(talk)
        chosen: list[str] = []

        def choose(line: WireLine, kind: str = kind, chosen: list[str] = chosen) -> Reply:
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


PERMISSION_CASES: Final = (
    AgentCase("an open question", "the answer to a permission is held back", (193, 194, 195, 198), waiting),
    AgentCase("a refusal", "a reject option is chosen", (199,), rejected),
    AgentCase("what is no yes", "cancelled, an error, an unknown outcome, a bare word", (200,), no_yes),
    AgentCase("what is remembered", "allow_always and allow_once, twice each", (201,), remembered),
)


# MERGED check.agent.scenes.questions: Elicitation: forms and pages, for clients that have them, and every way to answer.

_ANSWER: Final = "turquoise"


async def _asked(stage: AgentFixture, reply: Server | None, act: str = "ask") -> AgentTurn:
    """The ask act in a new session, with this answer to the form."""
    talk = stage.talks[-1] if stage.talks else await stage.begin()
    session = await stage.session(talk)
    talk.desk.answers.pop("elicitation/create", None)
    if reply is not None:
        talk.desk.answers["elicitation/create"] = reply
    turn = await stage.play(talk, session, act)
    if not turn.asked("elicitation/create"):
        raise CaseUnavailable("the agent asked nothing")
    return turn


async def forms(stage: AgentFixture) -> None:
    replies: tuple[tuple[str, Reply], ...] = (
        ("decline", result({"action": "decline"})),
        ("cancel", result({"action": "cancel"})),
        ("an error", error(-32603, "Internal error")),
    )
    for name, reply in replies:
        turn = await _asked(stage, _always(reply))
        bad = f"after {name} the turn gave {turn.answer.says}"
        stage.ledger.judge(274, turn.answer.ok, "the turn ends in good order", bad, turn.answer.shown)


async def contents(stage: AgentFixture) -> None:
    omitted = await _asked(stage, lambda line: result({"action": "accept"}))
    null = await _asked(stage, lambda line: result({"action": "accept", "content": None}))
    alike = omitted.answer.ok == null.answer.ok and omitted.stop == null.stop
    bad = f"without content: {omitted.answer.says}; with null: {null.answer.says}"
    shown = (omitted.answer.line.shown, null.answer.line.shown)
    stage.ledger.judge(275, alike, "left out and null are alike", bad, shown)


async def actions(stage: AgentFixture) -> None:
    def unknown(line: WireLine) -> Reply:
        return result({"action": "_x", "content": filled_in(line, _ANSWER)})

    act = stage.act("ask")
    if not act.shows:
        raise CaseUnavailable("the script does not say how an answer shows")
    shows = fill(act.shows, {"answer": _ANSWER})
    accepted = await _asked(stage, None)
    if shows not in accepted.all_text:
        raise CaseUnavailable("an accepted answer did not show")
    turn = await _asked(stage, unknown)
    bad = "an unknown action counts as acceptance"
    stage.ledger.judge(
        276, shows not in turn.all_text, "an unknown action is no acceptance", bad, turn.answer.shown
    )


async def poorer(stage: AgentFixture) -> None:
    for lacking in ("elicitation.form", "elicitation.url", "elicitation"):
        talk, session = await stage.open(without(lacking))
        for act in ("ask", "ask_url"):
            if stage.can(act):
                await stage.play(talk, session, act)


async def pages(stage: AgentFixture) -> None:
    await _asked(stage, None, "ask_url")


ELICITATION_CASES: Final = (
    AgentCase("forms", "decline, cancel, an error", (262, 263, 264, 265, 274), forms),
    AgentCase("forms without content", "content left out, and null", (275,), contents),
    AgentCase("forms and unknown actions", "`_x` with an answer in it", (276,), actions),
    AgentCase("clients without forms or pages", "the same acts, one mode less", (260,), poorer),
    AgentCase("pages", "the user is sent to a web page", (267, 268, 269), pages),
)


# MERGED check.agent.scenes.consent: Dialects: Accord's own choices about what repairs a message, and strict mode, which repairs nothing.

_NO_YES: Final[tuple[Any, ...]] = (
    "allowed",
    "approved",
    True,
    {"outcome": "approved"},
    {"outcome": {"outcome": "allowed"}},
)


async def dialect_answers(stage: AgentFixture) -> None:
    talk = await permitted(stage)
    replies: list[tuple[str, Reply]] = [(repr(value), result(value)) for value in _NO_YES]
    replies.append(("an option that was not offered", selected("not-offered")))
    for number, (name, reply) in enumerate(replies):
        _, questions, done = await answered(stage, f"dialect-{number}.txt", _always(reply), talk=talk)
        shown = [questions[0].shown, *(line.shown for line in done[:2])]
        stage.ledger.judge(388, not done, "vague answers are no yes", f"{name} counts as a yes", shown)


async def strictly(stage: AgentFixture) -> None:
    if not stage.script.strict:
        stage.ledger.absent(390, "it has no strict mode that the script knows of")
        return
    strict = await stage.strict()
    assert strict is not None
    await _rows(stage, strict, strict=True)
    await _rows(stage, await stage.begin(), strict=False)

    def bare(line: WireLine) -> Reply:
        return result({"outcome": "allow_once"})

    _, questions, done = await answered(stage, "strictly.txt", bare, talk=strict)
    bad = "in strict mode a bare `allow_once` counts as a yes"
    stage.ledger.judge(390, not done, "strict: only the official form is a yes", bad, [questions[0].shown])


async def _rows(stage: AgentFixture, talk: AgentUnderTest, *, strict: bool) -> None:
    session = await stage.session(talk)
    calls: list[tuple[str, dict[str, Any]]] = [
        ("session/prompt", {"sessionId": session, "prompt": "hello"}),
        ("session/new", {"cwd": stage.cwd, "mcpServers": {}}),
    ]
    if talk.has("sessionCapabilities.list"):
        calls.append(("sessions/list", {"cwd": stage.cwd}))
    for method, params in calls:
        answer = await talk.answer(talk.ask(method, params), bound=stage.bounds.turn)
        mode = "strict" if strict else "tolerant"
        bad = f"{mode}: {method} in a dialect gave {answer.says}"
        stage.ledger.judge(390, answer.ok != strict, "dialects only in tolerant mode", bad, answer.shown)


ANSWER_CASES: Final = (
    AgentCase(
        "vague answers", "permission answers in dialects that name no offered option", (388,), dialect_answers
    ),
    AgentCase("strict mode", "dialects in strict and in tolerant mode", (390,), strictly),
)


CASES: Final = (
    *PERMISSION_CASES,
    *ELICITATION_CASES,
    *ANSWER_CASES,
)
