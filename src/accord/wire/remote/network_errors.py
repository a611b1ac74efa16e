"""What a remote end said, in sentences: status codes, close codes, and errors of the network."""

import errno
import ssl
from typing import Final

from accord.safe_text import one_line

FINAL_STATUSES: Final = frozenset((401, 403, 404, 410))
"""Answers after which a connection is gone for good."""

FINAL_CODES: Final = frozenset((1000, 1002, 1003, 1005, 1007, 1009, 1010))
"""Close codes after which coming back is pointless: it was meant, or would happen again."""

_STATUSES: Final = {
    400: "the server does not understand the request",
    401: "the token is missing or wrong",
    403: "the server does not allow this",
    405: "what is there is no ACP server",
    406: "what is there is no ACP server",
    413: "the message is too large for the server",
    415: "what is there is no ACP server",
    426: "the server speaks WebSocket only: begin the address with ws:// or wss://",
    429: "the server has too much to do",
    502: "the server behind the proxy cannot be reached",
    503: "the server has too much to do, or is being stopped",
    504: "the server behind the proxy does not answer",
}

_CODES: Final = {
    1000: "the server closed the connection",
    1001: "the server is being stopped",
    1002: "the server found fault with the protocol",
    1003: "the server does not take such messages",
    1007: "the server could not read a message",
    1008: "the server cut the connection off: a limit was exceeded, or this side was too slow",
    1009: "a message was too large for the server",
    1011: "the server failed",
    1012: "the server is being restarted",
    1013: "the server has too much to do",
}


def status_sentence(status: int, body: bytes | str = b"", *, connected: bool = False) -> str:
    """What a status code means; `connected` for one that comes once there was a connection."""
    if status in (404, 410):
        text = (
            "the server no longer knows the connection"
            if connected
            else "there is no ACP server at this path"
        )
    elif 300 <= status < 400:
        text = "the server sends to another address: use that one"
    else:
        text = _STATUSES.get(status, "the server failed" if status >= 500 else "the server refused")
    return f"{text} (HTTP {status}){_said(body)}"


def close_sentence(code: int, reason: str = "") -> str:
    """What a close code means."""
    if code == 1005:
        return "the server closed the connection"
    text = _CODES.get(code, "the server closed the connection")
    return f"{text} (WebSocket {code}){_said(reason)}"


def error_sentence(error: BaseException) -> str:
    """What an error of the network means, without the numbers."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {(error.reason or 'unknown reason').replace('_', ' ').lower()}"
    if isinstance(error, TimeoutError):
        return "it does not answer"
    if isinstance(error, ConnectionRefusedError) or f"[Errno {errno.ECONNREFUSED}]" in str(error):
        return "nothing listens there"
    if isinstance(error, OSError) and error.strerror:
        return one_line(error.strerror)
    return one_line(str(error)) or type(error).__name__


def _said(words: bytes | str) -> str:
    text = words.decode(errors="replace") if isinstance(words, bytes) else words
    text = one_line(" ".join(text.split()))
    # A page for browsers says nothing to whoever reads one line.
    return f": {text}" if text and not text.startswith("<") else ""
