"""Cases: `session/new`, additional directories, MCP servers."""

import sys
from pathlib import Path
from typing import Any, Final

from accord.check.agent.agent_fixture import (
    NO_STRICT_MODE,
    NOTES_WORD,
    OTHER_NOTES_WORD,
    AgentCases,
    AgentFixture,
    CallCase,
    check_calls,
)
from accord.check.agent.agent_under_test import AgentTurn, AgentUnderTest
from accord.check.agent.client_responder import reject
from accord.check.agent.session_list_cases import list_sessions, own_session_ids
from accord.check.findings import CaseUnavailable, RuleId
from accord.trace.trace_steps import at

case: Final = AgentCases()


_INVALID_SERVERS: Final[tuple[Any, ...]] = ("x", [{"name": "a"}], [5])
_STRICT_SERVERS: Final[tuple[Any, ...]] = (
    {},
    [{"name": "a", "command": "/bin/true", "args": [], "env": {"A": "1"}}],
)
_NULL_MEMBERS: Final[tuple[dict[str, Any], ...]] = (
    {"mcpServers": None},
    {"mcpServers": [], "additionalDirectories": None},
    {"mcpServers": [{"name": "a", "command": "/nonexistent/check", "args": None, "env": None}]},
)
_RELATIVE_FOLDERS: Final = (
    CallCase("session.relative-cwd-refused", "session/new", {"cwd": ".", "mcpServers": []}, "error"),
    CallCase("session.relative-cwd-refused", "session/new", {"cwd": "project", "mcpServers": []}, "error"),
)


@case("session.unique-id session.relative-cwd-refused session.null-reads-as-empty")
async def new_session_ids(fixture: AgentFixture) -> None:
    """New sessions: two sessions, relative folders, null members."""
    agent = await fixture.start_agent()
    first, second = await fixture.new_session(agent), await fixture.new_session(agent)
    frames = agent.lines[-3:]
    fixture.judge(
        "session.unique-id", first != second, "two sessions have different ids", f"both are {first}", *frames
    )
    await check_calls(agent, _RELATIVE_FOLDERS)
    for more in _NULL_MEMBERS:
        answer = await agent.call("session/new", {"cwd": fixture.cwd, **more})
        failure = f"null in session/new gave {answer.summary}"
        fixture.judge("session.null-reads-as-empty", answer.ok, "null reads as empty", failure, answer)


@case("session.mcp-servers-invalid-refused")
async def invalid_mcp_servers(fixture: AgentFixture) -> None:
    """Wrong MCP servers: mcpServers of wrong types on new, load and resume."""
    rule = "session.mcp-servers-invalid-refused"
    agent = await fixture.start_agent()
    session_id = await fixture.new_session(agent)
    before = None
    if agent.advertises("sessionCapabilities.list"):
        before = own_session_ids(fixture, (await list_sessions(agent))[0])
    methods = [("session/new", "")]
    methods += [("session/load", session_id)] if agent.advertises("loadSession") else []
    methods += [("session/resume", session_id)] if agent.advertises("sessionCapabilities.resume") else []
    for method, session in methods:
        for servers in _INVALID_SERVERS:
            params = {
                "cwd": fixture.cwd,
                "mcpServers": servers,
                **({"sessionId": session} if session else {}),
            }
            answer = await agent.call(method, params)
            failure = f"{method} with mcpServers {servers!r} gave {answer.summary}; expected an error"
            fixture.judge(rule, not answer.ok, "wrong mcpServers are refused", failure, answer)
    if before is not None and all(note.outcome == "pass" for note in fixture.notes.for_rule(rule)):
        entries, listing = await list_sessions(agent)
        new_ids = set(own_session_ids(fixture, entries)) - set(before)
        failure = "a refused session/new left a session behind"
        fixture.judge(rule, not new_ids, "and leave no session behind", failure, listing)
    strict = await fixture.start_strict_agent()
    if strict is None:
        fixture.add_skipped_part(rule, NO_STRICT_MODE)
    else:
        for servers in _STRICT_SERVERS:
            answer = await strict.call("session/new", {"cwd": fixture.cwd, "mcpServers": servers})
            failure = f"in strict mode mcpServers {servers!r} gave {answer.summary}"
            fixture.judge(rule, not answer.ok, "also dialects, in strict mode", failure, answer)


@case("session.works-in-cwd")
async def session_folder(fixture: AgentFixture) -> None:
    """The session's folder: a relative path; the agent was started in another folder."""
    # A relative path refers to the session's folder, not to the folder the agent was started in.
    rule = "session.works-in-cwd"
    agent, session = await fixture.open_session()
    turn = await fixture.run_action(agent, session, "read", file="notes.txt")
    paths = [at(line.params, "path") for line in turn.requests("fs/read_text_file")]
    expected_path = str(fixture.folder / "notes.txt")
    frames = turn.requests("fs/read_text_file")[:2]
    if expected_path in paths or NOTES_WORD in turn.all_text:
        fixture.add_pass(rule, "it reads in the session's folder", *frames)
    elif paths or OTHER_NOTES_WORD in turn.all_text:
        fixture.add_fail(rule, "it reads in another folder than the session's", *frames)
    else:
        fixture.add_not_shown(rule, "the file was not read")


@case("session.independent")
async def separate_sessions(fixture: AgentFixture) -> None:
    """Two sessions at once: two prompts at the same time."""
    # Two sessions at the same time must not mix their text.
    rule = "session.independent"
    agent, first = await fixture.open_session()
    second = await fixture.new_session(agent)
    texts = {first: "text-of-the-first-session", second: "text-of-the-second-session"}
    prompts = {
        id: agent.prompt(id, fixture.action("echo").prompt_text(text=text)) for id, text in texts.items()
    }
    for line in prompts.values():
        await agent.finish_turn(line)
    for id, text in texts.items():
        other_text = next(word for key, word in texts.items() if key != id)
        lines = [
            line for line in agent.lines if line.sender == "agent" and line.update and line.session == id
        ]
        text_of_session = "".join(str(at(line.update, "content", "text") or "") for line in lines)
        if other_text in text_of_session:
            mixed_lines = [line for line in lines if other_text in line.data.decode("utf-8", "replace")]
            fixture.add_fail(rule, "text of one session appears in the other", *mixed_lines[:2])
        elif text in text_of_session:
            fixture.add_pass(rule, "each session has only its own text", *lines[-1:])


_DIRECTORIES_CAPABILITY: Final = "sessionCapabilities.additionalDirectories"
_INVALID_DIRECTORIES: Final = (["x"], [""], [1], "x")
_NOT_READ: Final = "the file in the additional directory was not read"


def _was_read(turn: AgentTurn, path: str, word: str) -> bool:
    requests = turn.requests("fs/read_text_file")
    return any(at(line.params, "path") == path for line in requests) or word in turn.all_text


@case(
    "session.roots-invalid-refused session.roots-forbidden-refused session.roots-invalid-on-load",
    _DIRECTORIES_CAPABILITY,
)
async def invalid_directories(fixture: AgentFixture) -> None:
    """Invalid additional directories: relative, empty and mistyped additional directories."""
    rule = "session.roots-forbidden-refused"
    agent = await fixture.start_agent()
    for roots in _INVALID_DIRECTORIES:
        answer = await agent.new_session(fixture.cwd, additionalDirectories=roots)
        failure = f"additionalDirectories {roots!r} gave {answer.summary}; expected -32602"
        reason = "invalid directories are refused"
        fixture.judge("session.roots-invalid-refused", answer.code == -32602, reason, failure, answer)
    session = await fixture.new_session(agent)
    for method, capability in (
        ("session/load", "loadSession"),
        ("session/resume", "sessionCapabilities.resume"),
    ):
        for roots in ("x", [5]):
            if agent.advertises(capability):
                params: dict[str, Any] = {"sessionId": session, "cwd": fixture.cwd, "mcpServers": []}
                answer = await agent.call(method, {**params, "additionalDirectories": roots})
                failure = f"{method} with additionalDirectories {roots!r} gave {answer.summary}"
                reason = "invalid directories are refused"
                fixture.judge("session.roots-invalid-on-load", not answer.ok, reason, failure, answer)
    if not fixture.script.forbidden_root:
        fixture.add_not_shown(rule, "the script names no forbidden root")
        return
    answer = await agent.new_session(fixture.cwd, additionalDirectories=[fixture.script.forbidden_root])
    failure = f"a forbidden root gave {answer.summary}; expected an error"
    fixture.judge(rule, not answer.ok, "a forbidden root is refused", failure, answer)


@case("session.roots-not-kept fork.roots-not-inherited", _DIRECTORIES_CAPABILITY)
async def directories_are_not_kept(fixture: AgentFixture) -> None:
    """Additional directories are not kept: resume and fork without the field."""
    # Additional directories are not kept: load, resume and fork without the field have none.
    rule = "fork.roots-not-inherited"
    agent = await fixture.start_agent()
    agent.responder.overrides["session/request_permission"] = reject
    path = str(fixture.extra / "notes.txt")
    session = await fixture.new_session(agent, additionalDirectories=[str(fixture.extra)])
    turn = await fixture.run_action(agent, session, "read_path", path=path)
    if not _was_read(turn, path, OTHER_NOTES_WORD):
        raise CaseUnavailable(_NOT_READ)
    reopen_params: dict[str, Any] = {"sessionId": session, "cwd": fixture.cwd, "mcpServers": []}
    if agent.advertises("sessionCapabilities.fork"):
        answer = await agent.call("session/fork", reopen_params)
        if isinstance(at(answer.result, "sessionId"), str):
            await _check_outside(agent, fixture, rule, answer.result["sessionId"], path)
    else:
        fixture.add_not_applicable(rule, "it does not advertise sessionCapabilities.fork")
    method = "session/resume" if agent.advertises("sessionCapabilities.resume") else "session/load"
    if method == "session/load" and not agent.advertises("loadSession"):
        fixture.add_not_applicable("session.roots-not-kept", "it neither loads nor resumes sessions")
        return
    if agent.advertises("sessionCapabilities.close"):
        await agent.call("session/close", {"sessionId": session})
    if (await agent.call(method, reopen_params)).ok:
        await _check_outside(agent, fixture, "session.roots-not-kept", session, path)


async def _check_outside(
    agent: AgentUnderTest, fixture: AgentFixture, rule: RuleId, session: str, path: str
) -> None:
    turn = await fixture.run_action(agent, session, "read_path", path=path)
    requests = [line for line in turn.requests("fs/read_text_file") if at(line.params, "path") == path]
    # The model may repeat old text; only a new read counts.
    read = bool(requests) or any(
        OTHER_NOTES_WORD in str(line.update.get("content")) for line in turn.updates("tool_call_update")
    )
    failure = "a directory that was not named again is still accessible"
    fixture.judge(rule, not read, "a directory that is not named is not accessible", failure, *requests)


@case("session.relative-paths-in-cwd", _DIRECTORIES_CAPABILITY)
async def relative_paths(fixture: AgentFixture) -> None:
    """Relative paths: the same file name in `cwd` and in an additional directory."""
    rule = "session.relative-paths-in-cwd"
    agent = await fixture.start_agent()
    session = await fixture.new_session(agent, additionalDirectories=[str(fixture.extra)])
    turn = await fixture.run_action(agent, session, "read", file="notes.txt")
    frames = turn.requests("fs/read_text_file")[:2]
    if _was_read(turn, str(fixture.folder / "notes.txt"), NOTES_WORD):
        fixture.add_pass(rule, "a relative path refers to `cwd`", *frames)
    elif _was_read(turn, str(fixture.extra / "notes.txt"), OTHER_NOTES_WORD):
        fixture.add_fail(rule, "a relative path was read in an additional directory", *frames)
    else:
        fixture.add_not_shown(rule, "the file was not read")


@case("session.files-inside-roots")
async def paths_outside(fixture: AgentFixture) -> None:
    """Paths outside: a path in another folder; every permission is rejected."""
    agent = await fixture.start_agent()
    agent.responder.overrides["session/request_permission"] = reject
    session = await fixture.new_session(agent)
    inside_turn = await fixture.run_action(
        agent, session, "read_path", path=str(fixture.folder / "notes.txt")
    )
    if not _was_read(inside_turn, str(fixture.folder / "notes.txt"), NOTES_WORD):
        raise CaseUnavailable("the file inside the folder was not read")
    path = str(fixture.start_folder / "notes.txt")
    turn = await fixture.run_action(agent, session, "read_path", path=path)
    frames = turn.requests("fs/read_text_file")[:2]
    failure = "a file outside the session's folders was read without permission"
    passed = not _was_read(turn, path, OTHER_NOTES_WORD)
    fixture.judge("session.files-inside-roots", passed, "files outside are not read", failure, *frames)


_POLL_SECONDS: Final = 0.05


def _stdio_server(name: str, log: Path) -> dict[str, Any]:
    args = ["-m", "accord.check.mcp_server_program", str(log)]
    return {"name": name, "command": sys.executable, "args": args, "env": []}


async def _wait_for_logs(agent: AgentUnderTest, logs: list[Path]) -> bool:
    """Wait until all servers were contacted; returns whether they were."""
    deadline = agent.clock.now() + agent.timeouts.soon
    while agent.clock.now() < deadline:
        if all(log.exists() for log in logs):
            return True
        await agent.clock.sleep(_POLL_SECONDS)
    return all(log.exists() for log in logs)


@case("session.stdio-mcp-server session.every-mcp-server")
async def connect_mcp_servers(fixture: AgentFixture) -> None:
    """MCP servers: two stdio servers are attached."""
    agent = await fixture.start_agent()
    logs = [fixture.root / "first-server.log", fixture.root / "second-server.log"]
    servers = [_stdio_server(f"check{number}", log) for number, log in enumerate(logs)]
    session = await fixture.new_session(agent, mcpServers=servers)
    if fixture.has_action("talk") and not all(log.exists() for log in logs):
        await fixture.run_action(agent, session, "talk")
    await _wait_for_logs(agent, logs)
    connected = [log for log in logs if log.exists()]
    frames = [line for line in agent.lines if line.method == "session/new"]
    failure = "no server was contacted"
    fixture.judge("session.stdio-mcp-server", bool(connected), "it contacts a server", failure, *frames)
    if connected:
        failure = f"{len(connected)} of {len(logs)} servers were contacted"
        fixture.judge(
            "session.every-mcp-server", connected == logs, "it contacts every server", failure, *frames
        )


@case("session.broken-mcp-server")
async def broken_mcp_server(fixture: AgentFixture) -> None:
    """A broken MCP server: a command that does not exist."""
    rule = "session.broken-mcp-server"
    agent, session = await fixture.open_session()
    await fixture.require_plain_turn(agent, session)
    server: dict[str, Any] = {"name": "broken", "command": "/nonexistent/check-server", "args": [], "env": []}
    answer = await agent.call("session/new", {"cwd": fixture.cwd, "mcpServers": [server]}, rule=rule)
    if not answer.ok:
        fixture.add_pass(rule, f"session/new reports it: {answer.summary}", answer)
        return
    turn = await agent.run_turn(answer.result["sessionId"], fixture.action("talk").prompt_text(), rule=rule)
    failure = f"with a broken MCP server the turn gave {turn.answer.summary}"
    fixture.judge(rule, turn.answer.ok, "the session works without it", failure, turn.answer)


@case("mcp.declared-server", "mcpCapabilities.acp")
async def mcp_over_acp(fixture: AgentFixture) -> None:
    """MCP over ACP: an MCP server of the client."""
    agent = await fixture.start_agent()
    server = {"type": "acp", "name": "check", "serverId": "check-server"}
    session = await fixture.new_session(agent, mcpServers=[server])
    if fixture.has_action("mcp"):
        await fixture.run_action(agent, session, "mcp")
    if not any(line.method == "mcp/message" for line in agent.lines):
        raise CaseUnavailable("the server over ACP was not used")
