"""`session/new`: ids, folders, strict and lenient members."""

from typing import Any, Final

from accord.check.agent.scene import Scene
from accord.check.agent.stage import ELSEWHERE, NO_STRICT_MODE, WORD, Stage
from accord.check.agent.tries import Try, play
from accord.trace.exchange import at, listed

_BAD_SERVERS: Final[tuple[Any, ...]] = ("x", [{"name": "a"}], [5])
_STRICT_SERVERS: Final[tuple[Any, ...]] = (
    {},
    [{"name": "a", "command": "/bin/true", "args": [], "env": {"A": "1"}}],
)
_NULLS: Final[tuple[dict[str, Any], ...]] = (
    {"mcpServers": None},
    {"mcpServers": [], "additionalDirectories": None},
    {"mcpServers": [{"name": "a", "command": "/nonexistent/check", "args": None, "env": None}]},
)
_TRIES: Final = (
    Try(93, "session/new", {"cwd": ".", "mcpServers": []}, "error"),
    Try(93, "session/new", {"cwd": "project", "mcpServers": []}, "error"),
)


async def ids(stage: Stage) -> None:
    talk = await stage.begin()
    first, second = await stage.session(talk), await stage.session(talk)
    shown = [line.shown for line in talk.lines[-3:]]
    stage.ledger.judge(92, first != second, "two sessions, two ids", f"both are {first}", shown)
    await play(talk, _TRIES)
    for more in _NULLS:
        answer = await talk.call("session/new", {"cwd": stage.cwd, **more})
        bad = f"null in session/new gave {answer.says}"
        stage.ledger.judge(324, answer.ok, "null reads as empty", bad, answer.shown)


async def bad_servers(stage: Stage) -> None:
    talk = await stage.begin()
    kept = await stage.session(talk)
    before = None
    if talk.has("sessionCapabilities.list"):
        before = _sessions((await talk.call("session/list", {})).result)
    methods = [("session/new", "")]
    methods += [("session/load", kept)] if talk.has("loadSession") else []
    methods += [("session/resume", kept)] if talk.has("sessionCapabilities.resume") else []
    for method, session in methods:
        for servers in _BAD_SERVERS:
            params = {"cwd": stage.cwd, "mcpServers": servers, **({"sessionId": session} if session else {})}
            answer = await talk.call(method, params)
            bad = f"{method} with mcpServers {servers!r} gave {answer.says}; expected an error"
            stage.ledger.judge(323, not answer.ok, "wrong mcpServers are refused", bad, answer.shown)
    if before is not None and all(note.outcome == "kept" for note in stage.ledger.of(323)):
        listed_now = await talk.call("session/list", {})
        more = _sessions(listed_now.result) - before
        bad = "a refused session/new left a session behind"
        stage.ledger.judge(323, not more, "and leave no session behind", bad, listed_now.shown)
    strict = await stage.strict()
    if strict is None:
        stage.ledger.untried(323, NO_STRICT_MODE)
    else:
        for servers in _STRICT_SERVERS:
            answer = await strict.call("session/new", {"cwd": stage.cwd, "mcpServers": servers})
            bad = f"in strict mode mcpServers {servers!r} gave {answer.says}"
            stage.ledger.judge(323, not answer.ok, "also dialects, in strict mode", bad, answer.shown)


def _sessions(result: object) -> set[str]:
    return {str(at(one, "sessionId")) for one in listed(result, "sessions")}


async def folders(stage: Stage) -> None:
    """A relative path is one of the session's folder, not of the folder the process was started in."""
    talk, session = await stage.open()
    turn = await stage.play(talk, session, "read", file="notes.txt")
    paths = [at(line.params, "path") for line in turn.asked("fs/read_text_file")]
    here = str(stage.folder / "notes.txt")
    shown = [line.shown for line in turn.asked("fs/read_text_file")[:2]]
    if here in paths or WORD in turn.all_text:
        stage.ledger.kept(94, "it reads in the session's folder", shown)
    elif paths or ELSEWHERE in turn.all_text:
        stage.ledger.broken(94, "it reads in another folder than the session's", shown)
    else:
        stage.ledger.unseen(94, "the file was not read")


async def apart(stage: Stage) -> None:
    """Two sessions at the same time: what is said in one does not come up in the other."""
    talk, one = await stage.open()
    other = await stage.session(talk)
    texts = {one: "cornflower", other: "dandelion"}
    asked = {id: talk.prompt(id, stage.act("echo").filled(text=text)) for id, text in texts.items()}
    for line in asked.values():
        await talk.turn_of(line)
    for id, text in texts.items():
        foreign = next(word for key, word in texts.items() if key != id)
        own = [line for line in talk.lines if line.sender == "agent" and line.update and line.session == id]
        said = "".join(str(at(line.update, "content", "text") or "") for line in own)
        if foreign in said:
            crossed = [line.shown for line in own if foreign in line.data.decode("utf-8", "replace")]
            stage.ledger.broken(138, "what was said in one session comes up in the other", crossed[:2])
        elif text in said:
            stage.ledger.kept(138, "each session has its own words", [line.shown for line in own[-1:]])


SCENES: Final = (
    Scene("new sessions", "two sessions, relative folders, null members", (92, 93, 324), ids),
    Scene("wrong MCP servers", "mcpServers of wrong types on new, load and resume", (323,), bad_servers),
    Scene("the session's folder", "a relative path, with another folder to be started in", (94,), folders),
    Scene("two sessions at once", "two prompts side by side", (138,), apart),
)
