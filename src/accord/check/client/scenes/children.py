"""Sub-agents, and MCP servers that the client itself is."""

from typing import Any, Final

from accord.check.client.scene import Scene
from accord.check.client.stage import Stage
from accord.trace.exchange import at, listed


async def child(stage: Stage) -> None:
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


async def mcp(stage: Stage) -> None:
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


def _quiet(stage: Stage, part: Any, request: str) -> None:
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


SCENES: Final = (
    Scene("a child", "a sub-agent that speaks and reads", (378, 381), child, "subagents"),
    Scene("MCP over the wire", "the client's own server", (301, 365, 367, 368), mcp),
)
