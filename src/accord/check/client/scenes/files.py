"""Files of the client: reading, writing, bounds, links that lead outside, sessions that are not there."""

from pathlib import Path
from typing import Any, Final

from accord.check.client.part import Part
from accord.check.client.scene import Scene
from accord.check.client.stage import Stage
from accord.check.conversation import Answer
from accord.check.ledger import Rule
from accord.trace.exchange import at


async def _read(part: Part, path: Path, owes: Rule = 239, **more: Any) -> Answer:
    params = {"sessionId": part.desk.session, "path": str(path), **more}
    return await part.call("fs/read_text_file", params, owes=owes)


async def reading(stage: Stage) -> None:
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


async def links(stage: Stage) -> None:
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


async def writing(stage: Stage) -> None:
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


async def no_session(stage: Stage) -> None:
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


async def unadvertised(stage: Stage) -> None:
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


SCENES: Final = (
    Scene("reading files", "whole, some lines, a missing one, wrong types", (239, 241, 242, 326), reading, "fs.readTextFile"),
    Scene("leading outside", "links, `..` and paths that lead out of the roots", (245,), links, "fs.readTextFile"),
    Scene("writing files", "a new file", (35, 243), writing, "fs.writeTextFile"),
    Scene("a session that is not there", "requests that name another session", (384,), no_session),
    Scene("files that are not advertised", "fs methods that the client does not offer", (244,), unadvertised),
)  # fmt: skip
