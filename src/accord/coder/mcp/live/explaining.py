"""What went wrong between us and a server, as one line that carries no secrets."""

from typing import Final, cast

import httpx2
import mcp_types as types
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from accord.coder.mcp.cleaning import clean_line
from accord.coder.mcp.hooks import LinkLost, McpFailure, SessionExpired
from accord.coder.mcp.live.http import HttpClients, TooLarge
from accord.coder.mcp.terms import Terms
from accord.errors import NeverStarted

_LONGEST: Final = 300
_REFUSED: Final = "Server returned an error response"  # the package's own word for most statuses


def explained(error: BaseException, terms: Terms, clients: HttpClients | None) -> McpFailure:
    """The same error as ours, told in one line without the name of the server."""
    leaf = _leaf(error)
    if isinstance(leaf, McpFailure):
        return leaf
    why = clean_line(terms.secrets.masked(_said(leaf, clients)), _LONGEST)
    if isinstance(leaf, MCPError) and leaf.code == types.CONNECTION_CLOSED:
        return LinkLost(why)
    if isinstance(leaf, MCPError) and clients is not None and clients.forgotten:
        return SessionExpired(why)
    return McpFailure(why)


def _leaf(error: BaseException) -> BaseException:
    """The first plain error of a group."""
    while isinstance(error, BaseExceptionGroup):
        inside = cast(BaseExceptionGroup[BaseException], error).exceptions
        error = next((one for one in inside if isinstance(one, Exception)), inside[0])
    return error


def _said(error: BaseException, clients: HttpClients | None) -> str:
    match error:
        case MCPError():
            if error.message == _REFUSED and clients is not None and clients.refused is not None:
                return _status(clients.refused)
            return error.message or f"it answered with error {error.code}"
        case NeverStarted():
            return str(error)
        case httpx2.HTTPStatusError():
            return _status(error.response.status_code)
        case TooLarge():
            return "its answer is too large"
        case httpx2.ConnectError():
            return "nothing answers at its address; check that it runs, and the address"
        case httpx2.TimeoutException():
            return "its address does not answer in time"
        case httpx2.HTTPError() | httpx2.InvalidURL():
            return f"the connection failed ({type(error).__name__})"
        case ValidationError():
            return (
                f"its answer is not what MCP says ({error.error_count()} faults, the first: {_first(error)})"
            )
        case UnicodeError():
            return "an address or header of it has characters that cannot be sent"
        case _:
            return f"{type(error).__name__}: {error}"


def _first(error: ValidationError) -> str:
    fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{'.'.join(map(str, fault['loc'][-3:]))}: {fault['msg']}"


def _status(status: int) -> str:
    if status in (401, 403):
        return f"it refused us with HTTP {status}; check the headers (a token?) that are sent to it"
    if status == 404:
        return "there is nothing at its address (HTTP 404); check the address"
    return f"it answered with HTTP {status}"
