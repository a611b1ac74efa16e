"""Messages of the user that join a running turn: `_session/steering`. Imported on first use."""

import asyncio
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec import Raw

from accord.agent.capabilities import check_prompt, unknown_session
from accord.agent.decorators import ClientRequest
from accord.errors import InvalidParams, InvalidRequest
from accord.schema.codec import encode
from accord.schema.content import ContentBlock, PromptRequest, TextContent
from accord.schema.message_reader import MessageReader
from accord.schema.methods import SESSION_STEERING, request

if TYPE_CHECKING:
    from accord.agent.agent_session import AgentSession
    from accord.agent.capabilities import AgentFeatures
    from accord.agent.turn import Turn

MAX_UNREAD: Final = 100
"""How many messages a turn keeps until the model's next step."""


class Steering:
    """The messages that wait for the next step of the running turn."""

    def __init__(self) -> None:
        self._turn: Turn | None = None
        self._unread: list[list[ContentBlock]] = []
        self._closed = False
        self.arrived: asyncio.Event = asyncio.Event()
        """Set while messages wait."""

    def add(self, turn: "Turn | None", blocks: list[ContentBlock]) -> bool:
        """Add a message to the running turn. Returns False if it takes no more."""
        if turn is None or not turn.live or turn.cancelled:
            return False
        self._use(turn)
        if self._closed:
            return False
        if len(self._unread) >= MAX_UNREAD:
            raise InvalidRequest(f"{MAX_UNREAD} messages wait for the next step of the turn already")
        self._unread.append(blocks)
        self.arrived.set()
        return True

    def take(self, turn: "Turn") -> list[list[ContentBlock]]:
        """Remove and return the messages of this turn."""
        self._use(turn)
        unread, self._unread = self._unread, []
        self.arrived.clear()
        return unread

    def close_if_empty(self, turn: "Turn") -> bool:
        """Take no more messages, unless there are some that the model has not seen."""
        self._use(turn)
        self._closed = self._closed or not self._unread
        return self._closed

    def close(self, turn: "Turn") -> None:
        """Take no more messages, and drop those that the model has not seen."""
        self.take(turn)
        self._closed = True

    def _use(self, turn: "Turn") -> None:
        if turn is not self._turn:
            self._turn, self._unread, self._closed = turn, [], False
            self.arrived.clear()


def steer(params: Any, call: ClientRequest, accepts: "AgentFeatures", *, strict: bool) -> dict[str, str]:
    """Serve `_session/steering`.

    One step decides whether a turn runs and adds the message: the turn cannot end in between.
    """
    values = cast(dict[str, Any], params) if isinstance(params, dict) else {}
    session_id = values.get("sessionId")
    if not isinstance(session_id, str) or not session_id:
        raise InvalidParams(f"{SESSION_STEERING} needs a sessionId")
    blocks = _blocks(values, strict=strict)
    if strict:
        check_prompt(blocks, accepts)
    may_start_turn = _may_start_turn(values)
    session: AgentSession | None = call.connection.sessions.get(session_id)
    if session is None:
        raise unknown_session(session_id)
    if session.data.steering.add(session.turn, blocks):
        return {"outcome": "injected"}
    if not may_start_turn:
        return {"outcome": "promptRequired", "reason": "noRunningTurn"}
    call.connection.start_turn(session_id, blocks)
    return {"outcome": "startedNewTurn"}


def _blocks(values: dict[str, Any], *, strict: bool) -> list[ContentBlock]:
    entry = request("agent", "session/prompt")
    assert entry is not None
    body = {"sessionId": values["sessionId"], "prompt": values.get("prompt")}
    decoded: PromptRequest = MessageReader(strict=strict).params_reader(entry)(Raw(encode(body)))
    if not any(not isinstance(block, TextContent) or block.text.strip() for block in decoded.prompt):
        raise InvalidParams("prompt: it is empty")
    return decoded.prompt


def _may_start_turn(values: dict[str, Any]) -> bool:
    """Whether a message without a running turn starts one. `promptRequired`: the client will prompt."""
    meta = values.get("_meta")
    options = cast(dict[str, Any], meta).get("steering") if isinstance(meta, dict) else None
    idle = cast(dict[str, Any], options).get("idleBehavior") if isinstance(options, dict) else None
    if idle not in (None, "promptRequired"):
        raise InvalidParams(f"idleBehavior {idle!r} is unknown; the only value is 'promptRequired'")
    return idle is None
