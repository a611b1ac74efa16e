"""Commands in terminals: arguments, variables and folder, exit codes and signals, the limit of the output, wrong types."""

from typing import Any, Final

from accord.check.client.scene import Scene
from accord.check.client.scenes.terminals import open_terminal, terminal_turn
from accord.check.client.stage import Stage
from accord.trace.exchange import at

_TELL: Final = "import os,sys; print(os.environ.get('CHECK_WORD'), os.path.realpath(os.getcwd()), *sys.argv[1:], sep='|')"
_MUCH: Final = "import sys; sys.stdout.buffer.write(('é'*49+'ü').encode()); sys.stdout.flush()"


async def honoured(stage: Stage) -> None:
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


async def exits(stage: Stage) -> None:
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


async def limited(stage: Stage) -> None:
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


async def types(stage: Stage) -> None:
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


SCENES: Final = (
    Scene("what a command is given", "arguments, a variable, a folder", (249,), honoured, "terminal"),
    Scene("how a command ends", "with a code, and by a signal", (252,), exits, "terminal"),
    Scene(
        "the limit of the output",
        "more than the limit, in characters of two bytes",
        (251,),
        limited,
        "terminal",
    ),
    Scene("types in terminal/create", "wrong ones and nulls", (327, 328), types, "terminal"),
)
