"""What users see of all sessions and agents together: the session list and the inbox."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Raw

from accord.errors import InvalidParams, StoreError
from accord.frontend.recording import RecordedSession
from accord.gateway.access.access_tokens import TokenRights
from accord.gateway.client_connection import OutgoingFrame
from accord.gateway.contracts import InboxItem, InboxShare, SessionNode
from accord.gateway.gateway_client import GatewayClient
from accord.gateway.live_sessions import LiveSession
from accord.gateway.pending_requests import USER_REQUEST_METHODS, PendingRequest
from accord.schema.codec import encode
from accord.store import SessionSummary, iso_time
from accord.wire.envelope import Notification

if TYPE_CHECKING:
    from accord.gateway.gateway import Gateway

_MAX_CURSOR_DIGITS: Final = 18


class SessionOverview:
    """The inbox of pending requests and the list of sessions, limited to what each token may see."""

    def __init__(self, gateway: "Gateway") -> None:
        self._gateway = gateway
        self._share: InboxShare | None = None

    def share_inbox(self, share: InboxShare) -> None:
        """Show the requests of other nodes, too, and those of this gateway there."""
        self._share = share
        share.on_change = self._on_shared_change

    def _on_shared_change(self, item: InboxItem, is_pending: bool) -> None:
        params = {"added": Raw(item.json)} if is_pending else {"removed": {"id": item.id, "reason": ""}}
        frame = OutgoingFrame(encode(Notification("_accord/inbox", params)))
        clients = tuple(
            client
            for client in self._gateway.clients
            if client.wants_inbox and _may_see(client.rights, item.agent, item.folders)
        )
        if clients:
            self._gateway.outbox.post(clients, frame, None)
            self._gateway.outbox.flush()

    def inbox(self, client: GatewayClient) -> list[bytes]:
        """The inbox of a client: the entries of this gateway and of other nodes, as JSON."""
        own = [
            pending.inbox_item
            for pending in self._gateway.pending_requests
            if self.is_in_inbox(client.rights, pending)
        ]
        if self._share is None:
            return own
        return own + [
            item.json for item in self._share.others() if _may_see(client.rights, item.agent, item.folders)
        ]

    def count_pending(self, rights: TokenRights) -> int:
        """Count the entries of the inbox for a token."""
        own = sum(1 for pending in self._gateway.pending_requests if self.is_in_inbox(rights, pending))
        others = () if self._share is None else self._share.others()
        return own + sum(1 for item in others if _may_see(rights, item.agent, item.folders))

    def _share_change(self, pending: PendingRequest, is_pending: bool) -> None:
        """Tell the other nodes of a request, once its record is committed."""
        share, session = self._share, pending.session
        if share is None or session is None:
            return
        if not is_pending:
            share.remove(pending.inbox_id)
            return
        item = InboxItem(
            pending.inbox_id, session.agent.name, session.id, session.folders, pending.inbox_item
        )

        def on_commit(error: StoreError | None) -> None:
            if error is None and self._gateway.pending_requests.find(item.id) is not None:
                share.add(item)

        session.log.when(session.log.noted, on_commit)

    def is_in_inbox(self, rights: TokenRights, pending: PendingRequest) -> bool:
        """Whether a client with these rights may see the request and answer it."""
        session = pending.session
        if pending.method not in USER_REQUEST_METHODS or session is None:
            return False
        return _may_see(rights, session.agent.name, session.folders)

    def on_pending_change(self, pending: PendingRequest, is_pending: bool, reason: str) -> None:
        """Tell the clients that subscribed to the inbox that a request was added or removed."""
        self._gateway.metrics.pending_approvals = sum(
            1 for other in self._gateway.pending_requests if other.method in USER_REQUEST_METHODS
        )
        clients = tuple(
            client
            for client in self._gateway.clients
            if client.wants_inbox and self.is_in_inbox(client.rights, pending)
        )
        if clients:
            if is_pending:
                params = {"added": Raw(pending.inbox_item)}
            else:
                params = {"removed": {"id": pending.inbox_id, "reason": reason}}
            frame = OutgoingFrame(encode(Notification("_accord/inbox", params)))
            log = None if pending.session is None else pending.session.log
            self._gateway.outbox.post(clients, frame, None, log)
        self._share_change(pending, is_pending)
        notifier = self._gateway.notifier
        if notifier is not None and is_pending:
            notifier.request_added(pending)
        elif notifier is not None:
            notifier.request_removed(pending)
        if pending.session is not None:
            self.notify_changed(pending.session)

    async def list_sessions(
        self,
        rights: TokenRights,
        query: str = "",
        limit: int | None = None,
        cursor: str | None = None,
        *,
        archived: bool = False,
    ) -> tuple[list[dict[str, Any]], str | None]:
        """List the sessions that the token covers, most recently used first, and the cursor of the rest.

        `query` are words that title, agent or folders contain. `archived`: those that were archived instead
        of the others. Raises InvalidParams for an unknown cursor.
        """
        self._gateway.book.commit()
        words = query.casefold().split()
        before, skipped = (None, 0) if cursor is None else _read_list_cursor(cursor)
        entries: list[dict[str, Any]] = []
        owners = self._gateway.book.owners()
        last_used, at_that_time = before, 0
        for page in self._gateway.book.pages(before=before):
            for recorded in page:
                summary = recorded.summary
                if summary.updated != last_used:
                    last_used, at_that_time = summary.updated, 0
                at_that_time += 1
                if last_used == before and at_that_time <= skipped:
                    continue
                if summary.archived is not archived:
                    continue
                entry = self.entry(recorded, rights)
                if entry is None or not _contains_words(entry, words):
                    continue
                if (owner := owners.get(summary.session_id)) is not None:
                    entry["owner"] = owner
                if len(entries) == limit:
                    return entries, f"{last_used}.{at_that_time - 1}"
                entries.append(entry)
            await asyncio.sleep(0)  # let other tasks run
        return entries, None

    def entry(self, recorded: RecordedSession, rights: TokenRights) -> dict[str, Any] | None:
        """The entry of a stored session; None if no agent here has it, or the token does not cover it."""
        session = self._gateway.sessions.find(recorded.agent, recorded.session_id)
        node = self._gateway.book.node_of(recorded.agent, recorded.session_id)
        summary = recorded.summary
        folders = session.folders if session else (summary.cwd, *summary.additional_directories)
        if recorded.agent not in self._gateway.agents and node is None:
            return None
        if not rights.may_see(recorded.agent, recorded.session_id, folders):
            return None
        return _session_entry(
            recorded.agent,
            recorded.session_id,
            folders[0],
            _shown_title(session, summary),
            iso_time(summary.updated),
            session,
            node,
            archived=summary.archived,
        )

    def notify_elsewhere(self, recorded: RecordedSession) -> None:
        """Send the state of a session at another node to the clients that subscribed to sessions."""
        for client in self._gateway.clients:
            if client.wants_sessions and (entry := self.entry(recorded, client.rights)) is not None:
                client.notify("_accord/sessions", {"changed": entry})

    def notify_changed(self, session: LiveSession) -> None:
        """Send the state of a session to the clients that subscribed to sessions."""
        if self._gateway.on_session_change is not None:
            self._gateway.on_session_change(session)
        self._gateway.metrics.sessions.clear()
        self._gateway.metrics.sessions.update(session.state for session in self._gateway.sessions)
        clients = tuple(
            client
            for client in self._gateway.clients
            if client.wants_sessions
            and client.rights.may_see(session.agent.name, session.id, session.folders)
        )
        if clients:
            summary = session.log.summary
            entry = _session_entry(
                session.agent.name,
                session.id,
                session.cwd,
                _shown_title(session, summary),
                iso_time(summary.updated) if summary is not None else None,
                session,
                self._gateway.book.node_of(session.agent.name, session.id),
                archived=summary is not None and summary.archived,
            )
            body = encode(Notification("_accord/sessions", {"changed": entry}))
            self._gateway.outbox.post(clients, OutgoingFrame(body), None, session.log)

    def notify_removed(self, agent: str, session_id: str, folders: Sequence[str]) -> None:
        """Tell the clients that subscribed to sessions that one was deleted."""
        clients = tuple(
            client
            for client in self._gateway.clients
            if client.wants_sessions and client.rights.may_see(agent, session_id, folders)
        )
        if clients:
            params = {"removed": {"agent": agent, "sessionId": session_id}}
            body = encode(Notification("_accord/sessions", params))
            self._gateway.outbox.post(clients, OutgoingFrame(body), None)


def _may_see(rights: TokenRights, agent: str, folders: tuple[str, ...]) -> bool:
    return not rights.read_only and rights.covers(agent, folders)


def _read_list_cursor(cursor: str) -> tuple[int, int]:
    """When the last sessions of the page before were used, and how many of that time it had."""
    last_used, _, at_that_time = cursor.partition(".")
    if not (_is_number(last_used) and _is_number(at_that_time)):
        raise InvalidParams(f"unknown cursor {cursor[:40]!r}; list the sessions again without one")
    return int(last_used), int(at_that_time)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _MAX_CURSOR_DIGITS


def _contains_words(entry: dict[str, Any], words: Sequence[str]) -> bool:
    text = f"{entry.get('title', '')}\n{entry['agent']}\n{entry['cwd']}".casefold()
    return all(word in text for word in words)


def _shown_title(session: LiveSession | None, summary: SessionSummary | None) -> str | None:
    """The title that the user chose, else that of the agent."""
    stored = None if summary is None else summary.title
    if summary is not None and summary.title_set:
        return stored
    return (session.title if session is not None else None) or stored


def _session_entry(
    agent: str,
    session_id: str,
    cwd: str,
    title: str | None,
    updated: str | None,
    session: LiveSession | None,
    node: SessionNode | None,
    *,
    archived: bool,
) -> dict[str, Any]:
    elsewhere = "idle" if node is None else node.state
    entry: dict[str, Any] = {
        "agent": agent,
        "sessionId": session_id,
        "cwd": cwd,
        "state": session.state if session is not None else elsewhere,
        "clients": len(session.clients) if session is not None else 0,
        "live": session.open_at_agent if session is not None else elsewhere not in ("idle", "lost"),
    }
    if node is not None:
        entry["node"] = node.node
    if archived:
        entry["archived"] = True
    if title:
        entry["title"] = title
    if updated:
        entry["updatedAt"] = updated
    return entry
