"""Sessions that the gateway names differently than their agent, because another node of the cluster had the
id first.

Clients, logs and the gateway use the id of the gateway. Only the messages to and from the agent have its own.
"""

from typing import Any, Final

from msgspec import Raw

from accord.gateway.contracts import SessionNames
from accord.schema.codec import DECODE_ERRORS, decoder, encode
from accord.wire.transport import Frame

_MARK: Final = b"~"
"""In every id that differs from the agent's."""
_OPENING: Final = frozenset({"session/load", "session/resume"})


class RenamedSessions:
    """The ids of one agent process."""

    def __init__(self, names: SessionNames, agent: str) -> None:
        self._names = names
        self._agent = agent
        self._shown: dict[str, str] = {}
        """By the agent's id, for the sessions that this process has open."""
        self._own: dict[str, str] = {}

    def add(self, own_id: str, session_id: str) -> None:
        """Note which id the gateway uses for a session of this process."""
        if own_id != session_id:
            self._shown[own_id], self._own[session_id] = session_id, own_id
        else:
            self._shown.pop(own_id, None)

    def own_id(self, session_id: str) -> str:
        """The agent's id of a session."""
        return self._own.get(session_id) or self._names.own_id(self._agent, session_id)

    # -- to the agent

    def outgoing(self, method: str, params: bytes) -> bytes:
        """The params of a message to the agent, with its own id."""
        if _MARK not in params:
            return params
        members = _members(params)
        session_id = _text(members.get("sessionId"))
        own_id = session_id and self.own_id(session_id)
        if not own_id or own_id == session_id:
            return params
        if method in _OPENING:
            self.add(own_id, session_id)
        return encode({**members, "sessionId": own_id})

    # -- from the agent

    @property
    def is_used(self) -> bool:
        """Whether any message of the agent may have to be changed."""
        return bool(self._shown)

    def incoming(self, frame: Frame) -> Frame:
        """A message of the agent with the gateway's ids."""
        if not isinstance(frame, bytes) or not any(own_id.encode() in frame for own_id in self._shown):
            return frame
        members = _members(frame)
        for name in ("params", "result"):
            inner = _members(members.get(name))
            session_id = self._shown.get(_text(inner.get("sessionId")))
            if session_id is not None:
                return encode({**members, name: {**inner, "sessionId": session_id}})
        return frame


def _members(value: Any) -> dict[str, Any]:
    try:
        return {} if value is None else decoder(dict[str, Raw]).decode(value)
    except DECODE_ERRORS:
        return {}


def _text(value: Any) -> str:
    try:
        return "" if value is None else decoder(str).decode(value)
    except DECODE_ERRORS:
        return ""
