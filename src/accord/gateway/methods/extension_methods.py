"""The gateway's own methods, `_accord/...`: agents, sessions of all agents, the inbox, files, folders,
terminal output.
"""

import asyncio
import os
from os.path import normpath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Raw

from accord.errors import InvalidParams, NotFound, RpcError, StoreError
from accord.gateway.access.parameter_rights import check_folders
from accord.gateway.methods.parameters import bool_param, read_params, text_param, without_none
from accord.gateway.methods.prompt_turn import attached_session
from accord.gateway.pending_requests import read_answer
from accord.schema.codec import encode
from accord.workspace.file_search import best_matches

if TYPE_CHECKING:
    from accord.gateway.gateway_client import ClientCall, GatewayClient
    from accord.session import TerminalExit
    from accord.workspace.terminals import ExitStatus

_MAX_FILES: Final = 200
_MAX_FOLDERS: Final = 1000
_MAX_SESSIONS: Final = 500
"""Of one page."""


def list_agents(client: "GatewayClient", call: "ClientCall") -> None:
    """List the agents that the token covers, with their states."""
    gateway = client.gateway
    result = [
        without_none(
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
    result += [
        {"name": name, "default": False, "state": "ready"}
        for name in gateway.agents_elsewhere()
        if client.rights.may_use(name)
    ]
    call.answer(encode({"agents": result}))


async def list_sessions(client: "GatewayClient", call: "ClientCall") -> None:
    """List the sessions of all agents that the token covers, in pages if there is a `limit`; `subscribe`
    turns change notifications on or off, `archived` lists the archive.
    """
    params = read_params(call)
    client.wants_sessions = bool_param(params, "subscribe", client.wants_sessions)
    limit = params.get("limit")
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        raise InvalidParams("Invalid params: `limit` must be a positive number")
    cursor = None if params.get("cursor") is None else text_param(params, "cursor")
    sessions, next_cursor = await client.gateway.overview.list_sessions(
        client.rights,
        text_param(params, "query", ""),
        limit and min(limit, _MAX_SESSIONS),
        cursor,
        archived=bool_param(params, "archived", False),
    )
    call.answer(encode(without_none(sessions=sessions, nextCursor=next_cursor)))


def list_inbox(client: "GatewayClient", call: "ClientCall") -> None:
    """List the requests that wait for a user; `subscribe` turns change notifications on or off."""
    client.wants_inbox = bool_param(read_params(call), "subscribe", client.wants_inbox)
    call.answer(b'{"items":[%s]}' % b",".join(client.gateway.overview.inbox(client)))


def answer_request(client: "GatewayClient", call: "ClientCall") -> None:
    """Answer a request of the inbox, whether or not the client is attached to its session."""
    params = read_params(call)
    gateway = client.gateway
    pending = gateway.pending_requests.find(text_param(params, "id", ""))
    if pending is None or not gateway.overview.is_in_inbox(client.rights, pending):
        raise NotFound("the request is no longer pending", {"id": params.get("id")})
    if "result" not in params:
        raise InvalidParams("Invalid params: missing `result`")
    raw_result, option = read_answer(pending, client.message_reader, Raw(encode(params["result"])))

    def on_commit(error: StoreError | None) -> None:
        if error is None:
            call.answer(b"{}")
        else:
            call.fail(RpcError(f"the answer was not given to the agent: {error}"))

    gateway.pending_requests.answer(pending, raw_result, option, by=client, then=on_commit)


async def find_files(client: "GatewayClient", call: "ClientCall") -> None:
    """List the files of a session's folders whose names match the query best."""
    params = read_params(call)
    session = attached_session(client, text_param(params, "sessionId"))
    query, limit = text_param(params, "query", ""), params.get("limit", 20)
    max_files = min(limit, _MAX_FILES) if isinstance(limit, int) and limit > 0 else 20

    indexes = [client.gateway.file_indexes[folder] for folder in session.folders]
    found = await asyncio.gather(*(index.find(query, max_files) for index in indexes))
    paths: dict[str, str] = {}
    for index, matches in zip(indexes, found, strict=True):
        for name in matches.paths:
            path = os.path.join(index.folder, name)
            if not name.endswith("/"):
                paths[name if index.folder == session.cwd else path] = path
    names = best_matches(query, paths, max_files)
    result: dict[str, Any] = {"files": [{"path": paths[name], "name": name} for name in names]}
    if not all(matches.complete for matches in found):
        result["incomplete"] = True
    call.answer(encode(result))


async def list_folders(client: "GatewayClient", call: "ClientCall") -> None:
    """List the subfolders of a folder that the token covers; without a path, the folders to start with."""
    path = text_param(read_params(call), "path", "")
    rights = client.rights
    if not path:
        start_folders = rights.folders or (client.gateway.start_folder or str(Path.home()),)
        if len(start_folders) != 1:
            entries = [{"path": folder, "name": folder} for folder in start_folders]
            call.answer(encode({"path": "", "folders": entries}))
            return
        path = start_folders[0]
    check_folders(rights, path)
    path = normpath(path)  # noqa: ASYNC240 - no I/O

    def search() -> list[dict[str, str]]:
        with os.scandir(path) as entries:
            names = sorted(
                entry.name for entry in entries if not entry.name.startswith(".") and entry.is_dir()
            )
        subfolders = [(os.path.join(path, name), name) for name in names[:_MAX_FOLDERS]]
        return [{"path": folder, "name": name} for folder, name in subfolders if rights.may_enter(folder)]

    try:
        subfolders = await asyncio.to_thread(search)
    except OSError as error:
        raise InvalidParams(f"cannot read the folder {path!r}: {error.strerror}") from None
    parent = os.path.dirname(path)
    result: dict[str, Any] = {"path": path, "folders": subfolders}
    if parent != path and rights.may_enter(parent):
        result["parent"] = parent
    elif rights.folders is not None and len(rights.folders) > 1:
        result["parent"] = ""
    call.answer(encode(result))


async def terminal_output(client: "GatewayClient", call: "ClientCall") -> None:
    """Return the output of a terminal of a session: one of the gateway, or one that the agent has shown."""
    params = read_params(call)
    session = attached_session(client, text_param(params, "sessionId"))
    terminal_id = text_param(params, "terminalId")
    workspace = session.workspace
    view = workspace.terminals.get(terminal_id) if workspace is not None else None
    if view is not None:
        call.answer(encode(_terminal_result(view.text, view.command, view.exit_status)))
        return
    shown = session.latest.terminals.get(terminal_id)
    if shown is None:
        reader = session.log.reader()
        try:
            await reader.read_state()
        except StoreError as error:
            raise RpcError(f"cannot read the session: {error}") from None
        shown = reader.state.terminals.get(terminal_id)
    if shown is None:
        raise NotFound("terminal not found", {"terminalId": terminal_id})
    result = _terminal_result(shown.text, shown.command or "", shown.exit)
    if shown.cancellable:
        result["cancellable"] = True
    call.answer(encode(result))


def _terminal_result(output: str, command: str, status: "ExitStatus | TerminalExit | None") -> dict[str, Any]:
    result: dict[str, Any] = {"output": output, "command": command}
    if status is not None:
        result["exitStatus"] = {"exitCode": status.exit_code, "signal": status.signal}
    return result


METHODS: Final[dict[str, Any]] = {
    "_accord/agents": list_agents,
    "_accord/sessions": list_sessions,
    "_accord/inbox": list_inbox,
    "_accord/inbox/answer": answer_request,
    "_accord/files": find_files,
    "_accord/folders": list_folders,
    "_accord/terminal/output": terminal_output,
}
READ_ONLY_METHODS: Final = (
    "_accord/agents", "_accord/sessions", "_accord/inbox", "_accord/files", "_accord/terminal/output",
)  # fmt: skip
