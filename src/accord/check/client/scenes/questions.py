"""Questions of the agent: forms, web pages, modes that nobody knows, patterns that take forever."""

import asyncio
from typing import Any, Final

from accord.check.client.part import Part
from accord.check.client.scene import Scene
from accord.check.client.stage import Stage
from accord.check.conversation import Answer
from accord.check.ledger import Rule
from accord.trace.exchange import at

_ACTIONS: Final = ("accept", "decline", "cancel")


def _form(pattern: str | None = None, default: str = "blue") -> dict[str, Any]:
    field: dict[str, Any] = {"type": "string", "title": "Colour", "default": default}
    if pattern is not None:
        field["pattern"] = pattern
    schema = {"type": "object", "properties": {"colour": field}, "required": ["colour"]}
    return {"mode": "form", "message": "Which colour?", "requestedSchema": schema}


async def _ask(part: Part, owes: Rule, **params: Any) -> Answer:
    return await part.call("elicitation/create", {"sessionId": part.desk.session, **params}, owes=owes)


async def asking(stage: Stage) -> None:
    turn = await stage.turn()
    part, ledger = turn.part, stage.ledger
    if part.has("elicitation.form"):
        answer = await _ask(part, 271, **_form())
        action = at(answer.result, "action")
        bad = f"the form gave {answer.says}"
        ledger.judge(271, action in _ACTIONS, f"{action}", bad, answer.shown)
        answer = await _ask(part, 280, **_form("(a+)+$", "a" * 40 + "!"))
        alive = await part.barrier(owes=280)
        ledger.kept(280, "it lives", [*answer.shown, *alive.shown])
    answer = await _ask(part, 277, mode="_x", message="What?")
    ledger.judge(277, not answer.ok, answer.says, f"an unknown mode gave {answer.says}", answer.shown)
    for mode, params in (
        ("form", _form()),
        ("url", {"mode": "url", "message": "Go", "url": "https://agent.example/x", "elicitationId": "e"}),
    ):
        if not part.has(f"elicitation.{mode}"):
            answer = await _ask(part, 261, **params)
            bad = f"{mode}, which it does not advertise, gave {answer.says}; expected -32602"
            ledger.judge(261, answer.code == -32602, f"{mode} gave -32602", bad, answer.shown)
    if not ledger.of(261):
        ledger.absent(261, "it advertises every mode")
    await stage.finish(turn)


async def completing(stage: Stage) -> None:
    turn = await stage.turn()
    for _ in range(2):
        turn.part.notify("elicitation/complete", {"elicitationId": "never-begun"})
    answer = await turn.part.barrier(owes=270)
    stage.ledger.kept(270, "it goes on", answer.shown)
    await stage.finish(turn, "marigold", (270,))


async def visiting(stage: Stage) -> None:
    """A page that would see a visit."""
    visits = 0

    def visited(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal visits
        visits += 1
        writer.close()

    server = await asyncio.start_server(visited, "127.0.0.1", 0)
    try:
        turn = await stage.turn()
        port = server.sockets[0].getsockname()[1]
        page = {
            "mode": "url",
            "message": "Sign in",
            "url": f"http://127.0.0.1:{port}/x",
            "elicitationId": "e1",
        }
        answer = await _ask(turn.part, 278, **page)
        await turn.part.barrier(owes=278)
        kept = visits == 0 or at(answer.result, "action") == "accept"
        bad = "the page was visited before anybody agreed"
        stage.ledger.judge(278, kept, "nobody came", bad, answer.shown)
        await stage.finish(turn)
    finally:
        server.close()


SCENES: Final = (
    Scene("questions", "a form, a slow pattern, an unknown mode, modes it lacks", (261, 271, 277, 280), asking, "elicitation"),
    Scene("completions of nothing", "elicitation/complete for what never began", (270,), completing),
    Scene("a page that would see a visit", "a web address on this machine", (278,), visiting, "elicitation.url"),
)  # fmt: skip
