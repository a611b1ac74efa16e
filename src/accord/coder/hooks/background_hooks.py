"""The hooks of a session that go on in the background, and what they said for the model."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeAlias

from accord.clock import OwnedTasks
from accord.coder.bounded_text import truncate
from accord.coder.hooks.hook_command import MAX_CONTEXT_CHARS, AsyncRequest, HookAnswer, hook_title
from accord.coder.hooks.hook_config import Hook

_LOG: Final = logging.getLogger("accord.coder")
MAX_BACKGROUND_HOOKS: Final = 20
"""How many run in the background at a time. More are waited for, but decide nothing either."""

Report: TypeAlias = Callable[[str, str], Awaitable[None]]
"""Shows a title and a text to the user."""
HookStart: TypeAlias = Callable[[AsyncRequest], Coroutine[Any, Any, HookAnswer]]


class BackgroundHooks:
    """Runs hooks, and goes on without those that ask for it. They end with the session."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._tasks = OwnedTasks(on_failure=_log_failure)
        self._running: set[asyncio.Task[HookAnswer]] = set()
        self._contexts: list[str] = []

    async def run(self, hook: Hook, start: HookStart) -> HookAnswer:
        """Run a hook. Returns its answer, or an empty one if it goes on in the background."""
        request = AsyncRequest(hook)

        async def run() -> HookAnswer:
            answer = await start(request)
            if not request.seconds.done():
                return answer
            await self._take(hook, answer)
            return HookAnswer()

        task = asyncio.create_task(run())
        try:
            await asyncio.wait((task, request.seconds), return_when=asyncio.FIRST_COMPLETED)
            if len(self._running) >= MAX_BACKGROUND_HOOKS:
                await asyncio.wait((task,))
        except asyncio.CancelledError:
            task.cancel()
            self._tasks.adopt(task)
            await asyncio.wait((task,))
            raise
        if task.done():
            return task.result()
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        self._tasks.adopt(task)
        return HookAnswer()

    def start(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run something else beside the session, which ends it."""
        self._tasks.start(work)

    def take_context(self) -> str:
        """What the hooks that have ended since said for the model."""
        text = truncate("\n".join(self._contexts), MAX_CONTEXT_CHARS)
        self._contexts.clear()
        return text

    async def end(self) -> None:
        """End all of them, with everything they started."""
        await self._tasks.end()

    async def _take(self, hook: Hook, answer: HookAnswer) -> None:
        """Take what a hook says after its decision would have counted."""
        blocked = answer.block if answer.block is not None and not answer.failure else ""
        to_model = (answer.message, answer.context, blocked if hook.reports_block else "")
        self._contexts += filter(None, to_model)
        if blocked:
            await self._report("Hook", f"{hook_title(hook)}: {blocked}")
        for text in filter(None, (answer.message, answer.failure)):
            await self._report("Hook", text)


def _log_failure(error: BaseException) -> None:
    _LOG.error("a hook failed in the background", exc_info=error)
