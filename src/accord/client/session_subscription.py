"""Follows the list of sessions of an agent: the extension `sessionIndex`. Imported on first use."""

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, cast

from msgspec import MsgspecError, Raw, Struct, convert

from accord.errors import BadAnswer, ConnectionClosed, NotOffered, UsageError
from accord.schema import SessionInfo
from accord.schema.codec import NotJson, parse_json
from accord.schema.methods import SESSION_LIST_SUBSCRIBE, SESSION_LIST_UNSUBSCRIBE

if TYPE_CHECKING:
    from accord.client.agent_connection import InitializedConnection
    from accord.client.agent_handle import AgentHandle

_MAX_UNREAD: Final = 10_000
"""How many changed sessions are kept for a slow reader; then the oldest are forgotten."""


class SessionListChange(Struct, frozen=True):
    """What has changed in the list since the last one."""

    sessions: tuple[SessionInfo, ...]
    """Sessions that are new or have changed, archived ones included."""
    removed: tuple[str, ...]
    """The ids of deleted sessions."""


class SessionSubscription:
    """`async with agent.follow_sessions(cwd) as changes:`, then `async for change in changes:`.

    A reader that is slow gets only the last state of each session. Raises ConnectionClosed at the end of the
    connection; follow the sessions again after a restart.
    """

    def __init__(self, handle: "AgentHandle", cwd: str) -> None:
        """Internal: use `RemoteAgent.follow_sessions`."""
        self._handle = handle
        self._cwd = cwd
        self._connection: InitializedConnection | None = None
        self._id = ""
        self._unread: dict[str, SessionInfo | None] = {}
        self._changed = asyncio.Event()

    async def __aenter__(self) -> Self:
        """Subscribe. Raises NotOffered if the agent does not announce the extension."""
        if self._connection is not None:
            raise UsageError("the sessions are followed already; call `follow_sessions` again")
        connection = await self._handle.ready()
        if not connection.has_session_index:
            raise NotOffered(f"{SESSION_LIST_SUBSCRIBE}: the agent does not tell changes of its sessions")
        self._connection = connection
        await connection.call(SESSION_LIST_SUBSCRIBE, {"cwd": self._cwd}, read=self._subscribed)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._handle.subscriptions.pop(self._id, None)
        connection = self._connection
        if connection is not None and self._id and connection.rpc.end is None:
            params = {"subscriptionId": self._id}
            try:
                await connection.call(SESSION_LIST_UNSUBSCRIBE, params, read=_plain)
            except ConnectionClosed:
                pass  # then there is no subscription either

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionListChange:
        connection = self._connection
        if connection is None:
            raise UsageError("use `async with agent.follow_sessions(...) as changes`")
        if not self._unread:
            self._changed.clear()
            changed = asyncio.ensure_future(self._changed.wait())
            ended = asyncio.ensure_future(connection.rpc.wait_ended())
            try:
                await asyncio.wait((changed, ended), return_when=asyncio.FIRST_COMPLETED)
            finally:
                changed.cancel()
                ended.cancel()
                await asyncio.gather(changed, ended, return_exceptions=True)
        if not self._unread:
            raise ConnectionClosed("the agent is gone; follow its sessions again after a restart")
        unread, self._unread = self._unread, {}
        sessions = tuple(info for info in unread.values() if info is not None)
        return SessionListChange(sessions, tuple(one for one, info in unread.items() if info is None))

    def receive(self, params: dict[str, Any]) -> None:
        """Keep the changes of a notification. Entries that cannot be read are left out."""
        for session_id in _items(params.get("removed")):
            if isinstance(session_id, str):
                self._keep(session_id, None)
        for row in _items(params.get("sessions")):
            try:
                info = convert(row, SessionInfo)
            except (MsgspecError, RecursionError):
                continue
            self._keep(info.session_id, info)
        self._changed.set()

    def _keep(self, session_id: str, info: SessionInfo | None) -> None:
        self._unread.pop(session_id, None)
        self._unread[session_id] = info
        if len(self._unread) > _MAX_UNREAD:
            del self._unread[next(iter(self._unread))]

    def _subscribed(self, result: Raw) -> None:
        """Take the id from the response: the first notification may follow directly."""
        value = _plain(result)
        subscription_id = (
            cast(dict[str, Any], value).get("subscriptionId") if isinstance(value, dict) else None
        )
        if not isinstance(subscription_id, str) or not subscription_id:
            raise BadAnswer(f"{SESSION_LIST_SUBSCRIBE}: the result has no subscriptionId")
        self._id = subscription_id
        self._handle.subscriptions[subscription_id] = self


def _items(value: object) -> list[Any]:
    return cast(list[Any], value)[:_MAX_UNREAD] if isinstance(value, list) else []


def _plain(raw: Raw) -> Any:
    try:
        return parse_json(raw)
    except NotJson as error:
        raise BadAnswer(f"the result cannot be read: {error}") from None
