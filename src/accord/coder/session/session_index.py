"""Titles, archive, status and subscriptions of the list of sessions. Imported on first use.

The standard methods and those of the extension `sessionIndex` do the same: `session/set_title` and
`_session/rename`, `session/archive` and `_session/archive`.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import uuid4

from accord.agent.capabilities import unknown_session
from accord.agent.decorators import ClientRequest
from accord.clock import Clock, Timer
from accord.coder.session.session_lifecycle import protocol_errors
from accord.errors import ConnectionClosed, InvalidParams, NotFound, StoreError
from accord.policy.git_repository import repository_of
from accord.schema.codec import to_builtins
from accord.schema.methods import SESSION_LIST_CHANGES
from accord.schema.session_requests import (
    ArchiveSessionResponse,
    SessionStatusResponse,
    SetSessionTitleResponse,
    UnarchiveSessionResponse,
)
from accord.store.session_summary import SessionSummary, normalized_folder

if TYPE_CHECKING:
    from accord.agent.app import AgentConnection
    from accord.coder.resources import CoderResources

MAX_SUBSCRIPTIONS: Final = 128
"""For each connection."""
_INTERVAL: Final = 1.0
"""The shortest time between two notifications about a session."""
_MAX_IDS: Final = 1000


class ListedSessions:
    """The methods of the list, and its subscriptions. One for each process."""

    def __init__(self, resources: "CoderResources") -> None:
        self._resources = resources
        self._subscriptions: dict[str, _Subscription] = {}

    # -- single sessions -------------------------------------------------------------------------------------

    async def set_title(self, session_id: str, title: str, call: ClientRequest) -> SetSessionTitleResponse:
        """Store a title that no generated one replaces. The session need not be open."""
        summary = self._summary(session_id)
        with protocol_errors():
            stored = self._resources.store.set_title(session_id, title)
        session = call.connection.sessions.get(session_id)
        if session is not None:
            session.data.has_title = True
            await session.title(stored)
        self.changed(session_id, summary.cwd)
        return SetSessionTitleResponse(stored)

    async def archive(self, session_id: str, call: ClientRequest, *, archived: bool = True) -> dict[str, Any]:
        """Close the session and hide it from the list, or show it again. May be repeated."""
        summary = self._summary(session_id)
        if archived:
            await call.connection.close_session(session_id)
        with protocol_errors():
            store = self._resources.store
            (store.archive if archived else store.unarchive)(session_id)
        self.changed(session_id, summary.cwd)
        return {}

    def status(self, session_id: str) -> SessionStatusResponse:
        """Whether this process has the session in memory."""
        self._summary(session_id)
        with protocol_errors():
            lease = self._resources.store.writer(session_id)
        return SessionStatusResponse("open" if lease is not None and lease.ours else "saved")

    def _summary(self, session_id: str) -> SessionSummary:
        with protocol_errors():
            try:
                return self._resources.store.summary(session_id)
            except NotFound:
                raise unknown_session(session_id) from None

    # -- the extension ---------------------------------------------------------------------------------------

    async def serve(self, method: str, params: Any, call: ClientRequest) -> Any:
        """Serve a standard method or one of the extension. Raises InvalidParams."""
        if method == "status":
            return self.status(params.session_id)
        if method == "set_title":
            return await self.set_title(params.session_id, params.title, call)
        if method in ("archive", "unarchive"):
            await self.archive(params.session_id, call, archived=method == "archive")
            return ArchiveSessionResponse() if method == "archive" else UnarchiveSessionResponse()
        members = cast(dict[str, Any], params) if isinstance(params, dict) else {}
        match method.rpartition("/")[2]:
            case "batch_get":
                return self._batch(method, members)
            case "subscribe":
                return self._subscribe(method, members, call)
            case "unsubscribe":
                self._unsubscribe(_text(method, members, "subscriptionId"), call.connection)
                return {}
            case "rename":
                title = _text(method, members, "title")
                await self.set_title(_text(method, members, "sessionId"), title, call)
                return {}
            case name:
                session_id = _text(method, members, "sessionId")
                return await self.archive(session_id, call, archived=name == "archive")

    def _batch(self, method: str, members: dict[str, Any]) -> dict[str, Any]:
        if unknown := members.keys() - {"sessionIds", "_meta"}:
            raise InvalidParams(f"{method}: unknown member {min(unknown)!r}")
        ids: Any = members.get("sessionIds")
        if not isinstance(ids, list) or len(cast(list[Any], ids)) > _MAX_IDS:
            raise InvalidParams(f"{method}: sessionIds must be a list of at most {_MAX_IDS} ids")
        wanted = cast(list[Any], ids)
        if not all(isinstance(one, str) and one.strip() for one in wanted) or len({*wanted}) < len(wanted):
            raise InvalidParams(f"{method}: sessionIds must be different texts that are not blank")
        with protocol_errors():
            return {"sessions": [row for one in wanted if (row := self._row(one)) is not None]}

    def _row(self, session_id: str) -> dict[str, Any] | None:
        """The entry of a session in the list; None if there is none."""
        try:
            summary = self._resources.store.summary(session_id)
        except NotFound:
            return None
        return to_builtins(summary.info()) if summary.is_used else None

    # -- subscriptions ---------------------------------------------------------------------------------------

    def _subscribe(self, method: str, members: dict[str, Any], call: ClientRequest) -> dict[str, Any]:
        cwd = _text(method, members, "cwd")
        if not os.path.isabs(cwd):
            raise InvalidParams(f"{method}: cwd is not absolute: {cwd!r}")
        connection = call.connection
        own = [one for one in self._subscriptions.values() if one.connection is connection]
        if len(own) >= MAX_SUBSCRIPTIONS:
            reason = {"reason": "too_many_subscriptions"}
            raise InvalidParams(f"{method}: this connection has {MAX_SUBSCRIPTIONS} subscriptions", reason)
        if not own:
            connection.when_ended(lambda: self._drop(connection))
        subscription = _Subscription(cwd, connection, self, self._resources.options.clock)
        self._subscriptions[subscription.id] = subscription
        return {"subscriptionId": subscription.id}

    def _unsubscribe(self, subscription_id: str, connection: "AgentConnection") -> None:
        """End a subscription of this connection. Does nothing if there is none."""
        subscription = self._subscriptions.get(subscription_id)
        if subscription is not None and subscription.connection is connection:
            subscription.close()
            del self._subscriptions[subscription_id]

    def _drop(self, connection: "AgentConnection") -> None:
        for key, subscription in list(self._subscriptions.items()):
            if subscription.connection is connection:
                subscription.close()
                del self._subscriptions[key]

    def changed(self, session_id: str, cwd: str) -> None:
        """Tell the subscribers about a session that is new, has changed or was deleted."""
        for subscription in self._subscriptions.values():
            subscription.changed(session_id, cwd)

    def rows(self, session_ids: list[str]) -> tuple[list[dict[str, Any]], list[str]]:
        """The entries of these sessions, and the ids of those that are gone. Raises StoreError."""
        self._resources.commit()
        rows: list[dict[str, Any]] = []
        removed: list[str] = []
        for session_id in session_ids:
            try:
                summary = self._resources.store.summary(session_id)
            except NotFound:
                removed.append(session_id)
                continue
            if summary.is_used:
                rows.append(to_builtins(summary.info()))
        return rows, removed


class _Subscription:
    """One client's interest in the sessions of a folder and its worktrees."""

    def __init__(self, cwd: str, connection: "AgentConnection", index: ListedSessions, clock: Clock) -> None:
        self.id: str = uuid4().hex
        self.connection = connection
        self._folder = normalized_folder(cwd)
        self._index = index
        self._clock = clock
        self._matches: dict[str, bool] = {}
        self._pending: dict[str, float] = {}
        """When each changed session may be told."""
        self._told: dict[str, float] = {}
        """When each session was told last, within the interval."""
        self._timer: Timer | None = None

    def changed(self, session_id: str, cwd: str) -> None:
        """Tell the client, at once or after the interval."""
        if not self._is_here(cwd):
            return
        now = self._clock.now()
        told = self._told.get(session_id)
        self._pending.setdefault(session_id, now if told is None else max(now, told + _INTERVAL))
        self._schedule()

    def close(self) -> None:
        """Tell nothing any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _is_here(self, cwd: str) -> bool:
        folder = normalized_folder(cwd)
        if folder not in self._matches:
            self._matches = {folder: _same_place(self._folder, folder), **self._matches}
        return self._matches[folder]

    def _schedule(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        delay = max(0.0, min(self._pending.values()) - self._clock.now())
        self._timer = self._clock.call_later(delay, self._tell)

    def _tell(self) -> None:
        now = self._clock.now()
        due = [one for one, at in self._pending.items() if at <= now]
        try:
            rows, removed = self._index.rows(due)
        except StoreError:
            return  # best effort: the next change tells it
        for session_id in due:
            del self._pending[session_id]
        self._told = {one: at for one, at in self._told.items() if now - at < _INTERVAL}
        self._told.update(dict.fromkeys(due, now))
        if self._pending:
            self._schedule()
        if not rows and not removed:
            return
        try:
            params = {"subscriptionId": self.id, "sessions": rows, "removed": removed}
            self.connection.client.notify(SESSION_LIST_CHANGES, params)
        except ConnectionClosed:
            self.close()


def _same_place(folder: str, other: str) -> bool:
    """Whether two folders are the same, or the same one in two worktrees of a repository."""
    if folder == other:
        return True
    first, second = (repository_of(Path(os.path.realpath(path))) for path in (folder, other))
    if first is None or second is None or first.common_dir != second.common_dir:
        return False
    places = ((folder, first.top), (other, second.top))
    one, two = (os.path.relpath(os.path.realpath(path), os.path.realpath(top)) for path, top in places)
    return one == two


def _text(method: str, members: dict[str, Any], name: str) -> str:
    value = members.get(name)
    if not isinstance(value, str) or not value.strip():
        raise InvalidParams(f"{method} needs {name}, a text")
    return value
