"""The sign-in to one MCP server: the user opens a web page, which returns to an address on this machine.

The flow starts only when the user asks for it with `/mcp login`. `oauth.py` connects it to the mcp package.
"""

import asyncio
import contextlib
import hmac
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs, urlsplit

from accord.clock import Clock, within
from accord.coder.mcp.server_interface import McpServerFailure

WAIT_SECONDS: Final = 300.0
_MAX_REQUEST_BYTES: Final = 16 * 1024
_PAGE: Final = (
    b"HTTP/1.1 %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n"
    b"Connection: close\r\n\r\n%s"
)

ShowAddress = Callable[[str], Awaitable[None]]
"""Shows the address of the sign-in page to the user. Raises McpServerFailure if the user refuses."""


@dataclass(frozen=True, slots=True)
class SignInReturn:
    """What the sign-in page returned."""

    code: str
    state: str | None
    issuer: str | None


class McpSignIn:
    """The sign-in of one server."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.show: ShowAddress | None = None
        """Set while the user wants to sign in."""
        self.is_waiting: bool = False
        """Whether the user is signing in now: no time limit of the connection counts."""
        self._state = ""
        """The secret in the address of the page, which only the page returns."""
        self._returned: asyncio.Future[SignInReturn] | None = None
        self._listener: asyncio.Server | None = None

    async def open_page(self, address: str, port: int) -> None:
        """Listen on this machine for the return, and show the page. Raises McpServerFailure."""
        if self.show is None:
            raise McpServerFailure("it needs you to sign in: type `/mcp login NAME`")
        self._returned = asyncio.get_running_loop().create_future()
        self._state = parse_qs(urlsplit(address).query).get("state", [""])[0]
        self.is_waiting = True
        # Without a listener the user can still paste the address that the browser shows.
        with contextlib.suppress(OSError):
            self._listener = await asyncio.start_server(
                self._answer, "127.0.0.1", port, limit=_MAX_REQUEST_BYTES
            )
        await self.show(address)

    async def wait_for_return(self) -> SignInReturn:
        """Wait until the page has returned. Raises McpServerFailure."""
        assert self._returned is not None
        if not await within(self._clock, WAIT_SECONDS, self._returned):
            raise McpServerFailure(f"you did not sign in within {WAIT_SECONDS / 60:g} minutes")
        return self._returned.result()

    def take_return(self, address: str) -> bool:
        """Take the address that the page returned to. Returns whether a sign-in waits for it.

        Another page of the browser could open such an address, too, but does not know the state.
        """
        if self._returned is None or self._returned.done():
            return False
        try:
            query = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        except ValueError:
            return False
        default = self._state if "error" in query else ""  # some servers leave it out of an error
        if not hmac.compare_digest(query.get("state", default).encode(), self._state.encode()):
            return False
        if "error" in query:
            reason = query.get("error_description") or query["error"]
            self._returned.set_exception(McpServerFailure(f"the sign-in was refused: {reason[:200]}"))
        elif "code" not in query:
            return False
        else:
            self._returned.set_result(SignInReturn(query["code"], query.get("state"), query.get("iss")))
        return True

    async def finish(self) -> None:
        """Stop listening. Can be called twice."""
        self.show, self.is_waiting = None, False
        if self._returned is not None and not self._returned.done():
            self._returned.cancel()
        self._returned = None
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request of the browser."""
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
            target = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
            taken = len(target) == 3 and target[0] == "GET" and urlsplit(target[1]).path == "/callback"
            if taken and self.take_return(target[1]):
                status, text = b"200 OK", b"You are signed in. You can close this page."
            else:
                status, text = b"404 Not Found", b"There is nothing here."
            writer.write(_PAGE % (status, len(text), text))
            await writer.drain()
        except (OSError, ValueError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # not a browser that returns from the page
        finally:
            writer.close()


def free_port() -> int:
    """A port of this machine that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
