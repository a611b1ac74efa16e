"""The benchmark agent on Accord. Each prompt is a job as JSON; see workloads.py."""

import asyncio
import json
import sys
import time
from typing import Any

from accord import Agent, AgentSession, ClientRequest, Turn
from accord.schema import SessionMode, SessionModeState, SetSessionModeRequest, SetSessionModeResponse

FIXED = "The quick brown fox jumps over the dog. "
LINE = 'def answer(question: str) -> str:  # "forty-two"\n'

agent = Agent("accord", version="1")


@agent.new_session
async def begin(session: AgentSession) -> None:
    session.modes = SessionModeState("ask", [SessionMode("ask", "Ask"), SessionMode("code", "Code")])


@agent.on("session/set_mode")
def set_mode(params: SetSessionModeRequest, call: ClientRequest) -> SetSessionModeResponse:
    # Without this handler Accord also sends an update about the change, which the other contenders do not.
    return SetSessionModeResponse()


@agent.prompt
async def answer(turn: Turn) -> None:
    job = json.loads(turn.text)
    if job["do"] == "stream":
        await (stream if job["awaited"] else burst)(turn, job)
    elif job["do"] == "diff":
        half = LINE * (job["size"] // 2 // len(LINE))
        await turn.say(stamp())
        async with turn.tool_call("Edit", kind="edit") as call:
            await call.diff("/project/answer.py", old=half, new=half)
    elif job["do"] == "text":
        lines = LINE * (job["size"] // len(LINE))
        await turn.say(stamp())
        await turn.say(lines)


async def burst(turn: Turn, job: dict[str, Any]) -> None:
    """Send without waiting; drain every 1000 updates to limit the unsent data."""
    for number in range(job["count"]):
        turn.say_now(text(job, number))
        if not number % 1000:
            await turn.drain()


async def stream(turn: Turn, job: dict[str, Any]) -> None:
    for number in range(job["count"]):
        await turn.say(text(job, number))
        if job["pause"]:
            await asyncio.sleep(job["pause"])


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
    agent.serve(uvloop="uvloop" in sys.argv)
