"""Repairs of what opens a connection or a session: capabilities, auth methods, MCP servers, environments."""

from typing import Any, Final

from accord.schema.dialects.content import rename_label
from accord.schema.dialects.members import Object, Rows, each_in, is_array, is_object, move, twins
from accord.schema.dialects.provenance import VARIABLES


def initialize_params(params: Object, rows: Rows) -> Object:
    """Client capabilities under another key (rows 37, 204). Nothing inside them is guessed: wrong names stay off."""
    params = dict(params)
    twins(params, "protocolVersion", "clientCapabilities", "clientInfo", rows=rows)
    version = params.get("protocolVersion")
    # Under a later version `capabilities` is that version's own object, which says nothing about this one.
    if type(version) is int and version == 1 and is_object(params.get("capabilities")):
        move(params, "clientCapabilities", "capabilities", row=37, rows=rows)
    offered = params.get("clientCapabilities")
    if is_object(offered) and is_object(offered.get("planCapabilities")):
        params["clientCapabilities"] = offered = dict(offered)
        move(offered, "plan", "planCapabilities", row=204, rows=rows)
    return params


def initialize_result(result: Object, rows: Rows) -> Object:
    """Keys, auth methods, and the boolean gate of an early `auth/status` (rows 73, 205, 207)."""
    result = dict(result)
    twins(result, "protocolVersion", "agentCapabilities", "agentInfo", "authMethods", rows=rows)
    each_in(result, "authMethods", _auth_method, rows)
    offered = result.get("agentCapabilities")
    if is_object(offered) and is_object(auth := offered.get("auth")) and auth.get("status") is True:
        result["agentCapabilities"] = offered | {"auth": auth | {"status": {}}}
        rows.add(207)
    return result


def _auth_method(method: Object, rows: Rows) -> Object:
    method = dict(method)
    rename_label(method, "name", rows)
    if method.get("type") == "env_var" and is_array(listed := method.get("vars")):
        names = [one.get("name") for one in listed if is_object(one)]
        meta = method.get("_meta")
        kept = [name for name in names if isinstance(name, str)]
        method["_meta"] = {**(meta if is_object(meta) else {}), VARIABLES: kept}
        rows.add(205)
    return method


def auth_status(result: Object, rows: Rows) -> Object:
    """`authenticated: true` of an early draft (row 207)."""
    if "state" in result or not isinstance(result.get("authenticated"), bool):
        return result
    rows.add(207)
    return result | {"state": "authenticated" if result["authenticated"] else "unauthenticated"}


def session_params(params: Object, rows: Rows, *, servers_required: bool) -> Object:
    """The parameters that set up a session. Roots are never touched: leniency neither adds nor drops one."""
    params = dict(params)
    twins(params, "sessionId", "mcpServers", "systemPrompt", rows=rows)
    if "mcpServers" in params:
        params["mcpServers"] = _servers(params["mcpServers"], rows)
    elif servers_required:
        params["mcpServers"] = []
        rows.add(32)
    return params


def _servers(value: Any, rows: Rows) -> Any:
    if is_object(value):
        if not all(is_object(server) for server in value.values()):
            return value
        rows.add(33)
        value = [{"name": name, **server} for name, server in value.items()]
    return (
        [_server(server, rows) if is_object(server) else server for server in value]
        if is_array(value)
        else value
    )


def _server(server: Object, rows: Rows) -> Object:
    server = dict(server)
    kind = server.get("type")
    if kind in ("http", "sse"):
        pairs(server, "headers", rows, required=True)
    elif kind == "acp":
        twins(server, "serverId", rows=rows)
        move(server, "serverId", "id", "acpId", row=74, rows=rows)
    elif "command" in server:
        if kind == "stdio":
            del server["type"]
            rows.add(34)
        if "args" not in server:
            server["args"] = []
            rows.add(35)
        pairs(server, "env", rows, required=True)
    return server


def pairs(obj: Object, key: str, rows: Rows, *, required: bool = False) -> None:
    """A map of strings in place of a list of name and value (row 35)."""
    if key not in obj:
        if required:
            obj[key] = []
            rows.add(35)
        return
    value = obj[key]
    if is_object(value) and all(isinstance(text, str) for text in value.values()):
        obj[key] = [{"name": name, "value": text} for name, text in value.items()]
        rows.add(35)


def provider(info: Object, rows: Rows) -> Object:
    """A provider named by `id` (row 74)."""
    info = dict(info)
    twins(info, *_PROVIDER_KEYS, rows=rows)
    move(info, "providerId", "id", row=74, rows=rows)
    return info


_PROVIDER_KEYS: Final = ("providerId", "apiType", "baseUrl")
