"""What is open over all sessions: the inbox of questions that wait for a person, the list of sessions, and who watches them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from accord.gateway.access.passes import Pass
from accord.gateway.asks import WAITING, Ask
from accord.gateway.line import Outgoing
from accord.gateway.sessions import LiveSession
from accord.gateway.visitor import Visitor
from accord.schema.codec import encode
from accord.store import iso_time

if TYPE_CHECKING:
    from accord.gateway.gateway import Gateway


class Overview:
    """The inbox and the list, as each token may see them."""

    def __init__(self, gateway: "Gateway") -> None:
        self._gateway = gateway

    def in_inbox_of(self, visitor: Visitor, ask: Ask) -> bool:
        """Whether this client may see it and answer it."""
        session = ask.session
        if ask.method not in WAITING or session is None or visitor.visa.read_only:
            return False
        return visitor.visa.covers(session.agent.name, session.folders)

    def ask_told(self, ask: Ask, here: bool, reason: str) -> None:
        self._gateway.metrics.pending_approvals = sum(
            1 for other in self._gateway.asks if other.method in WAITING
        )
        if here:
            params = b'{"added":%s}' % ask.item
        else:
            params = encode({"removed": {"id": str(ask.number), "reason": reason}})
        told = tuple(
            visitor
            for visitor in self._gateway.visitors
            if visitor.wants_inbox and self.in_inbox_of(visitor, ask)
        )
        if told:
            frame = Outgoing(b'{"jsonrpc":"2.0","method":"_accord/inbox","params":%s}' % params)
            self._gateway.post(told, frame, None)
        if ask.session is not None:
            self.changed(ask.session)

    def sessions(self, visa: Pass) -> list[dict[str, Any]]:
        """All sessions that were ever here and that the token covers, the ones used last first."""
        self._gateway.sessions.book.commit()
        told: list[dict[str, Any]] = []
        for recorded in self._gateway.sessions.book.list():
            agent = self._gateway.agents.get(recorded.agent)
            if agent is None:
                continue
            session = self._gateway.sessions.find(agent.name, recorded.session_id)
            if session is not None and not session.log.kept:
                session = None  # it only has the same id
            head = recorded.head
            folders = session.folders if session else (head.cwd, *head.additional_directories)
            if not visa.covers(agent.name, folders):
                continue
            told.append(
                _line(
                    agent.name,
                    recorded.session_id,
                    folders[0],
                    (session.title if session else None) or head.title,
                    iso_time(head.updated),
                    session,
                )
            )
        return told

    def changed(self, session: LiveSession) -> None:
        """Tell those who watch the sessions how this one stands."""
        self._gateway.metrics.sessions.clear()
        self._gateway.metrics.sessions.update(each.state for each in self._gateway.sessions)
        told = tuple(
            visitor
            for visitor in self._gateway.visitors
            if visitor.wants_sessions and visitor.visa.covers(session.agent.name, session.folders)
        )
        if told:
            head = session.log.head
            updated = iso_time(head.updated) if head is not None else None
            title = session.title or (head.title if head is not None else None)
            entry = _line(session.agent.name, session.id, session.cwd, title, updated, session)
            body = b'{"jsonrpc":"2.0","method":"_accord/sessions","params":%s}' % encode({"changed": entry})
            self._gateway.post(told, Outgoing(body), None)

    def removed(self, agent: str, session_id: str, folders: Sequence[str]) -> None:
        """Tell those who watch the sessions that one is no more."""
        params = encode({"removed": {"agent": agent, "sessionId": session_id}})
        told = tuple(
            visitor
            for visitor in self._gateway.visitors
            if visitor.wants_sessions and visitor.visa.covers(agent, folders)
        )
        if told:
            body = b'{"jsonrpc":"2.0","method":"_accord/sessions","params":%s}' % params
            self._gateway.post(told, Outgoing(body), None)


def _line(
    agent: str, session_id: str, cwd: str, title: str | None, updated: str | None, session: LiveSession | None
) -> dict[str, Any]:
    told: dict[str, Any] = {
        "agent": agent,
        "sessionId": session_id,
        "cwd": cwd,
        "state": session.state if session is not None else "idle",
        "clients": len(session.visitors) if session is not None else 0,
        "live": session.live if session is not None else False,
    }
    if title:
        told["title"] = title
    if updated:
        told["updatedAt"] = updated
    return told
