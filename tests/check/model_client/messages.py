"""The messages of the model client, and how it reads updates."""

from typing import Any

Message = dict[str, Any]


def capabilities(lacks: tuple[str, ...]) -> Message:
    """The capabilities it offers."""
    offered: Message = {
        "fs": {"readTextFile": True, "writeTextFile": True},
        "terminal": True,
        "session": {"notices": {}},
        "elicitation": {"form": {}, "url": {}},
        "subagents": {},
        "_meta": {"model": {}},
    }
    for name in lacks:
        (offered["elicitation"] if name in ("form", "url") else offered).pop(name, None)
    if "notices" in lacks:
        del offered["session"]
    return offered


def initialize(broken: Any, offered: Message) -> Message:
    """The params of `initialize`."""
    key = "capabilities" if broken == "initialize.client-capabilities-member" else "clientCapabilities"
    if broken == "extension.client-announced":
        offered.pop("_meta")
    if broken == "schema":
        offered["terminal"] = "yes"
    info = {} if broken == "initialize.client-info" else {"clientInfo": {"name": "model", "version": "1"}}
    return {"protocolVersion": "1" if broken == "initialize.version-sent" else 1, key: offered, **info}


def new_session(client: Any) -> Message:
    """The params that all methods to open a session share."""
    params: Message = {
        "cwd": "." if client.breaks("session.absolute-cwd") else str(client.folder),
        "mcpServers": [],
    }
    root = client.option("roots")
    resumes = client.option("session")
    supported = client.has("sessionCapabilities.additionalDirectories") or client.breaks(
        "session.roots-need-capability"
    )
    if root and supported and not (resumes and client.breaks("session.roots-sent-again")):
        params["additionalDirectories"] = ["extra" if client.breaks("session.roots-absolute") else root]
    if client.has("sessionCapabilities.systemPrompt") or client.breaks("system-prompt.needs-capability"):
        params["systemPrompt"] = {"mode": "append", "content": [{"type": "text", "text": "Be brief."}]}
    return params


def servers(client: Any) -> list[Message]:
    """The MCP servers that the agent supports."""
    if not client.option("servers"):
        return []
    own: Message = {"name": "own", "command": "/bin/true", "args": [], "env": []}
    web: Message = {"type": "http", "name": "web", "url": "https://mcp.example", "headers": []}
    if client.breaks("session.stdio-mcp-members"):
        del own["env"]
    if client.breaks("session.http-mcp-members"):
        del web["headers"]
    found = [own]
    if client.has("mcpCapabilities.http") or client.breaks("session.http-mcp-needs-capability"):
        found.append(web)
    if client.has("mcpCapabilities.sse") or client.breaks("session.sse-mcp-needs-capability"):
        found.append({"type": "sse", "name": "old", "url": "https://mcp.example", "headers": []})
    if client.has("mcpCapabilities.acp") or client.breaks("mcp.needs-capability"):
        found.append({"type": "acp", "name": "ide", "serverId": "ide"})
    return found


def readable(params: Any, *, repair: bool) -> Message | None:
    """The update, or None if it cannot be read."""
    if not isinstance(params, dict):
        return None
    update = params.get("update")
    if repair and update is None and "sessionUpdate" in params:
        update = {name: value for name, value in params.items() if name != "sessionId"}
    if not isinstance(update, dict):
        return None
    if repair and "sessionUpdate" not in update and "type" in update:
        update = {**update, "sessionUpdate": update["type"]}
    if repair and isinstance(update.get("text"), str) and "content" not in update:
        update = {**update, "content": {"type": "text", "text": update["text"]}}
    return update
