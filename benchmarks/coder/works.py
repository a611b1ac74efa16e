"""The works: each takes one agent from its start to a figure or two."""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from accord.testing.models import Answer, Call, ModelServer, SeenRequest

from .agents import ACCORD, CodingAgent
from .talk import Talk, asks

MIB = 1024 * 1024
Figures = dict[str, float]


@dataclass(frozen=True)
class Desk:
    """What a work needs."""

    agent: CodingAgent
    server: ModelServer
    home: Path
    project: Path

    def talk(self) -> Talk:
        return Talk(self.agent, self.server, self.home)


def answered(request: SeenRequest) -> Answer:
    """What the model says: a command where the prompt asks for one, else a word."""
    text = str(request.body)
    if "run-and-wait" in text and '"role": "tool"' not in text and "'role': 'tool'" not in text:
        shell = "bash" if "'bash'" in text else "run_shell_command"
        return Answer(Call(shell, {"command": "touch started; sleep 1000"}))
    return Answer("Well, ", "that ", "is ", "done.")


async def start(desk: Desk) -> Figures:
    """From the start of the process to the answer of `initialize`, and to that of the first session."""
    async with desk.talk() as talk:
        await talk.initialize()
        initialized = time.perf_counter()
        used = talk.usage()
        await talk.new_session(desk.project)
        opened = time.perf_counter()
    return {
        "initialize, wall ms": (initialized - talk.started) * 1e3,
        "initialize, CPU ms": used.cpu * 1e3,
        "memory after initialize, MiB": used.rss / MIB,
        "first session/new, ms": (opened - initialized) * 1e3,
    }


async def turns(desk: Desk) -> Figures:
    """Warm text turns with a model that answers at once: what is left is the agent's own time."""
    async with desk.talk() as talk:
        await talk.initialize()
        session = await talk.new_session(desk.project)
        for _ in range(5):
            await talk.result(talk.prompt(session))
        times: list[float] = []
        for _ in range(30):
            before = time.perf_counter()
            await talk.result(talk.prompt(session))
            times.append(time.perf_counter() - before)
        warm = talk.usage().rss
        for _ in range(50):
            await talk.new_session(desk.project)
        more = talk.usage().rss
    return {
        "warm text turn, ms": statistics.median(times) * 1e3,
        "memory after turns, MiB": warm / MIB,
        "memory per further session, MiB": (more - warm) / 50 / MIB,
    }


async def cancel(desk: Desk) -> Figures:
    """From `session/cancel` to the answer, while a command runs."""
    times: list[float] = []
    async with desk.talk() as talk:
        await talk.initialize()
        for _ in range(5):
            session = await talk.new_session(desk.project)
            turn = talk.prompt(session, "run-and-wait")
            talk.answer(await talk.until(asks))
            while not (desk.project / "started").exists():  # noqa: ASYNC110
                await asyncio.sleep(0.005)  # a file tells nobody that it is there
            (desk.project / "started").unlink()
            before = time.perf_counter()
            talk.notify("session/cancel", {"sessionId": session})
            result = await talk.result(turn)
            times.append(time.perf_counter() - before)
            assert result["stopReason"] == "cancelled", result
    return {"cancel of a running command, ms": statistics.median(times) * 1e3}


async def waiting(desk: Desk) -> Figures:
    """A `session/list` while a hundred turns wait for an answer of the user."""
    if desk.agent is not ACCORD:
        return {}
    async with desk.talk() as talk:
        await talk.initialize()
        sessions = [await talk.new_session(desk.project) for _ in range(100)]
        for session in sessions:
            talk.prompt(session, "run-and-wait")
        for _ in sessions:
            await talk.until(asks)
        times: list[float] = []
        for _ in range(20):
            before = time.perf_counter()
            await talk.call("session/list", {"cwd": str(desk.project)})
            times.append(time.perf_counter() - before)
    return {"session/list with 100 turns waiting, ms": statistics.median(times) * 1e3}


async def load(desk: Desk) -> Figures:
    """Loading a session of 10 000 events: how many of them a second are read, folded and told."""
    if desk.agent is not ACCORD:
        return {}
    events = 10_000
    async with desk.talk() as talk:
        await talk.initialize()
        session = await talk.new_session(desk.project)
        await talk.result(talk.prompt(session))
    _fill(desk.home / "accord" / "data" / "sessions.db", session, events)
    async with desk.talk() as talk:
        await talk.initialize()
        await talk.result(
            talk.prompt(await talk.new_session(desk.project))
        )  # nothing loads behind it any more
        asked = {"sessionId": session, "cwd": str(desk.project), "mcpServers": []}
        before = time.perf_counter()
        await talk.call("session/load", asked)
        took = time.perf_counter() - before
    return {"load, thousand events a second": events / took / 1e3, "load, ms": took * 1e3}


def _fill(path: Path, session: str, events: int) -> None:
    """Some two thousand messages in pieces, as a long conversation leaves them."""
    from accord.schema import AgentMessageChunk, TextContent
    from accord.session import TurnStarted, turn_ended
    from accord.store import open_store

    store = open_store(path)
    with store.journal(session) as journal:
        for number in range(events // 20):
            journal.append(TurnStarted([TextContent(f"prompt {number}")]))
            for piece in range(18):
                chunk = AgentMessageChunk(
                    TextContent(f"piece {piece} of forty characters or so. "), f"m{number}"
                )
                journal.append(chunk)
            journal.append(turn_ended("end_turn"))
            journal.commit()
    store.close()


WORKS: dict[str, Callable[[Desk], Awaitable[Figures]]] = {
    "start": start,
    "turns": turns,
    "cancel": cancel,
    "waiting": waiting,
    "load": load,
}
