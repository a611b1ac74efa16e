"""Unstable. Child sessions and the messages between sessions. Only for clients with the `subagents` capability."""

from typing import Annotated, TypeAlias

from .base import UNSET, Object
from .content import ContentBlock
from .ids import MessageId, SessionId
from .marks import Items, Known, Open, Opt, Strict, unstable
from .prompts import Usage
from .rpc import Error


@unstable
class SessionCancelCapabilities(Object):
    """Unstable. The child may be cancelled."""


@unstable
class SubagentSessionCapabilities(Object):
    """Unstable. What the client may do to a child session."""

    cancel: Opt[SessionCancelCapabilities | None] = UNSET


@unstable
class RunningStateUpdate(Object, tag_field="state", tag="running"):
    """Unstable. The child works."""


@unstable
class IdleStateUpdate(Object, tag_field="state", tag="idle"):
    """Unstable. The child rests; it may be used again. `error` comes with the stop reason `error`."""

    stop_reason: Opt[
        Annotated[str, Known("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "error")]
        | None
    ] = UNSET
    usage: Opt[Usage | None] = UNSET
    error: Opt[Error | None] = UNSET


@unstable
class RequiresActionStateUpdate(Object, tag_field="state", tag="requires_action"):
    """Unstable. The child waits for somebody."""


@unstable
class UnknownStateUpdate(Object, tag_field="state", tag="unknown"):
    """Unstable. The child can no longer be observed. Nothing is cancelled or resolved by that."""


StateUpdate: TypeAlias = Open[
    RunningStateUpdate | IdleStateUpdate | RequiresActionStateUpdate | UnknownStateUpdate
]


@unstable
class SubagentUpdate(Object, tag_field="sessionUpdate", tag="subagent_update"):
    """Unstable. Announces a child session, then patches it: absent keeps, null clears.

    Comes on the parent, the first time before anything of the child itself.
    """

    session_id: SessionId
    title: Opt[str | None] = UNSET
    description: Opt[str | None] = UNSET
    capabilities: Opt[SubagentSessionCapabilities | None] = UNSET
    state: Opt[StateUpdate | None] = UNSET
    cwd: Strict[str | None] = UNSET
    additional_directories: Strict[list[str] | None] = UNSET


@unstable
class SessionMessage(Object, tag_field="sessionUpdate", tag="session_message"):
    """Unstable. A message between sessions, created or patched. Any time after both were announced."""

    message_id: MessageId
    sender_session_id: Opt[SessionId | None] = UNSET
    recipient_session_id: Opt[SessionId | None] = UNSET
    sender_message_id: Opt[MessageId | None] = UNSET
    recipient_message_id: Opt[MessageId | None] = UNSET
    content: Opt[Items[ContentBlock] | None] = UNSET


@unstable
class SessionMessageChunk(Object, tag_field="sessionUpdate", tag="session_message_chunk"):
    """Unstable. One more block of such a message; may come before the message itself."""

    message_id: MessageId
    content: ContentBlock
