"""Additional directories: which are refused, which are forgotten, and what lies outside."""

from typing import Any, Final

from accord.check.agent.desk import reject
from accord.check.agent.scene import Scene
from accord.check.agent.stage import ELSEWHERE, WORD, Stage
from accord.check.agent.talk import Talk, Turn
from accord.check.scene import Missing
from accord.trace.exchange import at

_GATE: Final = "sessionCapabilities.additionalDirectories"
_BAD: Final = (["x"], [""], [1], "x")
_UNREAD: Final = "the file in the additional directory was not read, so nothing can be said"


def _reached(turn: Turn, path: str, word: str) -> bool:
    asked = turn.asked("fs/read_text_file")
    return any(at(line.params, "path") == path for line in asked) or word in turn.all_text


async def refused(stage: Stage) -> None:
    talk = await stage.begin()
    for roots in _BAD:
        answer = await talk.new(stage.cwd, additionalDirectories=roots)
        bad = f"additionalDirectories {roots!r} gave {answer.says}; expected -32602"
        stage.ledger.judge(131, answer.code == -32602, "wrong roots are refused", bad, answer.shown)
    session = await stage.session(talk)
    for method, gate in (("session/load", "loadSession"), ("session/resume", "sessionCapabilities.resume")):
        for roots in ("x", [5]):
            if talk.has(gate):
                params: dict[str, Any] = {"sessionId": session, "cwd": stage.cwd, "mcpServers": []}
                answer = await talk.call(method, {**params, "additionalDirectories": roots})
                bad = f"{method} with additionalDirectories {roots!r} gave {answer.says}"
                stage.ledger.judge(325, not answer.ok, "wrong roots are refused", bad, answer.shown)
    if not stage.script.forbidden_root:
        stage.ledger.unseen(132, "the script names no root that the agent would refuse")
        return
    answer = await talk.new(stage.cwd, additionalDirectories=[stage.script.forbidden_root])
    bad = f"a forbidden root gave {answer.says}; expected an error"
    stage.ledger.judge(132, not answer.ok, "a forbidden root is refused", bad, answer.shown)


async def forgotten(stage: Stage) -> None:
    """Roots are those of one opening: load, resume and fork without the field have none."""
    talk = await stage.begin()
    talk.desk.answers["session/request_permission"] = reject
    path = str(stage.extra / "notes.txt")
    session = await stage.session(talk, additionalDirectories=[str(stage.extra)])
    turn = await stage.play(talk, session, "read_path", path=path)
    if not _reached(turn, path, ELSEWHERE):
        raise Missing(_UNREAD)
    again: dict[str, Any] = {"sessionId": session, "cwd": stage.cwd, "mcpServers": []}
    if talk.has("sessionCapabilities.fork"):
        answer = await talk.call("session/fork", again)
        if isinstance(at(answer.result, "sessionId"), str):
            await _outside(talk, stage, 283, answer.result["sessionId"], path)
    else:
        stage.ledger.absent(283, "it does not advertise sessionCapabilities.fork")
    method = "session/resume" if talk.has("sessionCapabilities.resume") else "session/load"
    if method == "session/load" and not talk.has("loadSession"):
        stage.ledger.absent(133, "it neither loads nor resumes sessions")
        return
    if talk.has("sessionCapabilities.close"):
        await talk.call("session/close", {"sessionId": session})
    if (await talk.call(method, again)).ok:
        await _outside(talk, stage, 133, session, path)


async def _outside(talk: Talk, stage: Stage, rule: int, session: str, path: str) -> None:
    turn = await stage.play(talk, session, "read_path", path=path)
    asked = [line for line in turn.asked("fs/read_text_file") if at(line.params, "path") == path]
    # What the model was told before may come up again; only a new reading counts.
    read = bool(asked) or any(
        ELSEWHERE in str(line.update.get("content")) for line in turn.updates("tool_call_update")
    )
    bad = "a root that was not named again is still open"
    stage.ledger.judge(
        rule, not read, "a root that is not named is closed", bad, [line.shown for line in asked]
    )


async def relative(stage: Stage) -> None:
    talk = await stage.begin()
    session = await stage.session(talk, additionalDirectories=[str(stage.extra)])
    turn = await stage.play(talk, session, "read", file="notes.txt")
    shown = [line.shown for line in turn.asked("fs/read_text_file")[:2]]
    if _reached(turn, str(stage.folder / "notes.txt"), WORD):
        stage.ledger.kept(136, "a relative path is one of `cwd`", shown)
    elif _reached(turn, str(stage.extra / "notes.txt"), ELSEWHERE):
        stage.ledger.broken(136, "a relative path was read in an additional directory", shown)
    else:
        stage.ledger.unseen(136, "the file was not read")


async def outside(stage: Stage) -> None:
    talk = await stage.begin()
    talk.desk.answers["session/request_permission"] = reject
    session = await stage.session(talk)
    inside = await stage.play(talk, session, "read_path", path=str(stage.folder / "notes.txt"))
    if not _reached(inside, str(stage.folder / "notes.txt"), WORD):
        raise Missing("the file inside the folder was not read either")
    path = str(stage.spawn / "notes.txt")
    turn = await stage.play(talk, session, "read_path", path=path)
    shown = [line.shown for line in turn.asked("fs/read_text_file")[:2]]
    bad = "a file outside the session's folders was read, though nobody allowed it"
    stage.ledger.judge(137, not _reached(turn, path, ELSEWHERE), "what is outside stays unread", bad, shown)


SCENES: Final = (
    Scene(
        "wrong roots", "relative, empty and mistyped additional directories", (131, 132, 325), refused, _GATE
    ),
    Scene("roots are forgotten", "resume and fork without the field", (133, 283), forgotten, _GATE),
    Scene("relative paths and roots", "one file name in both folders", (136,), relative, _GATE),
    Scene("outside the roots", "a path elsewhere, with every permission refused", (137,), outside),
)
