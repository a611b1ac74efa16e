"""Texts for HTTP status codes, WebSocket close codes and network errors."""

import errno
import ssl
from typing import Final

from accord.safe_text import one_line

FINAL_STATUSES: Final = frozenset((401, 403, 404, 410))
"""Status codes after which a connection cannot be resumed."""

FINAL_CODES: Final = frozenset((1000, 1002, 1003, 1005, 1007, 1009, 1010))
"""Close codes after which resuming makes no sense: the close was intended or would happen again."""

POLICY_CODE: Final = 1008
"""The close code for limits, slow clients and revoked tokens."""

_STATUSES: Final = {
    400: "the server rejected the request as invalid",
    401: "the token is missing or wrong",
    403: "the server does not allow this",
    405: "there is no ACP server at this address",
    406: "there is no ACP server at this address",
    413: "the message is too large for the server",
    415: "there is no ACP server at this address",
    426: "the server supports only WebSocket; use an address with ws:// or wss://",
    429: "the server is overloaded",
    502: "the server behind the proxy cannot be reached",
    503: "the server is overloaded or shutting down",
    504: "the server behind the proxy does not answer",
}

_CODES: Final = {
    1000: "the server closed the connection",
    1001: "the server is shutting down",
    1002: "the server reported a protocol error",
    1003: "the server does not accept this kind of message",
    1007: "the server could not read a message",
    POLICY_CODE: "the server closed the connection: a limit was exceeded, or this side was too slow",
    1009: "a message was too large for the server",
    1011: "the server failed",
    1012: "the server is restarting",
    1013: "the server is overloaded",
}


def status_sentence(status: int, body: bytes | str = b"", *, connected: bool = False) -> str:
    """Explain a status code; `connected` says that the connection was already open."""
    if status in (404, 410):
        text = (
            "the server no longer knows the connection"
            if connected
            else "there is no ACP server at this path"
        )
    elif 300 <= status < 400:
        text = "the server redirects to another address; use that one"
    else:
        text = _STATUSES.get(status, "the server failed" if status >= 500 else "the server refused")
    return f"{text} (HTTP {status}){_detail(body)}"


def close_sentence(code: int, reason: str = "") -> str:
    """Explain a close code."""
    if code == 1005:
        return "the server closed the connection"
    text = _CODES.get(code, "the server closed the connection")
    if code == POLICY_CODE and reason.strip():  # the server knows better than the general text
        text = "the server closed the connection"
    return f"{text} (WebSocket {code}){_detail(reason)}"


def error_sentence(error: BaseException) -> str:
    """Explain a network error, without error numbers."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {(error.reason or 'unknown reason').replace('_', ' ').lower()}"
    if isinstance(error, TimeoutError):
        return "it does not respond"
    if isinstance(error, ConnectionRefusedError) or f"[Errno {errno.ECONNREFUSED}]" in str(error):
        return "nothing listens there"
    if isinstance(error, OSError) and error.strerror:
        return one_line(error.strerror)
    return one_line(str(error)) or type(error).__name__


def _detail(body: bytes | str) -> str:
    text = body.decode(errors="replace") if isinstance(body, bytes) else body
    text = one_line(" ".join(text.split()))
    # Leave out HTML pages.
    return f": {text}" if text and not text.startswith("<") else ""
