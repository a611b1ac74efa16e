"""The gateway's own methods, `_accord/...`: agents, sessions of all agents, the inbox, files, folders,
terminal output.
"""

import asyncio
import os
from os.path import normpath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Raw

from accord.errors import InvalidParams, NotFound, RpcError
from accord.gateway.access.access_tokens import NOT_ALLOWED
from accord.gateway.methods.prompt_turn import attached
from accord.gateway.upstream import read_untyped, request_number
from accord.schema.codec import encode
from accord.workspace.file_search import best_matches, files_of

if TYPE_CHECKING:
    from accord.gateway.gateway_client import ClientCall, GatewayClient

_MAX_FILES: Final = 200
_MAX_FOLDERS: Final = 1000


def agents(client: "GatewayClient", call: "ClientCall") -> None:
    """List the agents that the token covers, with their states."""
    gateway = client.gateway
    result = [
        _without_none(
            name=agent.name,
            title=agent.source.title or None,
            description=agent.source.description or None,
            default=agent is gateway.default_agent,
            state=agent.state,
            reason=agent.reason or None,
        )
        for agent in gateway.agents.values()
        if client.rights.may_use(agent.name)
    ]
    call.answer(encode({"agents": result}))


def sessions(client: "GatewayClient", call: "ClientCall") -> None:
    """List the sessions of all agents that the token covers; `subscribe` turns change notifications on or
    off.
    """
    client.wants_sessions = _flag(_params(call), "subscribe", client.wants_sessions)
    call.answer(encode({"sessions": client.gateway.overview.sessions(client.rights)}))


def inbox(client: "GatewayClient", call: "ClientCall") -> None:
    """List the requests that wait for a user; `subscribe` turns change notifications on or off."""
    client.wants_inbox = _flag(_params(call), "subscribe", client.wants_inbox)
    items = [
        pending.inbox_item
        for pending in client.gateway.pending_requests
        if client.gateway.overview.is_in_inbox(client, pending)
    ]
    call.answer(b'{"items":[%s]}' % b",".join(items))


def answer(client: "GatewayClient", call: "ClientCall") -> None:
    """Answer a request of the inbox, whether or not the client is attached to its session."""
    params = _params(call)
    gateway = client.gateway
    number = params.get("id")
    found = request_number(number)
    pending = gateway.pending_requests.find(found) if found is not None else None
    if pending is None or not gateway.overview.is_in_inbox(client, pending):
        raise NotFound("the request is no longer pending", {"id": number})
    if "result" not in params:
        raise InvalidParams("Invalid params: missing `result`")
    body, option = gateway.pending_requests.read_answer(
        pending, client.message_reader, Raw(encode(params["result"]))
    )
    gateway.pending_requests.settle(pending, body, option, by=client)
    call.answer(b"{}")


async def files(client: "GatewayClient", call: "ClientCall") -> None:
    """List the files of a session's folders whose names match the query best."""
    params = _params(call)
    session = attached(client, _text(params, "sessionId"))
    query, limit = _text(params, "query", ""), params.get("limit", 20)
    most = min(limit, _MAX_FILES) if isinstance(limit, int) and limit > 0 else 20

    def search() -> list[dict[str, str]]:
        names = {
            (name if folder == session.cwd else os.path.join(folder, name)): os.path.join(folder, name)
            for folder in session.folders
            for name in files_of(folder)
        }
        return [{"path": names[name], "name": name} for name in best_matches(query, names, most)]

    call.answer(encode({"files": await asyncio.to_thread(search)}))


async def folders(client: "GatewayClient", call: "ClientCall") -> None:
    """List the subfolders of a folder that the token covers; without a path, the folders to start with."""
    path = _text(_params(call), "path", "")
    rights = client.rights
    if not path:
        start = rights.folders or (str(Path.home()),)
        if len(start) != 1:
            top = [{"path": folder, "name": folder} for folder in start]
            call.answer(encode({"path": "", "folders": top}))
            return
        path = start[0]
    if not rights.may_enter(path):
        raise RpcError(f"this token does not cover the folder {path!r}", code=NOT_ALLOWED)
    path = normpath(path)  # noqa: ASYNC240 - no I/O

    def search() -> list[dict[str, str]]:
        with os.scandir(path) as entries:
            names = sorted(
                entry.name for entry in entries if not entry.name.startswith(".") and entry.is_dir()
            )
        inner = [(os.path.join(path, name), name) for name in names[:_MAX_FOLDERS]]
        return [{"path": full, "name": name} for full, name in inner if rights.may_enter(full)]

    try:
        found = await asyncio.to_thread(search)
    except OSError as error:
        raise InvalidParams(f"cannot read the folder {path!r}: {error.strerror}") from None
    parent = os.path.dirname(path)
    result: dict[str, Any] = {"path": path, "folders": found}
    if parent != path and rights.may_enter(parent):
        result["parent"] = parent
    elif rights.folders is not None and len(rights.folders) > 1:
        result["parent"] = ""
    call.answer(encode(result))


def terminal(client: "GatewayClient", call: "ClientCall") -> None:
    """Return the output of a terminal of a session."""
    params = _params(call)
    session = attached(client, _text(params, "sessionId"))
    place = session.workspace
    view = place.terminals.get(_text(params, "terminalId")) if place is not None else None
    if view is None:
        raise NotFound("terminal not found", {"terminalId": params.get("terminalId")})
    status = view.exit_status
    result: dict[str, Any] = {"output": view.text, "command": view.command}
    if status is not None:
        result["exitStatus"] = {"exitCode": status.exit_code, "signal": status.signal}
    call.answer(encode(result))


def _params(call: "ClientCall") -> dict[str, Any]:
    value: Any = {} if call.params is None else read_untyped(call.params).value
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidParams("Invalid params: must be an object")
    return value  # pyright: ignore[reportUnknownVariableType] - JSON


def _text(params: dict[str, Any], name: str, default: str | None = None) -> str:
    value = params.get(name, default)
    if not isinstance(value, str) or "\0" in value:
        raise InvalidParams(f"Invalid params: `{name}` must be a string")
    return value


def _flag(params: dict[str, Any], name: str, default: bool) -> bool:
    value = params.get(name, default)
    if not isinstance(value, bool):
        raise InvalidParams(f"Invalid params: `{name}` must be true or false")
    return value


def _without_none(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


METHODS: Final[dict[str, Any]] = {
    "_accord/agents": agents,
    "_accord/sessions": sessions,
    "_accord/inbox": inbox,
    "_accord/inbox/answer": answer,
    "_accord/files": files,
    "_accord/folders": folders,
    "_accord/terminal/output": terminal,
}
READ_ONLY_METHODS: Final = (
    "_accord/agents",
    "_accord/sessions",
    "_accord/inbox",
    "_accord/files",
    "_accord/terminal/output",
)
