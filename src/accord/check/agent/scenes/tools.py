"""Tool calls, files and terminals as they are when all goes well: read, write, run."""

from typing import Final

from accord.check.agent.desk import Reply, result
from accord.check.agent.scene import Scene
from accord.check.agent.stage import WORD, Stage, without
from accord.check.agent.talk import Turn
from accord.check.lines import Line
from accord.check.scene import Missing
from accord.trace.exchange import at, listed

_CALLS: Final = (173, 174, 175, 176, 177, 178, 180, 181, 182, 183)
_DONE: Final = ("fs/read_text_file", "fs/write_text_file", "terminal/create", "session/request_permission")


def _reported(stage: Stage, turn: Turn) -> bool:
    """Whether a tool call was reported; something done without one is a fault."""
    if turn.updates("tool_call"):
        stage.ledger.kept(172, "tools are reported", [turn.updates("tool_call")[0].shown])
        return True
    done = turn.asked(*_DONE)
    if done:
        # A first change may stand for the announcement; that is a fault of another rule.
        if not turn.updates("tool_call_update"):
            stage.ledger.broken(172, f"{done[0].method} without a tool call", [done[0].shown])
    else:
        stage.ledger.unseen(172, "no tool was used")
    return False


async def reading(stage: Stage) -> None:
    talk, session = await stage.open()
    for _ in range(2):
        turn = await stage.play(talk, session, "read", file="notes.txt")
        _reported(stage, turn)
    if stage.can("search"):
        await stage.play(talk, session, "search", text=WORD)


async def writing(stage: Stage) -> None:
    talk, session = await stage.open()
    turn = await stage.play(talk, session, "write", file="made.txt", text="hello")
    _reported(stage, turn)
    diffs = [
        (line, one)
        for line in turn.lines
        for one in [*listed(line.update, "content"), *listed(line.params, "toolCall", "content")]
        if at(one, "type") == "diff" and at(one, "path") == str(stage.folder / "made.txt")
    ]
    for line, diff in diffs[:1]:
        bad = f"the diff of a new file has oldText {at(diff, 'oldText')!r}"
        stage.ledger.judge(179, at(diff, "oldText") is None, "a new file has no old text", bad, [line.shown])
    if not diffs:
        stage.ledger.unseen(179, "no diff of the new file was shown")


async def null_write(stage: Stage) -> None:
    talk, session = await stage.open()

    def write(line: Line) -> Reply:
        path = stage.folder / "made.txt"
        path.write_text("hello")
        return result(None)

    talk.desk.answers["fs/write_text_file"] = write
    turn = await stage.play(talk, session, "write", file="made.txt", text="hello")
    written = turn.asked("fs/write_text_file")
    if not written:
        raise Missing("nothing was written through the client")
    failed = [line for line in turn.updates("tool_call_update") if line.update.get("status") == "failed"]
    sound = turn.answer.ok and not failed
    shown = [written[0].shown, *(line.shown for line in failed[:1]), turn.answer.line.shown]
    stage.ledger.judge(246, sound, "null is taken for success", "null is taken for a failure", shown)


async def running(stage: Stage) -> None:
    talk, session = await stage.open()
    turn = await stage.play(talk, session, "run")
    _reported(stage, turn)


async def poorer(stage: Stage) -> None:
    """Clients that lack one thing are not asked for it."""
    acts: tuple[tuple[int, str, str, dict[str, str], str], ...] = (
        (236, "fs.readTextFile", "read", {"file": "notes.txt"}, "fs/read_text_file"),
        (237, "fs.writeTextFile", "write", {"file": "poor.txt", "text": "x"}, "fs/write_text_file"),
        (247, "terminal", "run", {}, "terminal/create"),
    )
    for rule, capability, act, values, method in acts:
        if not stage.can(act):
            continue
        talk, session = await stage.open(without(capability))
        turn = await stage.play(talk, session, act, **values)
        used = turn.updates("tool_call", "tool_call_update") or turn.asked(*_DONE)
        if not turn.asked(method) and used:
            stage.ledger.kept(rule, f"no {method} without {capability}", [used[0].shown])


SCENES: Final = (
    Scene("reading a file", "the read act, twice, and the search act", (172, *_CALLS, 236, 238), reading),
    Scene("making a file", "the write act", (172, 179, 237, 238), writing),
    Scene("a write answered with null", "the write act, and the client answers null", (246,), null_write),
    Scene("running a command", "the run act", (172, 190, 247, 257, 258), running),
    Scene("poorer clients", "each act with a client that lacks what it needs", (236, 237, 247), poorer),
)
