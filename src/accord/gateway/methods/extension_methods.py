"""The gateway's own methods, `_accord/...`: agents, sessions over all agents, the inbox, files and terminals for pickers and pages."""

import asyncio
import os
from os.path import normpath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Raw

from accord.errors import InvalidParams, NotFound, RpcError
from accord.gateway.access.access_tokens import NOT_ALLOWED
from accord.gateway.methods.prompt_turn import attached
from accord.gateway.upstream import our_id, plain
from accord.schema.codec import encode
from accord.workspace.file_search import best_matches, files_of

if TYPE_CHECKING:
    from accord.gateway.gateway_client import ClientCall, GatewayClient

_FILES_MOST: Final = 200
_FOLDERS_MOST: Final = 1000


def agents(visitor: "GatewayClient", call: "ClientCall") -> None:
    """The agents that the token covers, and how each is."""
    gateway = visitor.gateway
    told = [
        _without_nothing(
            name=agent.name,
            title=agent.source.title or None,
            description=agent.source.description or None,
            default=agent is gateway.default_agent,
            state=agent.state,
            reason=agent.reason or None,
        )
        for agent in gateway.agents.values()
        if visitor.visa.may_use(agent.name)
    ]
    call.answer(encode({"agents": told}))


def sessions(visitor: "GatewayClient", call: "ClientCall") -> None:
    """The sessions of all agents that were ever here, as far as the token covers them; and, if wanted, what changes."""
    visitor.wants_sessions = _flag(_params(call), "subscribe", visitor.wants_sessions)
    call.answer(encode({"sessions": visitor.gateway.overview.sessions(visitor.visa)}))


def inbox(visitor: "GatewayClient", call: "ClientCall") -> None:
    """What waits for a person, over all sessions; and, if wanted, what comes and goes."""
    visitor.wants_inbox = _flag(_params(call), "subscribe", visitor.wants_inbox)
    items = [ask.item for ask in visitor.gateway.asks if visitor.gateway.overview.in_inbox_of(visitor, ask)]
    call.answer(b'{"items":[%s]}' % b",".join(items))


def answer(visitor: "GatewayClient", call: "ClientCall") -> None:
    """Answer something of the inbox, attached to its session or not."""
    params = _params(call)
    gateway = visitor.gateway
    number = params.get("id")
    found = our_id(number)
    ask = gateway.asks.find(found) if found is not None else None
    if ask is None or not gateway.overview.in_inbox_of(visitor, ask):
        raise NotFound("This is no longer pending", {"id": number})
    if "result" not in params:
        raise InvalidParams("Invalid params: `result` is missing")
    body, option = gateway.asks.judge(ask, visitor.reader, Raw(encode(params["result"])))
    gateway.asks.settle(ask, body, option, by=visitor)
    call.answer(b"{}")


async def files(visitor: "GatewayClient", call: "ClientCall") -> None:
    """Files of a session's folders whose names fit some letters."""
    params = _params(call)
    session = attached(visitor, _text(params, "sessionId"))
    query, limit = _text(params, "query", ""), params.get("limit", 20)
    most = min(limit, _FILES_MOST) if isinstance(limit, int) and limit > 0 else 20

    def look() -> list[dict[str, str]]:
        names = {
            (name if folder == session.cwd else os.path.join(folder, name)): os.path.join(folder, name)
            for folder in session.folders
            for name in files_of(folder)
        }
        return [{"path": names[name], "name": name} for name in best_matches(query, names, most)]

    call.answer(encode({"files": await asyncio.to_thread(look)}))


async def folders(visitor: "GatewayClient", call: "ClientCall") -> None:
    """The folders in a folder, as far as the token covers them; without a path, where to begin."""
    asked = _text(_params(call), "path", "")
    visa = visitor.visa
    if not asked:
        begin = visa.folders or (str(Path.home()),)
        if len(begin) != 1:
            top = [{"path": folder, "name": folder} for folder in begin]
            call.answer(encode({"path": "", "folders": top}))
            return
        asked = begin[0]
    if not visa.may_enter(asked):
        raise RpcError(f"This token does not cover the folder {asked!r}", code=NOT_ALLOWED)
    path = _normal(asked)

    def look() -> list[dict[str, str]]:
        with os.scandir(path) as entries:
            names = sorted(
                entry.name for entry in entries if not entry.name.startswith(".") and entry.is_dir()
            )
        inner = [(os.path.join(path, name), name) for name in names[:_FOLDERS_MOST]]
        return [{"path": full, "name": name} for full, name in inner if visa.may_enter(full)]

    try:
        found = await asyncio.to_thread(look)
    except OSError as error:
        raise InvalidParams(f"the folder {path!r} cannot be read: {error.strerror}") from None
    parent = os.path.dirname(path)
    told: dict[str, Any] = {"path": path, "folders": found}
    if parent != path and visa.may_enter(parent):
        told["parent"] = parent
    elif visa.folders is not None and len(visa.folders) > 1:
        told["parent"] = ""
    call.answer(encode(told))


def terminal(visitor: "GatewayClient", call: "ClientCall") -> None:
    """What a terminal of a session printed so far."""
    params = _params(call)
    session = attached(visitor, _text(params, "sessionId"))
    place = session.workplace
    view = place.terminals.get(_text(params, "terminalId")) if place is not None else None
    if view is None:
        raise NotFound("There is no such terminal", {"terminalId": params.get("terminalId")})
    status = view.exit_status
    told: dict[str, Any] = {"output": view.text, "command": view.command}
    if status is not None:
        told["exitStatus"] = {"exitCode": status.exit_code, "signal": status.signal}
    call.answer(encode(told))


def _normal(path: str) -> str:
    return normpath(path)


def _params(call: "ClientCall") -> dict[str, Any]:
    value: Any = {} if call.params is None else plain(call.params).value
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidParams("Invalid params: they are an object")
    return value  # pyright: ignore[reportUnknownVariableType] - JSON


def _text(params: dict[str, Any], name: str, default: str | None = None) -> str:
    value = params.get(name, default)
    if not isinstance(value, str) or "\0" in value:
        raise InvalidParams(f"Invalid params: `{name}` is a text")
    return value


def _flag(params: dict[str, Any], name: str, default: bool) -> bool:
    value = params.get(name, default)
    if not isinstance(value, bool):
        raise InvalidParams(f"Invalid params: `{name}` is true or false")
    return value


def _without_nothing(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


SERVED: Final[dict[str, Any]] = {
    "_accord/agents": agents,
    "_accord/sessions": sessions,
    "_accord/inbox": inbox,
    "_accord/inbox/answer": answer,
    "_accord/files": files,
    "_accord/folders": folders,
    "_accord/terminal/output": terminal,
}
READING: Final = (
    "_accord/agents",
    "_accord/sessions",
    "_accord/inbox",
    "_accord/files",
    "_accord/terminal/output",
)
