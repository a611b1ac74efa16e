"""The turns of the model agent. The first word of a prompt selects an action from `prompt_actions.py`."""

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.check.model_agent.connection import ErrorResponse
from tests.check.model_agent.prompt_actions import ACTIONS
from tests.check.model_agent.state import Message, Session

if TYPE_CHECKING:
    from tests.check.model_agent.agent import ModelAgent


class Turns:
    """Takes prompts, one at a time in each session."""

    def __init__(self, agent: "ModelAgent") -> None:
        self.agent = agent
        self.breaks = agent.breaks
        self.reasons: dict[str, str] = {}
        self.was_cancelled: set[str] = set()
        self.messages = 0
        self.permission_path: Path | None = None
        self.trace: str | None = None
        self.calls = 0

    # -- messages of a turn

    def update(self, session: Session, update: Message) -> None:
        self.agent.notify("session/update", {"sessionId": session.id, "update": update})

    def say(
        self, session: Session, text: str, kind: str = "agent_message_chunk", *, fresh: bool = True
    ) -> None:
        self.messages += fresh
        update = {
            "sessionUpdate": kind,
            "content": {"type": "text", "text": text},
            "messageId": f"m{self.messages}",
        }
        session.history.append(update)
        meta = {"_meta": {"traceparent": self.trace}} if self.trace else {}
        self.update(session, {**update, **meta})

    def send_options(self, session: Session) -> None:
        options = self.agent.sessions.settings_of(session)["configOptions"]
        self.update(session, {"sessionUpdate": "config_option_update", "configOptions": options})

    # -- prompts

    async def handle_prompt(self, session: Session, params: Message) -> Any:
        prompt = params.get("prompt")
        if isinstance(prompt, str) and (not self.agent.strict or self.breaks("accord.agent-strict-mode")):
            prompt = [{"type": "text", "text": prompt}]
        if not isinstance(prompt, list):
            raise ErrorResponse(-32602)
        if any(block.get("type") == "text" and "text" not in block for block in prompt) and not self.breaks(
            "prompt.malformed-refused"
        ):
            raise ErrorResponse(-32602)
        if self.breaks("prompt.text-block") and len(prompt) == 1:
            raise ErrorResponse(-32603)
        if self.breaks("prompt.resource-link-block") and any(
            block["type"] == "resource_link" for block in prompt
        ):
            raise ErrorResponse(-32602)
        text = "".join(block.get("text", "") for block in prompt)
        if self.breaks("accord.agent-lone-surrogate") and "\ud83d" in text:
            raise ErrorResponse(-32602)
        if session.turn is not None:
            raise ErrorResponse(-32603 if self.breaks("accord.prompt-during-turn") else -32600)
        if self.breaks("cancel.without-turn") and session.id in self.agent.sessions.cancelled_idle:
            return {"stopReason": "cancelled"}
        if self.breaks("cancel.session-continues") and session.id in self.was_cancelled:
            raise ErrorResponse(-32603)
        session.prompts += 1
        if (self.breaks("prompt.answered") and text == "say") or (
            self.breaks("fault-slow") and session.prompts > 1
        ):
            await asyncio.Event().wait()
        self.trace = (params.get("_meta") or {}).get("traceparent")
        return await self.run(session, text.replace("\ud83d", "\ufffd"))

    async def run(self, session: Session, text: str) -> Any:
        session.history.append(
            {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": text}}
        )
        word, _, rest = text.strip().partition(" ")
        action = ACTIONS.get(word, ACTIONS["say"])
        session.turn = self.agent.spawn(action(self, session, rest))
        try:
            await asyncio.wait([session.turn])
            reason = "end_turn" if not session.turn.cancelled() else self.reasons.pop(session.id, "cancelled")
            if not session.turn.cancelled() and session.turn.exception() is not None:
                raise session.turn.exception()  # type: ignore[misc]
        finally:
            session.turn = None
        return self.answer(session, reason)

    def answer(self, session: Session, reason: str) -> Any:
        if reason == "cancelled":
            self.was_cancelled.add(session.id)
            if self.breaks("cancel.no-error"):
                raise ErrorResponse(-32603)
            if self.breaks("cancel.stop-reason"):
                reason = "end_turn"
        if reason == "refused":
            raise ErrorResponse(-32603)
        if self.breaks("title.not-overwritten"):
            session.title = "generated"
        late = {
            "cancel.updates-before-response": "cancelled",
            "prompt.updates-before-response": "end_turn",
        }.get(self.agent.broken)
        if late == reason:
            asyncio.get_running_loop().call_soon(self.say, session, "and one more thing")
        usage = {"totalTokens": 3, "inputTokens": 2, "outputTokens": 1}
        return {"stopReason": reason, "usage": usage}

    # -- cancellation

    def cancel(self, session: Session, reason: str = "cancelled") -> None:
        if (
            session.turn is not None
            and not self.breaks("cancel.soon")
            and not (
                session.permission_pending
                and self.agent.broken in ("cancel.permission-outcome", "fault-stalls")
            )
        ):
            self.reasons[session.id] = reason
            session.turn.cancel()

    def cancel_request(self, id: Any) -> bool:
        """End the turn of a request. The model agent has only one turn at a time when this is used."""
        for session in self.agent.sessions.open.values():
            if session.turn is not None and id != 9999:
                self.cancel(
                    session, "refused" if self.breaks("cancel-request.agent-still-answered") else "cancelled"
                )
                return True
        return False

    def send_over_several_lines(self, message: Message) -> None:
        """Send one message over several lines, which breaks the framing."""
        for line in json.dumps({"jsonrpc": "2.0", **message}, indent=1).splitlines():
            self.agent.send_raw(line.encode())
