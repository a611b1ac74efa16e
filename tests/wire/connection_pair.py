"""A connection under test with plain JSON routes, and a raw peer on the other end of a memory pair."""

from collections.abc import Callable
from typing import Any

import msgspec

from accord.errors import InvalidParams
from accord.testing.raw_peer import RawPeer
from accord.wire.calls import ConnectionLimits, ConnectionReport, Route
from accord.wire.connection import Connection
from accord.wire.memory_transport import memory_pair


def params_of(raw: msgspec.Raw | None) -> Any:
    value = msgspec.json.decode(raw) if raw is not None else {}
    if not isinstance(value, dict):
        raise InvalidParams(data="params must be an object")
    return value


def session_of(params: dict[str, Any]) -> str | None:
    return params.get("sessionId")


def route(
    run: Callable[..., Any], *, urgent: bool = False, run_now: Callable[..., Any] | None = None
) -> Route:
    return Route(run, params_of, session_of, urgent, run_now=run_now)


def read(raw: msgspec.Raw) -> Any:
    return msgspec.json.decode(raw)


class ConnectionPair:
    """One connection with its raw peer, and everything the connection reported."""

    def __init__(
        self,
        *,
        requests: dict[str, Callable[..., Any]] | None = None,
        notifications: dict[str, Callable[..., Any]] | None = None,
        urgent: tuple[str, ...] = (),
        run_now: dict[str, Callable[..., Any]] | None = None,
        **options: Any,
    ) -> None:
        ours, theirs = memory_pair()
        self.reports: list[ConnectionReport] = []
        self.connection = Connection(
            ours,
            requests={
                name: route(run, run_now=(run_now or {}).get(name)) for name, run in (requests or {}).items()
            },
            notifications={
                name: route(run, urgent=name in urgent) for name, run in (notifications or {}).items()
            },
            observer=self.reports.append,
            **options,
        )
        self.peer = RawPeer(theirs)
        self.connection.start()

    async def request(self, method: str, params: Any = None, *, key: Any = None, **options: Any) -> Any:
        return await self.connection.request(method, params or {}, read=read, key=key, **options)

    async def wait_settled(self) -> None:
        """Wait until the connection has processed everything the peer sent so far."""
        await self.peer.answer_to(self.peer.ask("_settle"))


def make_limits(**bounds: Any) -> ConnectionLimits:
    return ConnectionLimits(**bounds)
