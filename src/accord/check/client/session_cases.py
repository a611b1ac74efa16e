"""Cases: load, resume, list, attachments, sub-agents, MCP over ACP."""

from typing import Any, Final

from accord.check.checked_connection import WireLine
from accord.check.client.agent_responder import Reply, result, without
from accord.check.client.client_fixture import ClientCase, ClientFixture, ClientTurn
from accord.check.client.client_under_test import ClientUnderTest
from accord.trace.trace_steps import at, listed

# MERGED check.client.scenes.returning: Coming back: lists in pages, loading, resuming, and what must not be asked of agents that cannot.

_CURSOR: Final = 'odd +/="é'
_UNASKED: Final = (
    *("auth", "providers"),
    *(
        f"sessionCapabilities.{name}"
        for name in ("close", "fork", "archive", "status", "title", "systemPrompt")
    ),
)


async def _wants(stage: ClientFixture, rule: int, act: str, *lacks: str, **values: str) -> ClientUnderTest:
    """Make it want something of an agent that lacks it; the watch sees whether it asks all the same."""
    stage.need(act)
    stage.desk.initialized["agentCapabilities"] = without(*lacks)
    stage.desk.blamed = rule
    stage.desk.sessions = [_listed(stage, "old")]
    await stage.start(act, **values)
    part = await stage.agent()
    prompt = await part.hears("session/prompt", bound=stage.bounds.soon)
    if prompt is not None:
        part.stop(prompt)
    await stage.over()
    stage.ledger.kept(rule, "made to want it, it did without")
    return part


def _listed(stage: ClientFixture, id: str, updated: str = "2026-01-01T00:00:00Z") -> dict[str, Any]:
    return {"sessionId": id, "cwd": str(stage.folder), "title": id, "updatedAt": updated}


async def no_load(stage: ClientFixture) -> None:
    await _wants(stage, 103, "session", "loadSession", "sessionCapabilities.resume", session="old")


async def no_resume(stage: ClientFixture) -> None:
    await _wants(stage, 109, "session", "sessionCapabilities.resume", session="old")


async def no_list(stage: ClientFixture) -> None:
    await _wants(stage, 116, "newest", "sessionCapabilities.list")


async def gated(stage: ClientFixture) -> None:
    """A turn with an agent that has everything, and one with an agent that has nothing of what some clients use unasked."""
    for lacks in ((), _UNASKED):
        stage.desk.initialized["agentCapabilities"] = without(*lacks)
        turn = await stage.turn()
        await stage.finish(turn)
        await stage.client.end()


async def no_delete(stage: ClientFixture) -> None:
    await _wants(stage, 126, "delete", "sessionCapabilities.delete", session="old")


async def loading(stage: ClientFixture) -> None:
    """An agent that can only load, replays, and answers null."""
    stage.need("session")
    stage.desk.initialized["agentCapabilities"] = without("sessionCapabilities.resume")
    old = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "as before"}}
    stage.desk.before["session/load"] = [
        {"method": "session/update", "params": {"sessionId": "old", "update": old}}
    ]

    def load(_: WireLine) -> Reply:
        stage.desk.session = "old"
        return result(None)

    stage.desk.answers["session/load"] = load
    await stage.start("session", *stage.if_can("roots"), session="old")
    part = await stage.agent()
    asked = await part.hears("session/load")
    if asked is None:
        stage.ledger.unseen(107, "it did not load")
        return
    _roots(stage, asked)
    prompt = await part.prompted(owes=107)
    await stage.finish(ClientTurn(part, prompt), "marigold", (107,))


def _roots(stage: ClientFixture, asked: WireLine) -> None:
    if stage.can("roots"):
        roots = listed(asked.params, "additionalDirectories")
        bad = f"{asked.method} has the folders {roots}"
        stage.ledger.judge(134, roots == [str(stage.extra)], "all of them", bad, [asked.shown])


async def resuming(stage: ClientFixture) -> None:
    stage.need("session")
    await stage.start("session", *stage.if_can("roots"), session="old")
    part = await stage.agent()
    asked = await part.hears("session/resume", "session/load")
    if asked is None:
        stage.ledger.unseen(134, "it did not take up the session")
        return
    _roots(stage, asked)
    await stage.finish(ClientTurn(part, await part.prompted()), "marigold")


async def paging(stage: ClientFixture) -> None:
    """Two pages; the second is the last."""
    stage.need("newest")
    pages: list[WireLine] = []

    def page(line: WireLine) -> Reply:
        pages.append(line)
        if len(pages) == 1:
            return result({"sessions": [_listed(stage, "older")], "nextCursor": _CURSOR})
        return result({"sessions": [_listed(stage, "newer", "2026-02-01T00:00:00Z")]})

    stage.desk.answers["session/list"] = page
    await stage.start("newest")
    part = await stage.agent()
    await part.hears("session/list")
    prompt = await part.hears("session/prompt", bound=stage.bounds.soon)
    if prompt is not None:
        part.stop(prompt)
    await stage.over()
    shown = [line.shown for line in pages]
    if len(pages) > 1:
        cursor = at(pages[1].params, "cursor")
        stage.ledger.judge(122, cursor == _CURSOR, "verbatim", f"the cursor came as {cursor!r}", shown)
        stage.ledger.judge(121, len(pages) == 2, "no further call", "it asked beyond the last page", shown)
        first, second = (at(line.params, "archived") for line in pages[:2])
        if first is not None:
            stage.ledger.judge(339, first == second, "the same", f"{first!r}, then {second!r}", shown)
    elif pages:
        stage.ledger.unseen(122, "it asked for one page only")


LOAD_CASES: Final = (
    ClientCase("no loading", "an old session of an agent that has none", (103,), no_load),
    ClientCase("no resuming", "an old session of an agent that can only load", (109,), no_resume),
    ClientCase("no listing", "the newest session of an agent that has no list", (116,), no_list),
    ClientCase(
        "what it does unasked",
        "a turn with an agent that advertises everything, then with one that does not",
        (86, 113, 282, 295, 330, 341, 346, 351, 357),
        gated,
    ),
    ClientCase("no deleting", "an old session of an agent that cannot delete", (126,), no_delete),
    ClientCase("loading", "a replay, and null as the answer", (107, 134), loading),
    ClientCase("resuming", "an old session, with further folders", (134,), resuming),
    ClientCase("pages of a list", "two pages, and a cursor with odd characters", (121, 122, 339), paging),
)


# MERGED check.client.scenes.carrying: What goes along with sessions and prompts: folders, MCP servers, images, sound, files.

_IMAGE: Final = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c626001000000ffff030000060005"
    "57bfabd40000000049454e44ae426082"
)
_SOUND: Final = b"RIFF\x24\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x40\x1f\x00\x00\x01\x00\x08\x00data\x00\x00\x00\x00"


async def _through(stage: ClientFixture, *acts: str, **values: str) -> ClientUnderTest:
    number = len(stage.parts) + 1
    await stage.start(*acts, **values)
    part = await stage.agent(number)
    prompt = await part.hears("session/prompt", bound=stage.bounds.soon)
    if prompt is not None:
        await stage.finish(ClientTurn(part, prompt))
    else:
        await stage.over()
    await stage.client.end()
    return part


async def folders(stage: ClientFixture) -> None:
    stage.need("roots")
    part = await _through(stage, "roots")
    if not part.calls("session/new"):
        stage.ledger.unseen(130, "it opened no session")


async def no_folders(stage: ClientFixture) -> None:
    stage.need("roots")
    stage.desk.initialized["agentCapabilities"] = without("sessionCapabilities.additionalDirectories")
    await _through(stage, "roots")
    stage.ledger.kept(129, "made to want it, it did without")


async def servers(stage: ClientFixture) -> None:
    stage.need("servers")
    await _through(stage, "servers")


async def no_servers(stage: ClientFixture) -> None:
    stage.need("servers")
    stage.desk.initialized["agentCapabilities"] = without("mcpCapabilities")
    part = await _through(stage, "servers")
    if part.calls("session/new"):
        for rule in (98, 99, 301):
            stage.ledger.kept(rule, "made to want it, it did without")


async def attachments(stage: ClientFixture) -> None:
    """Each kind, of an agent that takes all and of one that takes none."""
    stage.need("attach")
    files = {"picture.png": _IMAGE, "sound.wav": _SOUND, "text.txt": b"text\n"}
    for name, data in files.items():
        (stage.folder / name).write_bytes(data)
    for lacks in ("", "promptCapabilities"):
        stage.desk.initialized["agentCapabilities"] = without(lacks) if lacks else without()
        for name in files:
            await _through(stage, "attach", file=str(stage.folder / name))
    stage.ledger.kept(141, "only what the agent takes")


ATTACHMENT_CASES: Final = (
    ClientCase("further folders", "an agent that takes them", (130,), folders),
    ClientCase("no further folders", "an agent that does not take them", (129,), no_folders),
    ClientCase("MCP servers", "one of each kind", (98, 99, 100, 101), servers),
    ClientCase(
        "no MCP servers over the network", "an agent that takes only its own", (98, 99, 301), no_servers
    ),
    ClientCase(
        "attachments", "an image, sound and a file, for agents that take all or nothing", (141,), attachments
    ),
)


# MERGED check.client.scenes.children: Sub-agents, and MCP servers that the client itself is.


async def child(stage: ClientFixture) -> None:
    """A child is announced, speaks, and reads a file of its parent's folder."""
    turn = await stage.turn(*stage.if_can("allow"))
    part = turn.part
    part.update("subagent_update", sessionId="child-1", title="Tests", state={"state": "running"})
    part.update("agent_message_chunk", "child-1", content={"type": "text", "text": "calendula"})
    await part.barrier(owes=378)
    if part.has("fs.readTextFile"):
        params = {"sessionId": "child-1", "path": str(stage.folder / "notes.txt")}
        answer = await part.call("fs/read_text_file", params, owes=381)
        bad = f"a child that inherits the folder got {answer.says}"
        stage.ledger.judge(381, answer.ok, "the folder is inherited", bad, answer.shown)
        outside = {"sessionId": "child-1", "path": str(stage.outside / "secret.txt")}
        answer = await part.call("fs/read_text_file", outside, owes=381)
        stage.ledger.judge(
            381, not answer.ok, "and no other", "a child read outside of the folders", answer.shown
        )
    part.update("subagent_update", sessionId="child-1", state=None)
    await stage.finish(turn, "marigold", (378,))


async def mcp(stage: ClientFixture) -> None:
    """The client's own MCP server is used: a good call, a bad one, malformed ones."""
    stage.desk.initialized["agentCapabilities"]["mcpCapabilities"]["acp"] = True
    turn = await stage.turn(*stage.if_can("servers"))
    part = turn.part
    servers = [
        at(server, "serverId")
        for line in part.calls("session/new")
        for server in listed(line.params, "mcpServers")
        if at(server, "type") == "acp"
    ]
    if not servers:
        for rule in (301, 365, 367, 368):
            stage.ledger.absent(rule, "it brings no MCP server of its own")
        return
    stage.ledger.kept(301, "advertised, and its ids are its own")
    base: dict[str, Any] = {"serverId": servers[0]}
    for number, method in enumerate(("tools/list", "no/such")):
        request: dict[str, Any] = {**base, "requestId": f"r{number}", "method": method, "params": {}}
        answer = await part.call("mcp/message", request, owes=365)
        result: Any = answer.result
        one = isinstance(result, dict) and ("result" in result) != ("error" in result)
        right = one and ("error" in result) == (method == "no/such")
        bad = f"{method} gave {answer.says}"
        stage.ledger.judge(365, answer.ok and right, "exactly one of both", bad, answer.shown)
    malformed: tuple[dict[str, Any], ...] = (
        {**base, "method": "tools/list"},
        {**base, "requestId": "x", "method": "tools/list", "params": []},
    )
    for params in malformed:
        answer = await part.call("mcp/message", params, owes=368)
        bad = f"a malformed message gave {answer.says}; expected -32602"
        stage.ledger.judge(368, answer.code == -32602, "-32602", bad, answer.shown)
    for number in range(2):
        _quiet(stage, part, f"r{number}")
    await stage.finish(turn)


def _quiet(stage: ClientFixture, part: Any, request: str) -> None:
    """Whether nothing was said of a request after its answer."""
    ended = next(
        (
            line.number
            for line in part.lines
            if line.sender == "client" and line.is_answer and _request(part, line) == request
        ),
        0,
    )
    late = [
        line
        for line in part.calls("mcp/message")
        if at(line.params, "requestId") == request and ended and line.number > ended
    ]
    bad = "it speaks of a request that was answered"
    stage.ledger.judge(367, not late, "nothing after the answer", bad, [line.shown for line in late[:2]])


def _request(part: Any, answer: Any) -> Any:
    asked = next(
        (line for line in part.lines if line.is_request and line.sender == "agent" and line.id == answer.id),
        None,
    )
    return None if asked is None else at(asked.params, "requestId")


SUBAGENT_CASES: Final = (
    ClientCase("a child", "a sub-agent that speaks and reads", (378, 381), child, "subagents"),
    ClientCase("MCP over the wire", "the client's own server", (301, 365, 367, 368), mcp),
)


CASES: Final = (
    *LOAD_CASES,
    *ATTACHMENT_CASES,
    *SUBAGENT_CASES,
)
