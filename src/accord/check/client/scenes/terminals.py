"""Terminals of the client: their life from create to release, with several calls at the same time."""

import os
import sys
from typing import Any, Final

from accord.check.client.part import Part
from accord.check.client.scene import Scene
from accord.check.client.stage import Stage, Turn
from accord.check.conversation import Answer
from accord.check.ledger import Rule
from accord.check.scene import Missing
from accord.trace.exchange import at

LONG: Final = "import os,time; print(os.getpid(), flush=True); time.sleep(90)"
"""A command that says its number, and then runs for longer than anybody waits."""


class Terminal:
    """A terminal that the client was asked for."""

    def __init__(self, part: Part, id: str) -> None:
        self.part = part
        self.id = id

    @property
    def _named(self) -> dict[str, Any]:
        return {"sessionId": self.part.desk.session, "terminalId": self.id}

    async def call(self, what: str, owes: Rule) -> Answer:
        """`output`, `wait_for_exit`, `kill` or `release`."""
        return await self.part.call(f"terminal/{what}", self._named, owes=owes)

    def ask(self, what: str) -> Any:
        """The same, without waiting."""
        return self.part.ask(f"terminal/{what}", self._named)

    async def printed(self, owes: Rule) -> str:
        """What it printed, once it printed something; empty where that takes too long."""
        deadline = self.part.clock.now() + self.part.bounds.soon
        while self.part.clock.now() < deadline:
            answer = await self.call("output", owes)
            text = at(answer.result, "output")
            if isinstance(text, str) and text.strip():
                return text
            await self.part.clock.sleep(0.02)
        return ""


async def open_terminal(stage: Stage, part: Part, code: str, owes: Rule = 248, **more: Any) -> Terminal:
    """Run a bit of Python in a terminal of the client."""
    args = ["-c", code, *more.pop("words", [])]
    params = {"sessionId": part.desk.session, "command": sys.executable, "args": args, **more}
    answer = await part.call("terminal/create", params, owes=owes)
    id = at(answer.result, "terminalId")
    if isinstance(id, str):
        return Terminal(part, id)
    if not stage.can("allow"):
        raise Missing("it did not allow a terminal, and the script does not say how to make it")
    stage.ledger.broken(owes, f"terminal/create gave {answer.says}", answer.shown)
    raise Missing(f"terminal/create gave {answer.says}")


async def terminal_turn(stage: Stage) -> Turn:
    """A turn with somebody who allows terminals."""
    return await stage.turn(*stage.if_can("allow"))


async def living(stage: Stage) -> None:
    """A long command: created at once, output and wait at the same time, killed, released."""
    turn = await terminal_turn(stage)
    part, ledger = turn.part, stage.ledger
    terminal = await open_terminal(stage, part, LONG)
    ledger.kept(248, "it answered while the command ran")
    waiting = terminal.ask("wait_for_exit")
    answer = await terminal.call("output", 253)
    ledger.kept(253, "it told the output while a wait was pending", answer.shown)
    still = at(answer.result, "exitStatus") is None
    bad = "an exit status while the command runs"
    ledger.judge(250, still, "no exit status before the exit", bad, answer.shown)
    await terminal.call("kill", 254)
    ended = await part.answer(waiting, owes=254)
    after = await terminal.call("output", 254)
    kept = ended.ok and after.ok
    bad = f"after the kill, output gave {after.says} and wait gave {ended.says}"
    ledger.judge(254, kept, "the id still serves", bad, [*after.shown, *ended.shown])
    told = isinstance(at(after.result, "exitStatus"), dict)
    ledger.judge(250, told or not after.ok, "an exit status after it", "no exit status after it", after.shown)
    await terminal.call("release", 256)
    for what in ("output", "wait_for_exit", "kill", "release"):
        answer = await terminal.call(what, 256)
        bad = f"after the release, {what} gave {answer.says}"
        ledger.judge(256, not answer.ok, "an error", bad, answer.shown)
    unknown = await Terminal(part, "nope").call("output", 259)
    ledger.judge(259, not unknown.ok, "an error", f"an unknown terminal gave {unknown.says}", unknown.shown)
    await stage.finish(turn)


async def releasing(stage: Stage) -> None:
    """A running command is released; its process has to go."""
    turn = await terminal_turn(stage)
    terminal = await open_terminal(stage, turn.part, LONG)
    number = (await terminal.printed(250)).split()
    answer = await terminal.call("release", 255)
    if not number or not number[0].isdigit():
        stage.ledger.unseen(255, "the command did not say its number")
        return
    gone = await _gone(stage, int(number[0]))
    stage.ledger.judge(255, gone, "the process is gone", "the process still runs", answer.shown)
    await stage.finish(turn)


async def _gone(stage: Stage, number: int) -> bool:
    deadline = stage.clock.now() + stage.bounds.leave
    while stage.clock.now() < deadline:
        try:
            os.kill(number, 0)
        except OSError:
            return True
        if _is_zombie(number):
            return True
        await stage.clock.sleep(0.02)
    return False


def _is_zombie(number: int) -> bool:
    try:
        with open(f"/proc/{number}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] in ("Z", "X")
    except (OSError, IndexError):
        return False


async def cancelling(stage: Stage) -> None:
    """A wait is cancelled by its id; it still gets one answer."""
    turn = await terminal_turn(stage)
    part = turn.part
    terminal = await open_terminal(stage, part, LONG)
    waiting = terminal.ask("wait_for_exit")
    await part.barrier()
    part.notify("$/cancel_request", {"requestId": waiting.id})
    await part.barrier(owes=51)
    await terminal.call("kill", 51)
    answer = await part.answer(waiting, owes=51)
    kept = answer.ok or answer.code == -32800
    stage.ledger.judge(51, kept, answer.says, f"{answer.says}; expected a result or -32800", answer.shown)
    await terminal.call("release", 51)
    await stage.finish(turn)


async def unadvertised(stage: Stage) -> None:
    turn = await stage.turn()
    if turn.part.has("terminal"):
        stage.ledger.absent(244, "it advertises them all")
    else:
        params = {"sessionId": turn.part.desk.session, "command": "true"}
        answer = await turn.part.call("terminal/create", params, owes=244)
        bad = f"terminal/create, which it does not advertise, gave {answer.says}"
        stage.ledger.judge(244, answer.code == -32601, "-32601", bad, answer.shown)
    await stage.finish(turn)


SCENES: Final = (
    Scene(
        "a terminal's life",
        "a long command: wait, output, kill, release, and what comes after",
        (35, 248, 250, 253, 254, 256, 259),
        living,
        "terminal",
    ),
    Scene("releasing a running command", "its process has to go", (255,), releasing, "terminal"),
    Scene("cancelling a wait", "$/cancel_request for a pending wait", (51,), cancelling, "terminal"),
    Scene(
        "terminals that are not advertised",
        "terminal/create for a client that has none",
        (244,),
        unadvertised,
    ),
)
