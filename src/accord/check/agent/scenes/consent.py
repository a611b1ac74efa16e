"""Dialects: Accord's own choices about what repairs a message, and strict mode, which repairs nothing."""

from typing import Any, Final

from accord.check.agent.desk import Reply, Server, result, selected
from accord.check.agent.scene import Scene
from accord.check.agent.scenes.permissions import answered, permitted
from accord.check.agent.stage import Stage
from accord.check.agent.talk import Talk
from accord.check.lines import Line

_NO_YES: Final[tuple[Any, ...]] = (
    "allowed",
    "approved",
    True,
    {"outcome": "approved"},
    {"outcome": {"outcome": "allowed"}},
)


def _always(reply: Reply) -> Server:
    return lambda line: reply


async def dialect_answers(stage: Stage) -> None:
    talk = await permitted(stage)
    replies: list[tuple[str, Reply]] = [(repr(value), result(value)) for value in _NO_YES]
    replies.append(("an option that was not offered", selected("not-offered")))
    for number, (name, reply) in enumerate(replies):
        _, questions, done = await answered(stage, f"dialect-{number}.txt", _always(reply), talk=talk)
        shown = [questions[0].shown, *(line.shown for line in done[:2])]
        stage.ledger.judge(388, not done, "vague answers are no yes", f"{name} counts as a yes", shown)


async def strictly(stage: Stage) -> None:
    if not stage.script.strict:
        stage.ledger.absent(390, "it has no strict mode that the script knows of")
        return
    strict = await stage.strict()
    assert strict is not None
    await _rows(stage, strict, strict=True)
    await _rows(stage, await stage.begin(), strict=False)

    def bare(line: Line) -> Reply:
        return result({"outcome": "allow_once"})

    _, questions, done = await answered(stage, "strictly.txt", bare, talk=strict)
    bad = "in strict mode a bare `allow_once` counts as a yes"
    stage.ledger.judge(390, not done, "strict: only the official form is a yes", bad, [questions[0].shown])


async def _rows(stage: Stage, talk: Talk, *, strict: bool) -> None:
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


SCENES: Final = (
    Scene(
        "vague answers", "permission answers in dialects that name no offered option", (388,), dialect_answers
    ),
    Scene("strict mode", "dialects in strict and in tolerant mode", (390,), strictly),
)
