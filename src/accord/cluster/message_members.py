"""Reads and changes single members of messages that a node passes on."""

from typing import Any, cast

import msgspec
from msgspec import UNSET, Raw, Struct

from accord.errors import RpcError
from accord.gateway.client_connection import IncomingFrame
from accord.gateway.contracts import OPEN_AT_NODE
from accord.schema import SessionNotification
from accord.schema.codec import DECODE_ERRORS, decoder, encode
from accord.wire.envelope import Notification, Request, RequestId, parse_envelope, read_error


class SessionFolders(Struct):
    """The folders and servers that a request names for a session."""

    cwd: Any = None
    additional_directories: list[Any] | None = msgspec.field(name="additionalDirectories", default=None)
    mcp_servers: Any = msgspec.field(name="mcpServers", default=None)


def update_body(session_id: str, update: Any) -> bytes:
    """The frame of an update."""
    return encode(Notification("session/update", SessionNotification(session_id, update)))


def members_of(body: bytes | Raw) -> dict[str, Raw]:
    """The members of a JSON object; none if it is not one."""
    try:
        return decoder(dict[str, Raw]).decode(body)
    except DECODE_ERRORS:
        return {}


def text_member(params: bytes | Raw | None, name: str) -> str:
    """A member that is a text; "" otherwise."""
    try:
        value: Any = msgspec.json.decode(members_of(params or b"{}").get(name, Raw(b'""')))
    except msgspec.MsgspecError:
        value = ""
    return value if isinstance(value, str) else ""


def with_id(frame: IncomingFrame, id: RequestId) -> IncomingFrame:
    """A message of the client with another id."""
    body = encode({**members_of(frame.body), "id": id})
    return IncomingFrame(body, parse_envelope(body))


def with_node(body: bytes, node: str) -> bytes:
    """A response whose result also names the node of the session; an error is not changed."""
    members = members_of(body)
    if "result" not in members:
        return body
    result = members_of(members["result"])
    meta = members_of(result.get("_meta", Raw(b"{}")))
    accord = members_of(meta.get("accord", Raw(b"{}")))
    named: dict[str, Any] = {**meta, "accord": {**accord, "node": node}}
    return encode({**members, "result": {**result, "_meta": named}})


def error_of(body: bytes) -> RpcError | None:
    """The error of a response; None if it succeeded."""
    raw = members_of(body).get("error")
    return None if raw is None else read_error(raw)


def owner_named(error: RpcError) -> str:
    """The node that has the session, if a node refused a request because of it; else ""."""
    data = error.data
    owner: Any = cast("dict[str, Any]", data).get(OPEN_AT_NODE) if isinstance(data, dict) else ""
    return owner if isinstance(owner, str) else ""


def request_frame(id: RequestId, method: str, params: Raw | None) -> IncomingFrame:
    """A request of a client, or for it."""
    body = encode(Request(id, method, UNSET if params is None else params))
    return IncomingFrame(body, parse_envelope(body))


def cancelled_id(params: Raw | None) -> Any:
    """The id of the request that is canceled."""
    try:
        value: Any = msgspec.json.decode(members_of(params or b"{}").get("requestId", Raw(b"null")))
    except msgspec.MsgspecError:
        return None
    return value if isinstance(value, int | str) else None


def read_folders(params: Raw | None) -> SessionFolders:
    """What a request names."""
    try:
        return decoder(SessionFolders).decode(params or b"{}")
    except DECODE_ERRORS:
        return SessionFolders()


def folders_of(params: Raw | None) -> tuple[str, ...]:
    """The working directory and the additional folders that a request names."""
    named = read_folders(params)
    more = named.additional_directories or []
    return tuple(folder for folder in (named.cwd, *more) if isinstance(folder, str))
