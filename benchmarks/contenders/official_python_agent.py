"""The benchmark agent on the official Python SDK. Each prompt is a job as JSON; see workloads.py."""

import asyncio
import json
import os
import time
from typing import Any

from acp import (
    PROTOCOL_VERSION,
    Agent,
    InitializeResponse,
    NewSessionResponse,
    PromptResponse,
    run_agent,
    start_tool_call,
    text_block,
    tool_diff_content,
    update_agent_message,
)
from acp.interfaces import Client
from acp.schema import Implementation

FIXED = "The quick brown fox jumps over the dog. "
LINE = 'def answer(question: str) -> str:  # "forty-two"\n'


class BenchmarkAgent(Agent):
    def __init__(self) -> None:
        self.client: Client
        self.folders: dict[str, str] = {}

    def on_connect(self, conn: Client) -> None:
        self.client = conn

    async def initialize(self, protocol_version: int, *_: Any, **__: Any) -> InitializeResponse:
        return InitializeResponse(
            protocol_version=PROTOCOL_VERSION, agent_info=Implementation(name="official-python", version="1")
        )

    async def new_session(self, cwd: str, *_: Any, **__: Any) -> NewSessionResponse:
        session_id = f"session-{len(self.folders)}"
        self.folders[session_id] = cwd
        return NewSessionResponse(session_id=session_id)

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> PromptResponse:
        job = json.loads(prompt[0].text)
        if job["do"] == "stream":
            await (self.stream if job["awaited"] else self.burst)(session_id, job)
        elif job["do"] == "read":
            await self.read(session_id, job)
        elif job["do"] == "diff":
            half = LINE * (job["size"] // 2 // len(LINE))
            await self.say(session_id, stamp())
            content = [tool_diff_content("/project/answer.py", half, half)]
            await self.client.session_update(
                session_id, start_tool_call("edit-1", "Edit", kind="edit", content=content)
            )
        elif job["do"] == "text":
            lines = LINE * (job["size"] // len(LINE))
            await self.say(session_id, stamp())
            await self.say(session_id, lines)
        return PromptResponse(stop_reason="end_turn")

    async def say(self, session_id: str, text: str) -> None:
        await self.client.session_update(session_id, update_agent_message(text_block(text)))

    async def burst(self, session_id: str, job: dict[str, Any]) -> None:
        """Send in batches of 16 concurrent calls, which is the fastest way in this SDK."""
        for first in range(0, job["count"], 16):
            numbers = range(first, min(first + 16, job["count"]))
            await asyncio.gather(*(self.say(session_id, text(job, number)) for number in numbers))

    async def stream(self, session_id: str, job: dict[str, Any]) -> None:
        pause = job.get("pause")
        for number in range(job["count"]):
            await self.say(session_id, text(job, number))
            if pause is not None:
                await asyncio.sleep(pause)

    async def read(self, session_id: str, job: dict[str, Any]) -> None:
        path = os.path.join(self.folders[session_id], "notes.txt")
        times: list[int] = []
        for _ in range(job["count"]):
            began = time.perf_counter_ns()
            await self.client.read_text_file(session_id, path)
            times.append(time.perf_counter_ns() - began)
        await self.say(session_id, json.dumps(times))


def text(job: dict[str, Any], number: int) -> str:
    match job["text"]:
        case "stamp":
            return stamp()
        case "number":
            return str(number)
        case _:
            return FIXED


def stamp() -> str:
    return str(time.clock_gettime_ns(time.CLOCK_MONOTONIC)).ljust(40)


if __name__ == "__main__":
    # As in the SDK's guides: the class inherits the methods that it does not implement.
    asyncio.run(run_agent(BenchmarkAgent()))  # pyright: ignore[reportAbstractUsage]
