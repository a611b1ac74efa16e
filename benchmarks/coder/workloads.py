"""The workloads: each starts one agent and returns its figures."""

import asyncio
import os
import statistics
import subprocess
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from accord.testing.model_script import ModelAnswer, ModelToolCall
from accord.testing.model_server import ModelServer, RecordedRequest
from benchmarks.coder.agent_process import AgentProcess, is_permission_request
from benchmarks.coder.agents import ACCORD, CodingAgent

MIB = 1024 * 1024
Figures = dict[str, float]
DESCRIPTION = {"description": "Wait"}
"""Some agents want one for each command."""


@dataclass(frozen=True)
class Fixture:
    """The agent, the model server and the folders of one workload."""

    agent: CodingAgent
    server: ModelServer
    model: "ScriptedModel"
    home: Path
    project: Path

    def start(self) -> AgentProcess:
        return AgentProcess(self.agent, self.server, self.home)


class ScriptedModel:
    """The model: a command or a search if the prompt asks for one, otherwise a short text."""

    def __init__(self, agent: CodingAgent) -> None:
        self._agent = agent
        self._asked = asyncio.Event()
        self.asked_at = self.answered_at = 0.0
        """When the request with the last prompt came, and the one with the result of a tool."""
        self.found = False
        """Whether a result names the file that was searched for."""

    def __call__(self, request: RecordedRequest) -> ModelAnswer:
        last = request.body["messages"][-1]
        self._asked.set()
        if last["role"] == "tool":
            self.answered_at = time.perf_counter()
            self.found = self.found or "file49.py" in str(last["content"])
        else:
            self.asked_at = time.perf_counter()
            if "run-and-wait" in str(last):
                return ModelAnswer(
                    ModelToolCall(self._agent.shell, {"command": "touch started; sleep 1000"} | DESCRIPTION)
                )
            if "search-for" in str(last):
                return ModelAnswer(ModelToolCall(self._agent.search, {"pattern": "value = 19999"}))
        return ModelAnswer("Well, ", "that ", "is ", "done.")

    async def asked(self) -> None:
        """Wait for the first request."""
        await self._asked.wait()


async def start(fixture: Fixture) -> Figures:
    """Measure from process start to the first responses, and to the first request to the model."""
    async with fixture.start() as agent:
        await agent.initialize()
        initialized = time.perf_counter()
        used = agent.usage()
        session = await agent.new_session(fixture.project)
        opened = time.perf_counter()
        turn = agent.prompt(session)
        await fixture.model.asked()
        asked, used_until_asked = time.perf_counter(), agent.usage()
        await agent.result(turn)
    return {
        "initialize, wall ms": (initialized - agent.started) * 1e3,
        "initialize, CPU ms": used.cpu * 1e3,
        "memory after initialize, MiB": used.rss / MIB,
        "first session/new, ms": (opened - initialized) * 1e3,
        "first request to the model, wall ms": (asked - agent.started) * 1e3,
        "first request to the model, CPU ms": used_until_asked.cpu * 1e3,
    }


async def turns(fixture: Fixture) -> Figures:
    """Measure warm text turns. The model answers immediately, so the time is the agent's own."""
    async with fixture.start() as agent:
        await agent.initialize()
        session = await agent.new_session(fixture.project)
        for _ in range(5):
            await agent.result(agent.prompt(session))
        times: list[float] = []
        for _ in range(30):
            before = time.perf_counter()
            await agent.result(agent.prompt(session))
            times.append(time.perf_counter() - before)
        warm = agent.usage().rss
        for _ in range(50):
            await agent.new_session(fixture.project)
        more = agent.usage().rss
    return {
        "warm text turn, ms": statistics.median(times) * 1e3,
        "memory after turns, MiB": warm / MIB,
        "memory per additional session, MiB": (more - warm) / 50 / MIB,
    }


async def cancel(fixture: Fixture) -> Figures:
    """Measure the time from `session/cancel` to the prompt response while a command runs."""
    times: list[float] = []
    async with fixture.start() as agent:
        await agent.initialize()
        for _ in range(5):
            session = await agent.new_session(fixture.project)
            turn = agent.prompt(session, "run-and-wait")
            agent.answer(await agent.until(is_permission_request))
            while not (fixture.project / "started").exists():  # noqa: ASYNC110
                await asyncio.sleep(0.005)  # poll: the command creates this file when it starts
            (fixture.project / "started").unlink()
            before = time.perf_counter()
            agent.notify("session/cancel", {"sessionId": session})
            result = await agent.result(turn)
            times.append(time.perf_counter() - before)
            assert result["stopReason"] == "cancelled", result
    return {"cancel of a running command, ms": statistics.median(times) * 1e3}


async def waiting(fixture: Fixture) -> Figures:
    """Measure `session/list` while 100 turns wait for the user's permission."""
    if fixture.agent is not ACCORD:
        return {}
    async with fixture.start() as agent:
        await agent.initialize()
        sessions = [await agent.new_session(fixture.project) for _ in range(100)]
        for session in sessions:
            agent.prompt(session, "run-and-wait")
        for _ in sessions:
            await agent.until(is_permission_request)
        times: list[float] = []
        for _ in range(20):
            before = time.perf_counter()
            await agent.call("session/list", {"cwd": str(fixture.project)})
            times.append(time.perf_counter() - before)
    return {"session/list with 100 turns waiting, ms": statistics.median(times) * 1e3}


async def load(fixture: Fixture) -> Figures:
    """Measure `session/load` of a session with 10,000 events."""
    if fixture.agent is not ACCORD:
        return {}
    events = 10_000
    async with fixture.start() as agent:
        await agent.initialize()
        session = await agent.new_session(fixture.project)
        await agent.result(agent.prompt(session))
    _fill(fixture.home / "accord" / "data" / "sessions.db", session, events)
    async with fixture.start() as agent:
        await agent.initialize()
        # wait for a whole turn, so that nothing is being loaded in the background any more
        await agent.result(agent.prompt(await agent.new_session(fixture.project)))
        params = {"sessionId": session, "cwd": str(fixture.project), "mcpServers": []}
        before = time.perf_counter()
        await agent.call("session/load", params)
        took = time.perf_counter() - before
    return {"load, thousand events per second": events / took / 1e3, "load, ms": took * 1e3}


def _fill(path: Path, session: str, events: int) -> None:
    """Write the events of a long conversation, in chunks, to the store."""
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


async def checkpoint(fixture: Fixture) -> Figures:
    """Measure the snapshot before a command in a repository of 20,000 files, when nothing changed."""
    if fixture.agent is not ACCORD:
        return {}
    from accord.frontend.checkpoints.shadow_git import shadow_of

    await asyncio.to_thread(_make_repository, fixture.project)
    shadow = shadow_of(fixture.home / "shadow", str(fixture.project))
    assert shadow is not None, "git is installed"
    before = time.perf_counter()
    shadow.snapshot()
    first = time.perf_counter() - before
    times: list[float] = []
    cpu = _cpu_seconds()
    for _ in range(10):
        before = time.perf_counter()
        shadow.snapshot()
        times.append(time.perf_counter() - before)
    return {
        "checkpoint cost, first in a session, ms": first * 1e3,
        "checkpoint cost, 20,000 unchanged files, ms": min(times) * 1e3,
        "checkpoint cost, CPU ms": (_cpu_seconds() - cpu) / len(times) * 1e3,
    }


async def search(fixture: Fixture) -> Figures:
    """Measure a search over 20,000 files: from the model's call to the request with its result."""
    await asyncio.to_thread(_make_files, fixture.project)
    times: list[float] = []
    async with fixture.start() as agent:
        await agent.initialize()
        session = await agent.new_session(fixture.project)
        for number in range(6):
            await agent.result(agent.prompt(session, f"search-for {number}"))
            if number:  # the first one reads the folders for the first time
                times.append(fixture.model.answered_at - fixture.model.asked_at)
    assert fixture.model.found, "the search found nothing"
    return {"search over 20,000 files, ms": statistics.median(times) * 1e3}


def _make_files(project: Path) -> None:
    for number in range(400):
        folder = project / f"package{number // 20}" / f"module{number}"
        folder.mkdir(parents=True)
        for name in range(50):
            (folder / f"file{name}.py").write_text(f"value = {number * 50 + name}\n")


def _make_repository(project: Path) -> None:
    _make_files(project)
    author = ["-c", "user.name=bench", "-c", "user.email=bench@example.com"]
    for words in (["init", "-q"], ["add", "-A"], [*author, "commit", "-qm", "files"]):
        subprocess.run(["git", *words], cwd=project, check=True)


def _cpu_seconds() -> float:
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


WORKLOADS: dict[str, Callable[[Fixture], Awaitable[Figures]]] = {
    "start": start,
    "turns": turns,
    "cancel": cancel,
    "waiting": waiting,
    "load": load,
    "checkpoint": checkpoint,
    "search": search,
}
