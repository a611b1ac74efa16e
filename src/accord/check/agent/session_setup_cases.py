"""Cases: `session/new`, additional directories, MCP servers."""

import sys
from pathlib import Path
from typing import Any, Final

from accord.check.agent.agent_fixture import (
    ELSEWHERE,
    NO_STRICT_MODE,
    WORD,
    AgentCase,
    AgentFixture,
    CallCase,
    play,
)
from accord.check.agent.agent_under_test import AgentTurn, AgentUnderTest
from accord.check.agent.client_responder import reject
from accord.check.findings import CaseUnavailable
from accord.trace.trace_steps import at, listed

# MERGED check.agent.scenes.opening: `session/new`: ids, folders, strict and lenient members.

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
    CallCase(93, "session/new", {"cwd": ".", "mcpServers": []}, "error"),
    CallCase(93, "session/new", {"cwd": "project", "mcpServers": []}, "error"),
)


async def ids(stage: AgentFixture) -> None:
    talk = await stage.begin()
    first, second = await stage.session(talk), await stage.session(talk)
    shown = [line.shown for line in talk.lines[-3:]]
    stage.ledger.judge(92, first != second, "two sessions, two ids", f"both are {first}", shown)
    await play(talk, _TRIES)
    for more in _NULLS:
        answer = await talk.call("session/new", {"cwd": stage.cwd, **more})
        bad = f"null in session/new gave {answer.says}"
        stage.ledger.judge(324, answer.ok, "null reads as empty", bad, answer.shown)


async def bad_servers(stage: AgentFixture) -> None:
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


async def folders(stage: AgentFixture) -> None:
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


async def apart(stage: AgentFixture) -> None:
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


NEW_SESSION_CASES: Final = (
    AgentCase("new sessions", "two sessions, relative folders, null members", (92, 93, 324), ids),
    AgentCase("wrong MCP servers", "mcpServers of wrong types on new, load and resume", (323,), bad_servers),
    AgentCase(
        "the session's folder", "a relative path, with another folder to be started in", (94,), folders
    ),
    AgentCase("two sessions at once", "two prompts side by side", (138,), apart),
)


# MERGED check.agent.scenes.roots: Additional directories: which are refused, which are forgotten, and what lies outside.

_GATE: Final = "sessionCapabilities.additionalDirectories"
_BAD: Final = (["x"], [""], [1], "x")
_UNREAD: Final = "the file in the additional directory was not read, so nothing can be said"


def _reached(turn: AgentTurn, path: str, word: str) -> bool:
    asked = turn.asked("fs/read_text_file")
    return any(at(line.params, "path") == path for line in asked) or word in turn.all_text


async def refused(stage: AgentFixture) -> None:
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


async def forgotten(stage: AgentFixture) -> None:
    """Roots are those of one opening: load, resume and fork without the field have none."""
    talk = await stage.begin()
    talk.desk.answers["session/request_permission"] = reject
    path = str(stage.extra / "notes.txt")
    session = await stage.session(talk, additionalDirectories=[str(stage.extra)])
    turn = await stage.play(talk, session, "read_path", path=path)
    if not _reached(turn, path, ELSEWHERE):
        raise CaseUnavailable(_UNREAD)
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


async def _outside(talk: AgentUnderTest, stage: AgentFixture, rule: int, session: str, path: str) -> None:
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


async def relative(stage: AgentFixture) -> None:
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


async def outside(stage: AgentFixture) -> None:
    talk = await stage.begin()
    talk.desk.answers["session/request_permission"] = reject
    session = await stage.session(talk)
    inside = await stage.play(talk, session, "read_path", path=str(stage.folder / "notes.txt"))
    if not _reached(inside, str(stage.folder / "notes.txt"), WORD):
        raise CaseUnavailable("the file inside the folder was not read either")
    path = str(stage.spawn / "notes.txt")
    turn = await stage.play(talk, session, "read_path", path=path)
    shown = [line.shown for line in turn.asked("fs/read_text_file")[:2]]
    bad = "a file outside the session's folders was read, though nobody allowed it"
    stage.ledger.judge(137, not _reached(turn, path, ELSEWHERE), "what is outside stays unread", bad, shown)


DIRECTORY_CASES: Final = (
    AgentCase(
        "wrong roots", "relative, empty and mistyped additional directories", (131, 132, 325), refused, _GATE
    ),
    AgentCase("roots are forgotten", "resume and fork without the field", (133, 283), forgotten, _GATE),
    AgentCase("relative paths and roots", "one file name in both folders", (136,), relative, _GATE),
    AgentCase("outside the roots", "a path elsewhere, with every permission refused", (137,), outside),
)


# MERGED check.agent.scenes.servers: MCP servers: attached ones are contacted, a broken one harms nobody, those over ACP are spoken to as declared.

_STEP: Final = 0.05


def _server(name: str, mark: Path) -> dict[str, Any]:
    args = ["-m", "accord.check.mcp_server_program", str(mark)]
    return {"name": name, "command": sys.executable, "args": args, "env": []}


async def _marked(talk: AgentUnderTest, marks: list[Path]) -> bool:
    """Whether all servers were contacted in time."""
    deadline = talk.clock.now() + talk.bounds.soon
    while talk.clock.now() < deadline:
        if all(mark.exists() for mark in marks):
            return True
        await talk.clock.sleep(_STEP)
    return all(mark.exists() for mark in marks)


async def attached(stage: AgentFixture) -> None:
    talk = await stage.begin()
    marks = [stage.root / "first.mark", stage.root / "second.mark"]
    servers = [_server(f"check{number}", mark) for number, mark in enumerate(marks)]
    session = await stage.session(talk, mcpServers=servers)
    if stage.can("talk") and not all(mark.exists() for mark in marks):
        await stage.play(talk, session, "talk")
    await _marked(talk, marks)
    met = [mark for mark in marks if mark.exists()]
    shown = [line.shown for line in talk.lines if line.method == "session/new"]
    stage.ledger.judge(95, bool(met), "it contacts a server", "no server was contacted", shown)
    if met:
        bad = f"{len(met)} of {len(marks)} servers were contacted"
        stage.ledger.judge(96, met == marks, "it contacts every server", bad, shown)


async def broken(stage: AgentFixture) -> None:
    talk, session = await stage.open()
    await stage.works(talk, session)
    server: dict[str, Any] = {"name": "broken", "command": "/nonexistent/check-server", "args": [], "env": []}
    answer = await talk.call("session/new", {"cwd": stage.cwd, "mcpServers": [server]}, owes=97)
    if not answer.ok:
        stage.ledger.kept(97, f"session/new says so: {answer.says}", answer.shown)
        return
    turn = await talk.turn(answer.result["sessionId"], stage.act("talk").filled(), owes=97)
    bad = f"with a broken MCP server the turn gave {turn.answer.says}"
    stage.ledger.judge(97, turn.answer.ok, "the session works without it", bad, turn.answer.shown)


async def over_acp(stage: AgentFixture) -> None:
    talk = await stage.begin()
    server = {"type": "acp", "name": "check", "serverId": "check-server"}
    session = await stage.session(talk, mcpServers=[server])
    if stage.can("mcp"):
        await stage.play(talk, session, "mcp")
    if not any(line.method == "mcp/message" for line in talk.lines):
        raise CaseUnavailable("the server over ACP was never spoken to")


MCP_CASES: Final = (
    AgentCase("MCP servers", "two stdio servers are attached", (95, 96), attached),
    AgentCase("a broken MCP server", "a command that does not exist", (97,), broken),
    AgentCase("MCP over ACP", "a server that lives in the client", (364,), over_acp, "mcpCapabilities.acp"),
)


CASES: Final = (
    *NEW_SESSION_CASES,
    *DIRECTORY_CASES,
    *MCP_CASES,
)
