"""Meeting: a plain turn, an agent that says little of itself, one with odd capabilities, one of another version."""

from typing import Final

from accord.check.client.scene import Scene
from accord.check.client.stage import Stage, tail
from accord.trace.exchange import at, listed

WORD: Final = "marigold"
HARD_PROMPT: Final = "Say hello,\nin two lines: 你好 👋🏽"


async def plain(stage: Stage) -> None:
    turn = await stage.turn(prompt=HARD_PROMPT)
    if stage.prompts:
        said = "".join(
            str(at(block, "text"))
            for block in listed(turn.prompt.params, "prompt")
            if at(block, "type") == "text"
        )
        whole = HARD_PROMPT.replace("\n", "") in said.replace("\n", "").replace("\r", "")
        bad = f"the prompt arrived as {said!r}"
        stage.ledger.judge(6, whole, "what is not ASCII arrived", bad, [turn.prompt.shown])
        kept = "\n" in said
        stage.ledger.judge(4, kept, "a prompt of two lines came in one", bad, [turn.prompt.shown])
    turn.part.update("agent_thought_chunk", content={"type": "text", "text": "thinking"})
    await stage.finish(turn, WORD)


async def says_little(stage: Stage) -> None:
    stage.desk.initialized = {"protocolVersion": 1}
    stage.desk.blamed = 69
    turn = await stage.turn(owes=75)
    stage.ledger.kept(75, "it went on with what it had", [turn.prompt.shown])
    await stage.finish(turn, WORD)
    stage.ledger.kept(69, "nothing was used that was not advertised", [turn.prompt.shown])


async def wants_more(stage: Stage) -> None:
    """Everything that the script can make it want, of an agent that has none of it: nothing gated may come."""
    stage.desk.initialized = {"protocolVersion": 1}
    stage.desk.blamed = 69
    for act, values in (
        ("session", {"session": "old"}),
        ("newest", {}),
        ("roots", {}),
        ("servers", {}),
        ("delete", {"session": "old"}),
    ):
        if stage.can(act):
            number = len(stage.parts) + 1
            await stage.start(act, **values)
            part = await stage.agent(number)
            prompt = await part.hears("session/prompt", bound=stage.bounds.soon)
            if prompt is not None:
                part.stop(prompt)
            await stage.over()
            await stage.client.end()
            stage.ledger.kept(69, f"made to want it ({act}), it did without", [])


async def odd(stage: Stage) -> None:
    stage.desk.initialized = {
        "protocolVersion": 1,
        "agentCapabilities": {
            "loadSession": "yes",
            "sessionCapabilities": False,
            "promptCapabilities": {"image": 1},
        },
        "agentInfo": {"name": "accord-check", "version": "1"},
    }
    stage.desk.blamed = 71
    turn = await stage.turn(owes=71)
    stage.ledger.kept(71, "it went on as if they were not there", [turn.prompt.shown])
    await stage.finish(turn, WORD)


async def newer(stage: Stage) -> None:
    stage.desk.initialized = {**stage.desk.initialized, "protocolVersion": 9}
    await stage.start()
    part = await stage.agent()
    left = await part.left(stage.bounds.soon)
    more = [
        line for line in part.lines if line.sender == "client" and line.method and line.method != "initialize"
    ]
    if more:
        stage.ledger.broken(64, f"it went on with {more[0].method}", [more[0].shown])
    elif not left:
        stage.ledger.broken(64, "it neither went on nor closed", [part.lines[-1].shown])
    else:
        await stage.over()
        told = bool(stage.client.output.strip())
        stage.ledger.judge(64, told, f"it says: {tail(stage.client.output, 120)}", "it closed without a word")


SCENES: Final = (
    Scene(
        "a plain turn",
        "a prompt of two lines with what is not ASCII, a thought, a word, the end",
        (2, 4, 6, 8, 30, 43, 45, 47, 58, 59, 60, 61, 90, 91, "schema"),
        plain,
    ),
    Scene("an agent that says little", "initialize answers with the version alone", (69, 75), says_little),
    Scene("wants more than there is", "old sessions, folders and servers for an agent that advertises nothing", (69,), wants_more),
    Scene("odd capabilities", "capabilities of wrong types", (71,), odd),
    Scene("another version", "initialize answers version 9", (64,), newer),
)  # fmt: skip
