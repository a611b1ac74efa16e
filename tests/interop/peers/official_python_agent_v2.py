"""An agent of the draft of version 2 on the official Python pre-release, which has an earlier revision.

A prompt "ask ..." asks for permission first, "busy" works until it is cancelled, and any other is repeated.
"""

# pyright: reportMissingImports=false
# The pre-release is in an environment of its own.
import asyncio
from typing import Any

from acp.experimental.v2 import run_agent, schema


class DraftAgent:
    def __init__(self) -> None:
        self.client: Any = None
        self.histories: dict[str, list[dict[str, Any]]] = {}
        self.folders: dict[str, str] = {}
        self.works: dict[str, asyncio.Task[None]] = {}
        self.count = 0

    def on_connect(self, client: Any) -> None:
        self.client = client

    async def update(self, session_id: str, **update: Any) -> None:
        if "message" in update["sessionUpdate"]:
            self.histories[session_id].append(update)
        message = {"sessionId": session_id, "update": update}
        notification = schema.UpdateSessionNotification.model_validate(message)
        await self.client.session_update(session_id, notification.update)

    async def initialize(self, **params: Any) -> schema.InitializeResponse:
        result = {
            "protocolVersion": 2,
            "info": {"name": "python", "version": "1"},
            "capabilities": {"session": {}},
        }
        return schema.InitializeResponse.model_validate(result)

    async def new_session(self, cwd: str, **params: Any) -> schema.NewSessionResponse:
        id = f"session-{len(self.histories) + 1}"
        self.histories[id], self.folders[id] = [], cwd
        return schema.NewSessionResponse.model_validate({"sessionId": id})

    async def list_sessions(self, **params: Any) -> schema.ListSessionsResponse:
        sessions = [{"sessionId": id, "cwd": cwd} for id, cwd in self.folders.items()]
        return schema.ListSessionsResponse.model_validate({"sessions": sessions})

    async def resume_session(self, session_id: str, replay_from: Any = None, **params: Any) -> Any:
        if replay_from is not None:
            history, self.histories[session_id] = self.histories[session_id], []
            for update in history:
                await self.update(session_id, **update)
        await self.update(session_id, sessionUpdate="state_update", state="idle")
        return schema.ResumeSessionResponse()

    async def close_session(self, session_id: str, **params: Any) -> schema.CloseSessionResponse:
        return schema.CloseSessionResponse()

    async def prompt(self, session_id: str, prompt: list[Any], **params: Any) -> schema.PromptResponse:
        self.count += 1
        id, text = f"message-{self.count}", prompt[0].text
        content = [{"type": "text", "text": text}]
        await self.update(session_id, sessionUpdate="user_message", messageId=id, content=content)
        self.works[session_id] = asyncio.create_task(self.work(session_id, text))
        return schema.PromptResponse.model_validate({"messageId": id})

    async def cancel_session(self, session_id: str, **params: Any) -> None:
        self.works[session_id].cancel()

    async def work(self, session_id: str, text: str) -> None:
        reason = "end_turn"
        await self.update(session_id, sessionUpdate="state_update", state="running")
        try:
            await self.steps(session_id, text)
        except asyncio.CancelledError:
            reason = "cancelled"
        await self.update(session_id, sessionUpdate="state_update", state="idle", stopReason=reason)

    async def steps(self, session_id: str, text: str) -> None:
        call = {"toolCallId": f"call-{self.count}", "title": "Work", "kind": "other"}
        await self.update(session_id, sessionUpdate="tool_call_update", **call, status="in_progress")
        if text == "busy":
            await asyncio.Event().wait()
        if text.startswith("ask "):
            question = {
                "sessionId": session_id,
                "title": "May I?",
                "subject": {"type": "tool_call", "toolCall": call},
                "options": [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}],
            }
            request = schema.RequestPermissionRequest.model_validate(question)
            answer = await self.client.request_permission(
                session_id, request.title, request.options, subject=request.subject
            )
            text = answer.outcome.outcome
        await self.update(session_id, sessionUpdate="tool_call_update", **call, status="completed")
        id = f"answer-{self.count}"
        for part in (text[:2], text[2:]):
            content = {"type": "text", "text": part}
            await self.update(session_id, sessionUpdate="agent_message_chunk", messageId=id, content=content)


asyncio.run(run_agent(DraftAgent()))
