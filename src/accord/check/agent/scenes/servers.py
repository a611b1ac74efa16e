"""MCP servers: attached ones are contacted, a broken one harms nobody, those over ACP are spoken to as declared."""

import sys
from pathlib import Path
from typing import Any, Final

from accord.check.agent.scene import Scene
from accord.check.agent.stage import Stage
from accord.check.agent.talk import Talk
from accord.check.scene import Missing

_STEP: Final = 0.05


def _server(name: str, mark: Path) -> dict[str, Any]:
    args = ["-m", "accord.check.agent.mcp", str(mark)]
    return {"name": name, "command": sys.executable, "args": args, "env": []}


async def _marked(talk: Talk, marks: list[Path]) -> bool:
    """Whether all servers were contacted in time."""
    deadline = talk.clock.now() + talk.bounds.soon
    while talk.clock.now() < deadline:
        if all(mark.exists() for mark in marks):
            return True
        await talk.clock.sleep(_STEP)
    return all(mark.exists() for mark in marks)


async def attached(stage: Stage) -> None:
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


async def broken(stage: Stage) -> None:
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


async def over_acp(stage: Stage) -> None:
    talk = await stage.begin()
    server = {"type": "acp", "name": "check", "serverId": "check-server"}
    session = await stage.session(talk, mcpServers=[server])
    if stage.can("mcp"):
        await stage.play(talk, session, "mcp")
    if not any(line.method == "mcp/message" for line in talk.lines):
        raise Missing("the server over ACP was never spoken to")


SCENES: Final = (
    Scene("MCP servers", "two stdio servers are attached", (95, 96), attached),
    Scene("a broken MCP server", "a command that does not exist", (97,), broken),
    Scene("MCP over ACP", "a server that lives in the client", (364,), over_acp, "mcpCapabilities.acp"),
)
