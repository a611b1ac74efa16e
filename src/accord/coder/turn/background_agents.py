"""Sub-agents that work in the background of a turn: started, looked at, stopped, and reported to the model.

They belong to the turn: it ends after them, and canceling it ends them. So their permission requests always
reach the user, and their cost counts in the limits of the turn.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from accord.coder.bounded_text import wrap_in_tag
from accord.coder.model_history import TextPart, UserMessage, note_message
from accord.coder.tools.tool import Report, ToolFailure, ToolOutcome, ToolProgress
from accord.coder.tools.tool_context import Delegation

if TYPE_CHECKING:
    from accord.agent.turn import Turn

MAX_RUNNING: Final = 8
"""How many sub-agents of a turn work in the background at once."""

RunTask: TypeAlias = Callable[[Delegation, Report], Awaitable[ToolOutcome]]
_LOG: Final = logging.getLogger("accord.coder")

AgentState: TypeAlias = Literal["running", "done", "failed", "stopped"]


class BackgroundAgent:
    """One sub-agent in the background."""

    def __init__(self, id: str, title: str) -> None:
        self.id = id
        self.title = title
        self.state: AgentState = "running"
        self.answer = ""
        """Its last text, once it has ended."""
        self.steps = ""
        """What it does, as the user sees it."""
        self.reported: bool = False
        """Whether the model knows its end."""
        self.ended: asyncio.Event = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    async def stop(self) -> None:
        """End it. Does nothing if it has ended."""
        if self.task is not None and not self.task.done():
            self.task.cancel()
            await asyncio.wait((self.task,))

    def summary(self) -> str:
        """Its state, for the model. What it says is marked as data."""
        text = self.answer if self.ended.is_set() else self.steps
        state = "still works" if self.state == "running" else f"has ended: {self.state}"
        lines = [f"{self.id} ({self.title}) {state}."]
        return "\n".join([*lines, wrap_in_tag("agent-output", text)] if text else lines)


class BackgroundAgents:
    """The background sub-agents of one turn."""

    def __init__(self, turn: "Turn", arrived: asyncio.Event) -> None:
        """`arrived` is set when the user sends something during the turn."""
        self._turn = turn
        self._agents: dict[str, BackgroundAgent] = {}
        self._changed = asyncio.Event()
        self._arrived = arrived

    def get(self, id: str) -> BackgroundAgent | None:
        return self._agents.get(id)

    def ids(self) -> list[str]:
        return list(self._agents)

    @property
    def running(self) -> list[BackgroundAgent]:
        return [agent for agent in self._agents.values() if agent.state == "running"]

    def start(self, task: Delegation, run: RunTask) -> BackgroundAgent:
        """Start a sub-agent. Raises ToolFailure if there are too many."""
        if len(self.running) >= MAX_RUNNING:
            raise ToolFailure(f"{MAX_RUNNING} sub-agents run already", "wait for one of them, or stop it")
        agent = BackgroundAgent(f"agent-{len(self._agents) + 1}", task.title)
        self._agents[agent.id] = agent
        agent.task = asyncio.create_task(self._run(agent, replace(task, id=agent.id), run))
        return agent

    async def wait(self) -> bool:
        """Wait for the next end of a sub-agent, or a message of the user. False if none runs."""
        if any(agent.state != "running" and not agent.reported for agent in self._agents.values()):
            return True
        if not self.running:
            return False
        self._changed.clear()
        waits = [asyncio.ensure_future(event.wait()) for event in (self._changed, self._arrived)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waits:
                one.cancel()
        return True

    def take_reports(self) -> list[UserMessage]:
        """A note for the model about each sub-agent that has ended since the last call."""
        ended = [agent for agent in self._agents.values() if agent.state != "running" and not agent.reported]
        for agent in ended:
            agent.reported = True
        return [note_message(agent.summary()) for agent in ended]

    async def aclose(self) -> None:
        """Stop all of them."""
        await asyncio.gather(*(agent.stop() for agent in self._agents.values()))

    async def _run(self, agent: BackgroundAgent, task: Delegation, run: RunTask) -> None:
        try:
            async with self._turn.tool_call(
                f"{agent.id}: {task.title}", kind="execute", name="agent", cancel=agent.stop
            ) as call:
                await call.start()

                async def report(progress: ToolProgress) -> None:
                    if progress.content is not None:
                        agent.steps = _text_of(progress)
                        await call.replace(progress.content)

                outcome = await run(task, report)
                agent.answer = "\n".join(part.text for part in outcome.parts if isinstance(part, TextPart))
                agent.state = "failed" if outcome.failed else "done"
                await call.finish(content=outcome.content, failed=outcome.failed)
        except asyncio.CancelledError:
            agent.state = "stopped"
            raise
        except ToolFailure as failure:
            agent.answer, agent.state = str(failure), "failed"
        except Exception as error:  # noqa: BLE001 - the top of a task: a defect must not end the turn
            _LOG.error("a sub-agent in the background failed", exc_info=error)
            agent.answer, agent.state = (
                f"it failed because of an internal error ({type(error).__name__})",
                "failed",
            )
        finally:
            agent.ended.set()
            self._changed.set()


def _text_of(progress: ToolProgress) -> str:
    texts = (getattr(getattr(item, "content", None), "text", "") for item in progress.content or ())
    return "\n".join(filter(None, texts))
