"""Cases: load, resume, list, attachments, sub-agents, MCP over ACP."""

from typing import Any, Final

from accord.check.checked_connection import Reply, result_reply
from accord.check.client.agent_responder import capabilities_without
from accord.check.client.client_fixture import ANSWER_TEXT, ClientCases, ClientFixture, ClientTurn
from accord.check.client.client_under_test import text_chunk
from accord.check.findings import RuleId
from accord.trace.trace_steps import at, listed
from accord.trace.wire_line import WireLine

case: Final = ClientCases()


_CURSOR: Final = 'cursor +/="é'
_OPTIONAL_FEATURES: Final = (
    *("auth", "providers"),
    *(
        f"sessionCapabilities.{name}"
        for name in ("close", "fork", "archive", "status", "title", "systemPrompt")
    ),
)


def _add_missing_feature(name: str, about: str, rule: RuleId, action: str, *missing: str) -> None:
    """Add a case: the client is told to use a feature that the agent does not advertise."""

    async def run(fixture: ClientFixture) -> None:
        fixture.require_actions(action)
        fixture.responder.initialize_result["agentCapabilities"] = capabilities_without(*missing)
        fixture.responder.unadvertised_rule = rule
        fixture.responder.sessions = [_session_entry(fixture, "old")]
        await fixture.try_turn(action, session="old")
        fixture.add_pass(rule, "the feature was not used")

    case.add(name, about, rule, run)


def _session_entry(fixture: ClientFixture, id: str, updated: str = "2026-01-01T00:00:00Z") -> dict[str, Any]:
    return {"sessionId": id, "cwd": str(fixture.folder), "title": id, "updatedAt": updated}


_add_missing_feature(
    "agent without load",
    "the session action; the agent cannot load or resume",
    "session.load-needs-capability",
    "session",
    *("loadSession", "sessionCapabilities.resume"),
)


_add_missing_feature(
    "agent without resume",
    "the session action; the agent can only load",
    "session.resume-needs-capability",
    *("session", "sessionCapabilities.resume"),
)


_add_missing_feature(
    "agent without a session list",
    "the newest action",
    "session.list-needs-capability",
    *("newest", "sessionCapabilities.list"),
)


@case(
    "auth.logout-needs-capability session.close-needs-capability fork.needs-capability "
    "provider.needs-capability archive.needs-capability status.needs-capability title.needs-capability "
    "system-prompt.needs-capability auth-status.needs-capability"
)
async def unrequested_methods(fixture: ClientFixture) -> None:
    """Optional methods: a turn with an agent that advertises everything, then with one that does not."""
    for missing in ((), _OPTIONAL_FEATURES):
        fixture.responder.initialize_result["agentCapabilities"] = capabilities_without(*missing)
        turn = await fixture.start_turn()
        await fixture.finish_turn(turn)
        await fixture.process.end()


_add_missing_feature(
    "agent without delete",
    "the delete action",
    "session.delete-needs-capability",
    *("delete", "sessionCapabilities.delete"),
)


@case("session.load-null-result session.roots-sent-again")
async def load_session(fixture: ClientFixture) -> None:
    """Loading a session: a replayed message, and null as the answer."""
    # The agent can only load, replays a message, and answers null.
    rule = "session.load-null-result"
    fixture.require_actions("session")
    fixture.responder.initialize_result["agentCapabilities"] = capabilities_without(
        "sessionCapabilities.resume"
    )
    fixture.responder.before_answer["session/load"] = [text_chunk("replayed text")]

    def load(_: WireLine) -> Reply:
        fixture.responder.session = "old"
        return result_reply(None)

    fixture.responder.overrides["session/load"] = load
    await fixture.start("session", *fixture.available_actions("roots"), session="old")
    client = await fixture.wait_for_connection()
    request = await client.wait_for_call("session/load")
    if request is None:
        fixture.add_not_shown(rule, "it did not load")
        return
    _check_folders(fixture, request)
    prompt = await client.wait_for_prompt(rule=rule)
    await fixture.finish_turn(ClientTurn(client, prompt), ANSWER_TEXT, (rule,))


def _check_folders(fixture: ClientFixture, request: WireLine) -> None:
    if fixture.has_action("roots"):
        roots = listed(request.params, "additionalDirectories")
        failure = f"{request.method} has the folders {roots}"
        reason = "it names all folders"
        fixture.judge("session.roots-sent-again", roots == [str(fixture.extra)], reason, failure, request)


@case("session.roots-sent-again")
async def resume_session(fixture: ClientFixture) -> None:
    """Resuming a session: the session and roots actions."""
    fixture.require_actions("session")
    await fixture.start("session", *fixture.available_actions("roots"), session="old")
    client = await fixture.wait_for_connection()
    request = await client.wait_for_call("session/resume", "session/load")
    if request is None:
        fixture.add_not_shown("session.roots-sent-again", "it did not resume the session")
        return
    _check_folders(fixture, request)
    await fixture.finish_turn(ClientTurn(client, await client.wait_for_prompt()), ANSWER_TEXT)


@case("session.list-last-page session.list-cursor-verbatim archive.filter-kept-in-pages")
async def list_pages(fixture: ClientFixture) -> None:
    """Session list pages: two pages, and a cursor with special characters."""
    rule = "session.list-cursor-verbatim"
    fixture.require_actions("newest")
    pages: list[WireLine] = []

    def page(line: WireLine) -> Reply:
        pages.append(line)
        if len(pages) == 1:
            return result_reply({"sessions": [_session_entry(fixture, "older")], "nextCursor": _CURSOR})
        return result_reply({"sessions": [_session_entry(fixture, "newer", "2026-02-01T00:00:00Z")]})

    fixture.responder.overrides["session/list"] = page
    await fixture.start("newest")
    client = await fixture.wait_for_connection()
    await client.wait_for_call("session/list")
    prompt = await client.wait_for_call("session/prompt", timeout=fixture.timeouts.soon)
    if prompt is not None:
        client.end_turn(prompt)
    await fixture.wait_for_exit()
    frames = pages
    if len(pages) > 1:
        cursor = at(pages[1].params, "cursor")
        fixture.judge(rule, cursor == _CURSOR, "verbatim", f"the cursor was sent as {cursor!r}", *frames)
        failure = "it requested a page after the last one"
        fixture.judge("session.list-last-page", len(pages) == 2, "no further call", failure, *frames)
        first, second = (at(line.params, "archived") for line in pages[:2])
        if first is not None:
            failure = f"{first!r}, then {second!r}"
            fixture.judge("archive.filter-kept-in-pages", first == second, "the same", failure, *frames)
    elif pages:
        fixture.add_not_shown(rule, "it requested only one page")


_IMAGE: Final = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
    "0000000d49444154789c626001000000ffff030000060005"
    "57bfabd40000000049454e44ae426082"
)
_AUDIO: Final = (
    b"RIFF\x24\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00"
    b"\x40\x1f\x00\x00\x01\x00\x08\x00data\x00\x00\x00\x00"
)


@case("session.roots-absolute")
async def additional_folders(fixture: ClientFixture) -> None:
    """Additional directories: an agent that supports them."""
    fixture.require_actions("roots")
    client = await fixture.try_turn("roots")
    if not client.calls("session/new"):
        fixture.add_not_shown("session.roots-absolute", "it opened no session")


@case("session.roots-need-capability")
async def unsupported_folders(fixture: ClientFixture) -> None:
    """Agent without additional directories: the roots action."""
    fixture.require_actions("roots")
    fixture.responder.initialize_result["agentCapabilities"] = capabilities_without(
        "sessionCapabilities.additionalDirectories"
    )
    await fixture.try_turn("roots")
    fixture.add_pass("session.roots-need-capability", "the feature was not used")


@case(
    "session.http-mcp-needs-capability session.sse-mcp-needs-capability session.stdio-mcp-members "
    "session.http-mcp-members"
)
async def mcp_servers(fixture: ClientFixture) -> None:
    """MCP servers: one of each kind."""
    fixture.require_actions("servers")
    await fixture.try_turn("servers")


@case("session.http-mcp-needs-capability session.sse-mcp-needs-capability mcp.needs-capability")
async def unsupported_mcp_servers(fixture: ClientFixture) -> None:
    """Agent without HTTP and SSE servers: the servers action; the agent supports only stdio servers."""
    fixture.require_actions("servers")
    fixture.responder.initialize_result["agentCapabilities"] = capabilities_without("mcpCapabilities")
    client = await fixture.try_turn("servers")
    if client.calls("session/new"):
        for rule in (
            "session.http-mcp-needs-capability",
            "session.sse-mcp-needs-capability",
            "mcp.needs-capability",
        ):
            fixture.add_pass(rule, "the feature was not used")


@case("prompt.blocks-need-capability")
async def attachments(fixture: ClientFixture) -> None:
    """Attachments: an image, audio and a text file, for agents that support all or none."""
    fixture.require_actions("attach")
    files = {"picture.png": _IMAGE, "sound.wav": _AUDIO, "text.txt": b"text\n"}
    for name, data in files.items():
        (fixture.folder / name).write_bytes(data)
    for missing in ("", "promptCapabilities"):
        fixture.responder.initialize_result["agentCapabilities"] = (
            capabilities_without(missing) if missing else capabilities_without()
        )
        for name in files:
            await fixture.try_turn("attach", file=str(fixture.folder / name))
    fixture.add_pass("prompt.blocks-need-capability", "only supported kinds were sent")


@case("subagent.updates-accepted subagent.inherited-roots", "subagents")
async def subagent(fixture: ClientFixture) -> None:
    """A sub-agent: a sub-agent sends text and reads a file."""
    # A sub-agent is announced, sends text, and reads a file of its parent's folder.
    rule = "subagent.inherited-roots"
    turn = await fixture.start_turn(*fixture.available_actions("allow"))
    client = turn.client
    client.update("subagent_update", sessionId="child-1", title="Tests", state={"state": "running"})
    client.update("agent_message_chunk", "child-1", content={"type": "text", "text": "TextOfTheSubAgent"})
    await client.ping(rule="subagent.updates-accepted")
    if client.advertises("fs.readTextFile"):
        params = {"sessionId": "child-1", "path": str(fixture.folder / "notes.txt")}
        answer = await client.call("fs/read_text_file", params, rule=rule)
        failure = f"reading in the inherited folder returned {answer.summary}"
        fixture.judge(rule, answer.ok, "a sub-agent can read its parent's folder", failure, answer)
        outside = {"sessionId": "child-1", "path": str(fixture.outside / "secret.txt")}
        answer = await client.call("fs/read_text_file", outside, rule=rule)
        failure = "a sub-agent read outside the folders"
        fixture.judge(rule, not answer.ok, "a sub-agent can read no other folder", failure, answer)
    client.update("subagent_update", sessionId="child-1", state=None)
    await fixture.finish_turn(turn, ANSWER_TEXT, ("subagent.updates-accepted",))


@case("mcp.needs-capability mcp.result-or-error mcp.notification-of-active-request mcp.malformed-refused")
async def mcp_over_acp(fixture: ClientFixture) -> None:
    """MCP over ACP: calls to the client's own MCP server."""
    rule = "mcp.malformed-refused"
    fixture.responder.initialize_result["agentCapabilities"]["mcpCapabilities"]["acp"] = True
    turn = await fixture.start_turn(*fixture.available_actions("servers"))
    client = turn.client
    mcp_servers = [
        at(server, "serverId")
        for line in client.calls("session/new")
        for server in listed(line.params, "mcpServers")
        if at(server, "type") == "acp"
    ]
    if not mcp_servers:
        fixture.add_not_applicable(
            "mcp.needs-capability mcp.result-or-error mcp.notification-of-active-request "
            "mcp.malformed-refused",
            "it has no MCP server of its own",
        )
        return
    fixture.add_pass("mcp.needs-capability", "the agent advertises it, and server ids are unique")
    server_params: dict[str, Any] = {"serverId": mcp_servers[0]}
    for number, method in enumerate(("tools/list", "no/such")):
        request: dict[str, Any] = {**server_params, "requestId": f"r{number}", "method": method, "params": {}}
        answer = await client.call("mcp/message", request, rule="mcp.result-or-error")
        inner: Any = answer.result
        one_member = isinstance(inner, dict) and ("result" in inner) != ("error" in inner)
        correct = one_member and ("error" in inner) == (method == "no/such")
        failure = f"{method} gave {answer.summary}"
        fixture.judge(
            "mcp.result-or-error", answer.ok and correct, "exactly one of result and error", failure, answer
        )
    malformed: tuple[dict[str, Any], ...] = (
        {**server_params, "method": "tools/list"},
        {**server_params, "requestId": "x", "method": "tools/list", "params": []},
    )
    for params in malformed:
        answer = await client.call("mcp/message", params, rule=rule)
        failure = f"a malformed message gave {answer.summary}; expected -32602"
        fixture.judge(rule, answer.code == -32602, "-32602", failure, answer)
    for number in range(2):
        _check_nothing_after_answer(fixture, client, f"r{number}")
    await fixture.finish_turn(turn)


def _check_nothing_after_answer(fixture: ClientFixture, client: Any, request: str) -> None:
    """Judge that no message about a request follows its answer."""
    answer_number = next(
        (
            line.number
            for line in client.lines
            if line.sender == "client" and line.is_answer and _mcp_request_id(client, line) == request
        ),
        0,
    )
    late_calls = [
        line
        for line in client.calls("mcp/message")
        if at(line.params, "requestId") == request and answer_number and line.number > answer_number
    ]
    failure = "a message about an answered request"
    reason = "nothing after the answer"
    fixture.judge("mcp.notification-of-active-request", not late_calls, reason, failure, *late_calls[:2])


def _mcp_request_id(client: Any, answer: Any) -> Any:
    request = next(
        (
            line
            for line in client.lines
            if line.is_request and line.sender == "agent" and line.id == answer.id
        ),
        None,
    )
    return None if request is None else at(request.params, "requestId")
