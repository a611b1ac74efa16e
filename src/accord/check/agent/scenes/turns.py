"""Turns: what a prompt may hold, what comes back, what is refused, what works meanwhile."""

from typing import Any, Final

from accord.check.agent.scene import Scene
from accord.check.agent.stage import NO_STRICT_MODE, Stage
from accord.trace.exchange import at, listed

TEXT: Final = "日本語 🎉 naïve"


async def plain(stage: Stage) -> None:
    talk, session = await stage.open()
    turn = await stage.play(talk, session, "talk")
    bad = f"a prompt of text gave {turn.answer.says}"
    stage.ledger.judge(139, turn.answer.ok, "text is taken", bad, turn.answer.shown)
    stage.ledger.kept(143, "every prompt is answered", turn.answer.shown)
    link = {"type": "resource_link", "uri": (stage.folder / "notes.txt").as_uri(), "name": "notes.txt"}
    asked = talk.prompt(session, [{"type": "text", "text": stage.act("talk").filled()}, link])
    linked = await talk.turn_of(asked)
    bad = f"a prompt with a resource_link gave {linked.answer.says}"
    stage.ledger.judge(140, linked.answer.ok, "links are taken", bad, linked.answer.shown)
    await talk.barrier()


async def texts(stage: Stage) -> None:
    """Several lines, what is not ASCII, and half of an emoji."""
    talk, session = await stage.open()
    if stage.can("lines"):
        await stage.play(talk, session, "lines")
    if stage.can("echo"):
        turn = await stage.play(talk, session, "echo", text=TEXT)
        said = turn.all_text
        spoiled = [
            wrong
            for wrong in (TEXT.encode().decode("latin-1"), TEXT.encode("ascii", "replace").decode())
            if wrong in said
        ]
        if TEXT in said:
            stage.ledger.kept(5, "emoji and CJK survive", turn.answer.shown[:1])
        elif spoiled:
            stage.ledger.broken(
                5, f"{TEXT} came back as {spoiled[0]!r}", [line.shown for line in turn.lines[-2:]]
            )
    if stage.can("talk"):
        await stage.works(talk, session)
        text = stage.act("talk").filled() + " \\ud83d"
        params = f'{{"sessionId":"{session}","prompt":[{{"type":"text","text":"{text}"}}]}}'
        asked = talk.send(f'{{"jsonrpc":"2.0","id":"half","method":"session/prompt","params":{params}}}')
        turn = await talk.turn_of(asked, owes=392)
        bad = f"half of a surrogate pair gave {turn.answer.says}"
        stage.ledger.judge(392, turn.answer.ok, "half of a surrogate pair is taken", bad, turn.answer.shown)


async def malformed(stage: Stage) -> None:
    talk, session = await stage.open()
    await _refused(stage, talk, session, [{"type": "text"}])
    strict = await stage.strict()
    if strict is None:
        stage.ledger.untried(151, NO_STRICT_MODE)
        return
    await _refused(stage, strict, await stage.session(strict), "hi")


async def _refused(stage: Stage, talk: Any, session: str, prompt: Any) -> None:
    answer = await talk.call("session/prompt", {"sessionId": session, "prompt": prompt})
    bad = f"the prompt {prompt!r} gave {answer.says}; expected -32602"
    stage.ledger.judge(151, answer.code == -32602, "malformed prompts are refused", bad, answer.shown)


async def meanwhile(stage: Stage) -> None:
    """In the middle of a turn, modes and options can be set, and a second prompt is refused."""
    talk = await stage.begin()
    new = await talk.new(stage.cwd)
    session = at(new.result, "sessionId") if new.ok else await stage.session(talk)
    asked = await stage.busy(talk, session)
    calls: list[tuple[str, dict[str, Any]]] = []
    mode = at(new.result, "modes", "currentModeId")
    if isinstance(mode, str):
        calls.append(("session/set_mode", {"modeId": mode}))
    option = next((one for one in listed(new.result, "configOptions") if at(one, "type") == "select"), None)
    if option is not None:
        params = {"configId": at(option, "id"), "value": at(option, "currentValue")}
        calls.append(("session/set_config_option", params))
    for method, params in calls:
        sent = talk.ask(method, {"sessionId": session, **params})
        answer = await talk.answer(sent, owes=157, bound=stage.bounds.soon)
        bad = f"{method} in a turn gave {answer.says}"
        stage.ledger.judge(157, answer.ok, f"{method} works in a turn", bad, answer.shown)
    if not calls:
        stage.ledger.absent(157, "it has neither modes nor options")
    second = talk.prompt(session, "hi")
    refused = await talk.until(
        lambda line: line.sender == "agent" and line.is_answer and line.id == second.id, since=second.number, bound=stage.bounds.soon / 2
    )  # fmt: skip
    over = await talk.until(lambda line: line.is_answer and line.id == asked.id, since=asked.number, bound=0)
    talk.cancel(session)
    turn = await talk.turn_of(asked, owes=161, bound=stage.bounds.soon)
    if refused is None:
        stage.ledger.broken(385, "a second prompt in a busy session is not refused", [second.shown])
        return
    code = at(refused.message, "error", "code")
    untouched = over is None and turn.stop == "cancelled"
    bad = f"a second prompt gave {code or 'a result'}; the first {'goes on' if untouched else 'ended'}"
    stage.ledger.judge(
        385, code == -32600 and untouched, "a second prompt is refused", bad, (second.shown, refused.shown)
    )


SCENES: Final = (
    Scene(
        "a turn",
        "a prompt of text, one with a link",
        (42, 139, 140, 142, 143, 144, 145, 146, 147, 310),
        plain,
    ),
    Scene("texts", "several lines, emoji and CJK, half of a surrogate pair", (3, 5, 392), texts),
    Scene("malformed prompts", "a text block without text; a bare text in strict mode", (151,), malformed),
    Scene("in the middle of a turn", "modes, options and a second prompt", (157, 385), meanwhile),
)
