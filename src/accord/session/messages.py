"""Messages: what the user said, what the agent said, what it thought; and messages between sessions."""

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

from accord.schema import UNSET, ContentBlock, SessionMessage
from accord.session.content import Body

MessageKind: TypeAlias = Literal["user", "agent", "thought"]


class Message(Body):
    """One message of the conversation. It grows while its chunks come in; `id` is the agent's, if it gave one."""

    __slots__ = ("id", "kind")

    def __init__(self, kind: MessageKind, id: str | None = None, blocks: Iterable[ContentBlock] = ()) -> None:
        super().__init__(blocks)
        self.kind: MessageKind = kind
        self.id = id

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Message)
            and (self.kind, self.id) == (other.kind, other.id)
            and self.blocks == other.blocks
        )

    __hash__ = None  # type: ignore[assignment]  # it grows

    def __repr__(self) -> str:
        return f"Message({self.kind!r}, id={self.id!r}, text={self.text!r})"


class SessionMessageState(Body):
    """One message between two sessions, as this session sees it: content, and who wrote to whom. Unstable."""

    __slots__ = (
        "message_id",
        "meta",
        "recipient_message_id",
        "recipient_session_id",
        "sender_message_id",
        "sender_session_id",
    )

    def __init__(self, message_id: str) -> None:
        super().__init__()
        self.message_id = message_id
        self.sender_session_id: str | None = None
        self.recipient_session_id: str | None = None
        self.sender_message_id: str | None = None
        self.recipient_message_id: str | None = None
        self.meta: dict[str, Any] | None = None

    def apply(self, patch: SessionMessage) -> None:
        """Omitted keeps, null clears, a value replaces."""
        if patch.sender_session_id is not UNSET:
            self.sender_session_id = patch.sender_session_id
        if patch.recipient_session_id is not UNSET:
            self.recipient_session_id = patch.recipient_session_id
        if patch.sender_message_id is not UNSET:
            self.sender_message_id = patch.sender_message_id
        if patch.recipient_message_id is not UNSET:
            self.recipient_message_id = patch.recipient_message_id
        if patch.meta is not UNSET:
            self.meta = patch.meta
        if patch.content is not UNSET:
            self.replace(patch.content or ())

    def whole(self) -> SessionMessage:
        """The one update that says all of it."""
        return SessionMessage(
            message_id=self.message_id,
            sender_session_id=self.sender_session_id,
            recipient_session_id=self.recipient_session_id,
            sender_message_id=self.sender_message_id,
            recipient_message_id=self.recipient_message_id,
            content=list(self.blocks),
            meta=UNSET if self.meta is None else self.meta,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SessionMessageState) and self.whole() == other.whole()

    __hash__ = None  # type: ignore[assignment]  # it grows
