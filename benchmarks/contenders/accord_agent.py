"""The benchmark agent on Accord. Each prompt is a job as JSON; see workloads.py."""

import sys
import time
from typing import Any

from accord import Agent, Turn

FIXED = "The quick brown fox jumps over the dog. "
LINE = 'def answer(question: str) -> str:  # "forty-two"\n'

agent = Agent("accord", version="1", protocol=(1, 2) if "v2" in sys.argv else (1,))


@agent.prompt
async def answer(turn: Turn) -> None:
    import json  # here, because the agent of the guide has no need to import json

    job = json.loads(turn.text)
    if job["do"] == "stream":
        await stream(turn, job)
    elif job["do"] in ("read", "call"):
        await read(turn, job)
    elif job["do"] == "diff":
        half = LINE * (job["size"] // 2 // len(LINE))
        await turn.say(stamp())
        async with turn.tool_call("Edit", kind="edit") as call:
            await call.diff("/project/answer.py", old=half, new=half)
    elif job["do"] == "text":
        lines = LINE * (job["size"] // len(LINE))
        await turn.say(stamp())
        await turn.say(lines)


async def stream(turn: Turn, job: dict[str, Any]) -> None:
    from asyncio import sleep  # here, because the agent of the guide has no need to import asyncio

    pause = job.get("pause")
    for number in range(job["count"]):
        await turn.say(text(job, number))
        if pause is not None:
            await sleep(pause)


async def read(turn: Turn, job: dict[str, Any]) -> None:
    import json

    times: list[int] = []
    for _ in range(job["count"]):
        began = time.perf_counter_ns()
        if job["do"] == "read":
            await turn.client.read_text_file("notes.txt")
        else:
            await turn.client.request("_benchmark/echo", {"text": FIXED})
        times.append(time.perf_counter_ns() - began)
    await turn.say(json.dumps(times))


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
