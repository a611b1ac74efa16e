"""The access tokens over the gateway, `_accord/tokens...`, and links that share one session, `_accord/share`.

A token without limits manages all tokens. No token gives more than it has, or for longer. A share link is a
token that can read one session, and ends with the token that created it.
"""

import time
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from accord.errors import InvalidParams, InvalidRequest, NotFound, RpcError, UsageError
from accord.gateway.access.access_contracts import Tokens
from accord.gateway.access.access_tokens import (
    NOT_ALLOWED,
    Token,
    describe_rights,
    new_token,
    pairing_link,
    qr_rows,
)
from accord.gateway.access.parameter_rights import check_folders
from accord.gateway.access.request_origin import is_loopback, machine_address, split_origin
from accord.gateway.methods.parameters import bool_param, list_param, read_params, text_param, without_none
from accord.schema.codec import encode
from accord.store import iso_time

if TYPE_CHECKING:
    from accord.gateway.gateway_client import ClientCall, GatewayClient

_MAX_NAME: Final = 64
_MAX_ADDRESS: Final = 300
_MAX_LISTED: Final = 50
_DAY: Final = 24 * 3600
MAX_SHARED_SECONDS: Final = 30 * _DAY
_MAX_TOKEN_SECONDS: Final = 3650 * _DAY
_MAX_TOKENS: Final = 500


def _tokens(client: "GatewayClient") -> tuple[Tokens, Token]:
    """The tokens, and that of the client. Raises RpcError."""
    tokens = client.gateway.tokens
    own = None if tokens is None else tokens.get(client.rights.token)
    if tokens is None or own is None:
        raise RpcError("the token of this connection is not known", code=NOT_ALLOWED)
    return tokens, own


def _manages_all(token: Token) -> bool:
    return token.agents is None and token.folders is None and not token.read_only and not token.session


def _require_owner(token: Token) -> None:
    if not _manages_all(token):
        raise RpcError("only a token without limits can manage tokens", code=NOT_ALLOWED)


def list_tokens(client: "GatewayClient", call: "ClientCall") -> None:
    """List all tokens, or, for a token with limits, the share links that it created."""
    tokens, own = _tokens(client)
    shown = [token for token in tokens.all() if _manages_all(own) or token.parent == own.id]
    members = [_members(tokens, token, own) for token in shown]
    call.answer(encode({"tokens": members, "manageable": _manages_all(own)}))


def _members(tokens: Tokens, token: Token, own: Token) -> dict[str, Any]:
    used = tokens.last_used(token)
    return without_none(
        id=token.id,
        name=token.name,
        created=_iso(token.created),
        lastUsed=None if used is None else _iso(used),
        expires=None if token.expires is None else _iso(token.expires),
        valid=tokens.is_valid(token.id),
        rights=describe_rights(token),
        readOnly=token.read_only or None,
        session=token.session or None,
        agent=token.agents[0] if token.session and token.agents else None,
        current=token.id == own.id or None,
    )


async def create_token(client: "GatewayClient", call: "ClientCall") -> None:
    """Create a token for another device, and return the link and the QR code that log it in."""
    tokens, own = _tokens(client)
    _require_owner(own)
    params = read_params(call)
    read_only = bool_param(params, "readOnly", False)
    folders = [] if params.get("folders") is None else list_param(params, "folders", _MAX_LISTED)
    agents = [] if params.get("agents") is None else list_param(params, "agents", _MAX_LISTED)
    if not all(isinstance(value, str) and value for value in (*folders, *agents)):
        raise InvalidParams("Invalid params: `folders` and `agents` must be lists of names")
    check_folders(client.rights, *folders)
    token, text = new_token(
        _name(params),
        now=time.time(),
        agents=agents or None,
        folders=folders or None,
        read_only=read_only,
        allow_mcp=False if own.allow_mcp is False else None,
        expires=_expiry(params, own, _MAX_TOKEN_SECONDS),
    )
    address = _address(params)
    await _add(client, tokens, token)
    call.answer(encode(_created(tokens, token, own, address, pairing_link(address, text))))


async def share(client: "GatewayClient", call: "ClientCall") -> None:
    """Create a link with which one session can be read for a limited time."""
    tokens, own = _tokens(client)
    params = read_params(call)
    session_id, gateway, agent = text_param(params, "sessionId"), client.gateway, client.agent.name
    recorded = gateway.book.find(agent, session_id)
    if recorded is None or gateway.overview.entry(recorded, client.rights) is None:
        raise NotFound("session not found", {"sessionId": session_id})
    if params.get("expiresIn") is None:
        raise InvalidParams("Invalid params: `expiresIn` is missing; a share link needs an end")
    session = gateway.sessions.find(agent, session_id)
    summary = recorded.summary
    token, text = new_token(
        _name(params),
        now=time.time(),
        agents=[agent],
        folders=(summary.cwd, *summary.additional_directories) if session is None else session.folders,
        read_only=True,
        expires=_expiry(params, own, MAX_SHARED_SECONDS),
        session=session_id,
        parent=own.id,
    )
    address = _address(params)
    await _add(client, tokens, token)
    link = pairing_link(address, text).replace("/#token=", "/#share=")
    call.answer(encode(_created(tokens, token, own, address, link)))


async def _add(client: "GatewayClient", tokens: Tokens, token: Token) -> None:
    if len(tokens.all()) >= _MAX_TOKENS:
        raise InvalidRequest(f"there are {_MAX_TOKENS} tokens; revoke some of them first")
    try:
        await tokens.add(token)
    except UsageError as error:
        raise InvalidRequest(str(error)) from None
    client.gateway.audit.record(
        client.rights,
        "token made",
        by="page",
        made=token.id,
        scope=describe_rights(token),
        expires=None if token.expires is None else _iso(token.expires),
    )


def _created(tokens: Tokens, token: Token, own: Token, address: str, link: str) -> dict[str, Any]:
    host = urlsplit(address).hostname or ""
    return without_none(
        token=_members(tokens, token, own),
        link=link,
        qr=qr_rows(link),
        localAddress=machine_address() if is_loopback(host) else None,
    )


async def revoke_token(client: "GatewayClient", call: "ClientCall") -> None:
    """Revoke a token. Its connections, and the share links that it created, end."""
    tokens, own = _tokens(client)
    id = text_param(read_params(call), "id")
    token = tokens.get(id)
    if token is not None and token.parent != own.id and token.id != own.id:
        _require_owner(own)
    if token is None:
        _require_owner(own)
        raise NotFound("this token does not exist", {"id": id})
    children = [other for other in tokens.all() if other.parent == id]
    try:
        for ended in (token, *children):
            await tokens.remove(ended.id)
            if client.gateway.browsers is not None:
                client.gateway.browsers.forget(ended.id)
            if client.gateway.notifier is not None:
                client.gateway.notifier.devices.forget(ended.id)
    except UsageError as error:
        raise InvalidRequest(str(error)) from None
    client.gateway.audit.record(
        client.rights, "token revoked", by="page", made=id, scope=describe_rights(token)
    )
    call.answer(b"{}")


def _name(params: dict[str, Any]) -> str:
    name = text_param(params, "name", "").strip()
    if len(name) > _MAX_NAME or not name.isprintable():
        raise InvalidParams(f"Invalid params: `name` must be printable, with at most {_MAX_NAME} characters")
    return name


def _expiry(params: dict[str, Any], own: Token, limit: int) -> float | None:
    """When the new token ends: not after the one that creates it."""
    seconds = params.get("expiresIn")
    if seconds is None:
        return own.expires
    if not isinstance(seconds, int) or isinstance(seconds, bool) or not 60 <= seconds <= limit:
        raise InvalidParams(f"Invalid params: `expiresIn` must be a number of seconds from 60 to {limit}")
    end = time.time() + seconds
    return end if own.expires is None else min(end, own.expires)


def _address(params: dict[str, Any]) -> str:
    """The address of the page, which the link begins with."""
    text = text_param(params, "url").rstrip("/")
    parts = urlsplit(text) if len(text) <= _MAX_ADDRESS and text.isprintable() else None
    if parts is None or parts.scheme not in ("http", "https") or parts.query or parts.fragment:
        raise InvalidParams("Invalid params: `url` must be the address of the page")
    if split_origin(f"{parts.scheme}://{parts.netloc}") is None:
        raise InvalidParams("Invalid params: `url` must be the address of the page")
    return text


def _iso(moment: float) -> str:
    return iso_time(int(moment * 1_000_000))


METHODS: Final[dict[str, Any]] = {
    "_accord/tokens": list_tokens,
    "_accord/tokens/create": create_token,
    "_accord/tokens/revoke": revoke_token,
    "_accord/share": share,
}
UNAUDITED_METHODS: Final = ("_accord/tokens",)
