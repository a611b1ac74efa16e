"""Where it begins: start a program, dial an address, or take a transport, and get a connected agent."""

import os
from collections.abc import Generator, Mapping
from types import TracebackType
from typing import Any

from accord.client.handlers import ClientHandlers
from accord.client.life import Life, Source
from accord.client.login import Launch
from accord.client.options import ClientOptions
from accord.client.remote import RemoteAgent
from accord.errors import UsageError
from accord.wire.remote.address import Tls, is_address, read_address
from accord.wire.remote.dial import Dial
from accord.wire.transport import Transport


class Connecting:
    """An agent about to be connected: `async with` it, or `await` it and call `aclose` yourself."""

    def __init__(
        self, source: Source, handlers: ClientHandlers | None, options: ClientOptions | None
    ) -> None:
        self._life = Life(source, handlers or ClientHandlers(), options or ClientOptions())

    async def _connected(self) -> RemoteAgent:
        await self._life.start()
        return RemoteAgent(self._life)

    def __await__(self) -> Generator[Any, Any, RemoteAgent]:
        return self._connected().__await__()

    async def __aenter__(self) -> RemoteAgent:
        return await self._connected()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._life.aclose()


def connect(
    *command: str,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str | None] | None = None,
    token: str | None = None,
    headers: Mapping[str, str] | None = None,
    tls: Tls | None = None,
    handlers: ClientHandlers | None = None,
    options: ClientOptions | None = None,
) -> Connecting:
    """Start an agent and connect to it over its stdin and stdout, or connect to one at an address.

    `cwd` is where the program starts (sessions have folders of their own), `env` is laid over our own environment, with
    None for what to leave out. An address begins with `ws://` or `wss://` (WebSocket), `http://` or `https://` (streamable
    HTTP); with it go `token` (sent as a bearer token; `#token=...` in the address is the same), further `headers`, and whom
    to trust: `tls`, a context or a file of certificates. Raises NeverStarted, HandshakeFailed or RequestTimeout when it is
    entered.
    """
    if not command:
        raise UsageError("connect needs the agent's command, such as connect('some-agent', '--acp')")
    program, *arguments = command
    if is_address(program):
        if arguments or cwd is not None or env is not None:
            raise UsageError("an agent at an address is not started here: it takes no arguments, cwd or env")
        address = read_address(program, token=token, headers=headers, tls=tls)
        return Connecting(Dial(address), handlers, options)
    if token is not None or headers is not None or tls is not None:
        raise UsageError(f"token, headers and tls are for an agent at an address; {program!r} is a program")
    launch = Launch(command, None if cwd is None else os.fspath(cwd), env)
    return Connecting(launch, handlers, options)


def connect_transport(
    transport: Transport, *, handlers: ClientHandlers | None = None, options: ClientOptions | None = None
) -> Connecting:
    """Connect to an agent at the other end of a transport. It cannot be restarted."""
    return Connecting(transport, handlers, options)
