"""An agent that knows only the official SDK."""

import asyncio
from typing import Any

from acp import (
    InitializeResponse,
    NewSessionResponse,
    PromptResponse,
    RequestError,
    run_agent,
    text_block,
    update_agent_message,
)
from acp.schema import Implementation


class OfficialAgent:
    """Counts, reads a file of the client, waits for a cancel, or fails, as the prompt says."""

    def __init__(self) -> None:
        self._cancelled = asyncio.Event()

    def on_connect(self, conn: Any) -> None:
        self._conn = conn

    async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:
        return InitializeResponse(
            protocol_version=protocol_version, agent_info=Implementation(name="official", version="1")
        )

    async def new_session(self, cwd: str, **_: Any) -> NewSessionResponse:
        return NewSessionResponse(session_id="one")

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> PromptResponse:
        text = prompt[0].text
        if text == "count":
            for number in range(20):
                await self._say(session_id, f"update {number}")
        elif text == "read":
            file = await self._conn.read_text_file(path="/hello.txt", session_id=session_id)
            await self._say(session_id, f"file: {file.content}")
        elif text == "wait":
            await self._cancelled.wait()
            return PromptResponse(stop_reason="cancelled")
        else:
            raise RequestError.invalid_params({"prompt": text})
        return PromptResponse(stop_reason="end_turn")

    async def cancel(self, session_id: str, **_: Any) -> None:
        self._cancelled.set()

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        return {method: params}

    async def _say(self, session_id: str, text: str) -> None:
        await self._conn.session_update(session_id, update_agent_message(text_block(text)))


if __name__ == "__main__":
    asyncio.run(run_agent(OfficialAgent()))  # pyright: ignore[reportArgumentType]
