"""Cases: files, terminals, commands."""

import os
import sys
from pathlib import Path
from typing import Any, Final

from accord.check.checked_connection import CallAnswer
from accord.check.client.client_fixture import ClientCase, ClientFixture, ClientTurn
from accord.check.client.client_under_test import ClientUnderTest
from accord.check.findings import CaseUnavailable, Rule
from accord.trace.trace_steps import at

# MERGED check.client.scenes.files: Files of the client: reading, writing, bounds, links that lead outside, sessions that are not there.


async def _read(part: ClientUnderTest, path: Path, owes: Rule = 239, **more: Any) -> CallAnswer:
    params = {"sessionId": part.desk.session, "path": str(path), **more}
    return await part.call("fs/read_text_file", params, owes=owes)


async def reading(stage: ClientFixture) -> None:
    turn = await stage.turn(*stage.if_can("allow"))
    part, ledger, notes = turn.part, stage.ledger, stage.folder / "notes.txt"
    answer = await _read(part, notes)
    kept = at(answer.result, "content") == "one\ntwo\nthree\n"
    ledger.judge(239, kept, "the text came", f"reading gave {answer.says}", answer.shown)
    for more, expected in (({"line": 2, "limit": 1}, "two"), ({"line": 3}, "three"), ({"limit": 1}, "one")):
        answer = await _read(part, notes, 241, **more)
        text = at(answer.result, "content")
        kept = isinstance(text, str) and text.rstrip("\n") == expected
        ledger.judge(241, kept, f"{more} gave {expected!r}", f"{more} gave {answer.says}", answer.shown)
    answer = await _read(part, stage.folder / "missing.txt", 242)
    good = not answer.ok and answer.code == -32002
    ledger.judge(242, good, "-32002", f"a missing file gave {answer.says}; expected -32002", answer.shown)
    for more in ({"line": "2"}, {"limit": -1}, {"limit": 1.5}, {"line": -1}):
        answer = await _read(part, notes, 326, **more)
        bad = f"{more} gave {answer.says}; expected -32602"
        ledger.judge(326, answer.code == -32602, f"{more} gave -32602", bad, answer.shown)
    await stage.finish(turn)


async def links(stage: ClientFixture) -> None:
    """A link, `..` and a plain path lead outside; nothing outside is read or written."""
    link = stage.folder / "link.txt"
    link.symlink_to(stage.outside / "secret.txt")
    (stage.folder / "away").symlink_to(stage.outside)
    turn = await stage.turn(*stage.if_can("allow"))
    part = turn.part
    for path in (link, stage.folder / ".." / "outside" / "secret.txt", stage.outside / "secret.txt"):
        answer = await _read(part, path, 245)
        bad = f"{path.name} outside of the roots was read"
        stage.ledger.judge(245, not answer.ok, "refused", bad, answer.shown)
    if part.has("fs.writeTextFile"):
        target = stage.folder / "away" / "made.txt"
        params = {"sessionId": part.desk.session, "path": str(target), "content": "x"}
        answer = await part.call("fs/write_text_file", params, owes=245)
        made = (stage.outside / "made.txt").exists()
        stage.ledger.judge(
            245, not made, "nothing was made", "a file was made outside of the roots", answer.shown
        )
    await stage.finish(turn)


async def writing(stage: ClientFixture) -> None:
    turn = await stage.turn(*stage.if_can("allow"))
    part = turn.part
    target = stage.folder / "made.txt"
    params = {"sessionId": part.desk.session, "path": str(target), "content": "made\n"}
    answer = await part.call("fs/write_text_file", params, owes=243)
    if not answer.ok and not stage.can("allow"):
        stage.ledger.unseen(243, "it did not allow it")
    else:
        kept = answer.ok and target.is_file() and target.read_text() == "made\n"
        stage.ledger.judge(
            243, kept, "the file is there", f"writing a new file gave {answer.says}", answer.shown
        )
    await stage.finish(turn)


async def no_session(stage: ClientFixture) -> None:
    """Requests that name a session which the client does not have."""
    turn = await stage.turn(*stage.if_can("allow"))
    part = turn.part
    made = stage.folder / "made-by-nobody.txt"
    tries: list[tuple[str, dict[str, Any], str]] = [
        ("fs/read_text_file", {"path": str(stage.folder / "notes.txt")}, "fs.readTextFile"),
        ("fs/write_text_file", {"path": str(made), "content": "x"}, "fs.writeTextFile"),
        ("terminal/create", {"command": "touch", "args": [str(made)]}, "terminal"),
        ("session/request_permission", {"toolCall": {"toolCallId": "c"}, "options": []}, ""),
    ]
    for method, params, gate in tries:
        if gate and not part.has(gate):
            continue
        answer = await part.call(method, {"sessionId": "nope", **params}, owes=384)
        named = at(answer.line.message, "error", "data", "sessionId") == "nope"
        kept = answer.code == -32002 and named and not made.exists()
        bad = f"{method} for an unknown session gave {answer.says}; expected -32002 with the session in its data"
        stage.ledger.judge(384, kept, f"{method} gave -32002", bad, answer.shown)
    await stage.finish(turn)


async def unadvertised(stage: ClientFixture) -> None:
    turn = await stage.turn()
    part = turn.part
    tries: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("fs.readTextFile", "fs/read_text_file", {"path": str(stage.folder / "notes.txt")}),
        ("fs.writeTextFile", "fs/write_text_file", {"path": str(stage.folder / "x"), "content": "x"}),
    )
    for gate, method, params in tries:
        if part.has(gate):
            stage.ledger.absent(244, "it advertises them all")
            continue
        answer = await part.call(method, {"sessionId": part.desk.session, **params}, owes=244)
        bad = f"{method}, which it does not advertise, gave {answer.says}"
        stage.ledger.judge(244, answer.code == -32601, "-32601", bad, answer.shown)
    await stage.finish(turn)


FILE_CASES: Final = (
    ClientCase("reading files", "whole, some lines, a missing one, wrong types", (239, 241, 242, 326), reading, "fs.readTextFile"),
    ClientCase("leading outside", "links, `..` and paths that lead out of the roots", (245,), links, "fs.readTextFile"),
    ClientCase("writing files", "a new file", (35, 243), writing, "fs.writeTextFile"),
    ClientCase("a session that is not there", "requests that name another session", (384,), no_session),
    ClientCase("files that are not advertised", "fs methods that the client does not offer", (244,), unadvertised),
)  # fmt: skip


# MERGED check.client.scenes.terminals: Terminals of the client: their life from create to release, with several calls at the same time.

LONG: Final = "import os,time; print(os.getpid(), flush=True); time.sleep(90)"
"""A command that says its number, and then runs for longer than anybody waits."""


class CheckedTerminal:
    """A terminal that the client was asked for."""

    def __init__(self, part: ClientUnderTest, id: str) -> None:
        self.part = part
        self.id = id

    @property
    def _named(self) -> dict[str, Any]:
        return {"sessionId": self.part.desk.session, "terminalId": self.id}

    async def call(self, what: str, owes: Rule) -> CallAnswer:
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


async def open_terminal(
    stage: ClientFixture, part: ClientUnderTest, code: str, owes: Rule = 248, **more: Any
) -> CheckedTerminal:
    """Run a bit of Python in a terminal of the client."""
    args = ["-c", code, *more.pop("words", [])]
    params = {"sessionId": part.desk.session, "command": sys.executable, "args": args, **more}
    answer = await part.call("terminal/create", params, owes=owes)
    id = at(answer.result, "terminalId")
    if isinstance(id, str):
        return CheckedTerminal(part, id)
    if not stage.can("allow"):
        raise CaseUnavailable("it did not allow a terminal, and the script does not say how to make it")
    stage.ledger.broken(owes, f"terminal/create gave {answer.says}", answer.shown)
    raise CaseUnavailable(f"terminal/create gave {answer.says}")


async def terminal_turn(stage: ClientFixture) -> ClientTurn:
    """A turn with somebody who allows terminals."""
    return await stage.turn(*stage.if_can("allow"))


async def living(stage: ClientFixture) -> None:
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
    unknown = await CheckedTerminal(part, "nope").call("output", 259)
    ledger.judge(259, not unknown.ok, "an error", f"an unknown terminal gave {unknown.says}", unknown.shown)
    await stage.finish(turn)


async def releasing(stage: ClientFixture) -> None:
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


async def _gone(stage: ClientFixture, number: int) -> bool:
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


async def cancelling(stage: ClientFixture) -> None:
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


async def unadvertised_terminal(stage: ClientFixture) -> None:
    turn = await stage.turn()
    if turn.part.has("terminal"):
        stage.ledger.absent(244, "it advertises them all")
    else:
        params = {"sessionId": turn.part.desk.session, "command": "true"}
        answer = await turn.part.call("terminal/create", params, owes=244)
        bad = f"terminal/create, which it does not advertise, gave {answer.says}"
        stage.ledger.judge(244, answer.code == -32601, "-32601", bad, answer.shown)
    await stage.finish(turn)


TERMINAL_CASES: Final = (
    ClientCase(
        "a terminal's life",
        "a long command: wait, output, kill, release, and what comes after",
        (35, 248, 250, 253, 254, 256, 259),
        living,
        "terminal",
    ),
    ClientCase("releasing a running command", "its process has to go", (255,), releasing, "terminal"),
    ClientCase("cancelling a wait", "$/cancel_request for a pending wait", (51,), cancelling, "terminal"),
    ClientCase(
        "terminals that are not advertised",
        "terminal/create for a client that has none",
        (244,),
        unadvertised_terminal,
    ),
)


# MERGED check.client.scenes.commands: Commands in terminals: arguments, variables and folder, exit codes and signals, the limit of the output, wrong types.

_TELL: Final = "import os,sys; print(os.environ.get('CHECK_WORD'), os.path.realpath(os.getcwd()), *sys.argv[1:], sep='|')"
_MUCH: Final = "import sys; sys.stdout.buffer.write(('é'*49+'ü').encode()); sys.stdout.flush()"


async def honoured(stage: ClientFixture) -> None:
    turn = await terminal_turn(stage)
    part = turn.part
    where = stage.folder / "below"
    where.mkdir()
    terminal = await open_terminal(
        stage,
        part,
        _TELL,
        249,
        env=[{"name": "CHECK_WORD", "value": "marigold"}],
        cwd=str(where),
        words=["two words", "é"],
    )
    await terminal.call("wait_for_exit", 249)
    answer = await terminal.call("output", 249)
    expected = f"marigold|{where}|two words|é"
    text = "".join(str(at(answer.result, "output")).split("\n")).replace("\r", "")
    bad = f"expected {expected!r}, the command saw {text!r}"
    stage.ledger.judge(249, expected in text, "as they were given", bad, answer.shown)
    await terminal.call("release", 249)
    await stage.finish(turn)


async def exits(stage: ClientFixture) -> None:
    turn = await terminal_turn(stage)
    for code, member, expected in (
        ("raise SystemExit(3)", "exitCode", 3),
        ("import os; os.kill(os.getpid(), 9)", "signal", "SIGKILL"),
    ):
        terminal = await open_terminal(stage, turn.part, code, 252)
        answer = await terminal.call("wait_for_exit", 252)
        found = at(answer.result, member)
        kept = found == expected or (
            member == "signal" and isinstance(found, str) and "KILL" in found.upper()
        )
        bad = f"{code!r} gave {answer.says}; expected {member} {expected!r}"
        stage.ledger.judge(252, kept, f"{member} {found!r}", bad, answer.shown)
        await terminal.call("release", 252)
    await stage.finish(turn)


async def limited(stage: ClientFixture) -> None:
    turn = await terminal_turn(stage)
    terminal = await open_terminal(stage, turn.part, _MUCH, 251, outputByteLimit=15)
    await terminal.call("wait_for_exit", 251)
    answer = await terminal.call("output", 251)
    text, cut = at(answer.result, "output"), at(answer.result, "truncated")
    kept = (
        isinstance(text, str)
        and cut is True
        and text.strip("é") == "ü"
        and text.endswith("éü")
        and len(text.encode()) <= 15
    )
    bad = f"100 bytes with a limit of 15 gave {answer.says}"
    stage.ledger.judge(251, kept, "the start was cut between characters", bad, answer.shown)
    await terminal.call("release", 251)
    await stage.finish(turn)


async def types(stage: ClientFixture) -> None:
    turn = await terminal_turn(stage)
    part = turn.part
    made = stage.folder / "made.txt"
    base: dict[str, Any] = {"sessionId": part.desk.session, "command": "touch", "args": [str(made)]}
    for wrong in (
        {"args": "x"},
        {"args": [1]},
        {"cwd": 5},
        {"outputByteLimit": "1"},
        {"outputByteLimit": -1},
    ):
        answer = await part.call("terminal/create", {**base, **wrong}, owes=327)
        kept = answer.code == -32602 and not made.exists()
        bad = f"{wrong} gave {answer.says}; expected -32602"
        stage.ledger.judge(327, kept, f"{wrong} gave -32602", bad, answer.shown)
        made.unlink(missing_ok=True)
    nothing = dict.fromkeys(("env", "cwd", "outputByteLimit", "args"))
    answer = await part.call("terminal/create", {**base, "command": "true", **nothing}, owes=328)
    if answer.ok or stage.can("allow"):
        bad = f"null for all of them gave {answer.says}"
        stage.ledger.judge(328, answer.ok, "null is the default", bad, answer.shown)
    await stage.finish(turn)


COMMAND_CASES: Final = (
    ClientCase("what a command is given", "arguments, a variable, a folder", (249,), honoured, "terminal"),
    ClientCase("how a command ends", "with a code, and by a signal", (252,), exits, "terminal"),
    ClientCase(
        "the limit of the output",
        "more than the limit, in characters of two bytes",
        (251,),
        limited,
        "terminal",
    ),
    ClientCase("types in terminal/create", "wrong ones and nulls", (327, 328), types, "terminal"),
)


CASES: Final = (
    *FILE_CASES,
    *TERMINAL_CASES,
    *COMMAND_CASES,
)
