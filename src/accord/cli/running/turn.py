"""One turn: the prompt goes out, its events are shown and recorded, and it ends by an answer, an error or a limit.

An agent that dies is started again and its session taken up. The prompt goes out again only if that was asked for, and
only if nothing of it was done: nobody wants the same work twice.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from accord.cli.output import Output
from accord.client import (
    AgentEnded,
    AgentRestarted,
    ClientEvent,
    ClientSession,
    SessionLost,
    SessionReattached,
)
from accord.client.recording import Recording
from accord.errors import AccordError, ConnectionClosed, LimitReached
from accord.schema import (
    AvailableCommandsUpdate,
    ConfigOptionUpdate,
    ContentBlock,
    SessionInfoUpdate,
    UsageUpdate,
    UserMessageChunk,
)
from accord.session import ModeChanged, PermissionAsked, TurnCancelling, TurnEnded, TurnStarted

_NOTHING_DONE: Final = (
    TurnStarted, TurnEnded, TurnCancelling, AgentEnded, AgentRestarted, SessionReattached, SessionLost, ModeChanged,
    AvailableCommandsUpdate, ConfigOptionUpdate, SessionInfoUpdate, UsageUpdate, UserMessageChunk,
)  # fmt: skip
"""Events that tell of no work on the prompt."""

_HERE: Final = ("the agent has died; starting it again", "started", "it runs again")
_AFAR: Final = ("the connection to the agent is lost; connecting again", "reached", "it is connected again")


@dataclass(slots=True)
class Result:
    """How a turn went."""

    ended: TurnEnded | None = None
    error: AccordError | None = None


@dataclass(slots=True)
class TurnRun:
    """Runs a turn in a session."""

    session: ClientSession
    output: Output
    recording: Callable[[], Recording | None]
    served: Callable[[], int]
    """Changes with everything the agent asks of us: it is at work then."""
    deadline: float | None = None
    retries: int = 0
    """How often the prompt may go out again."""
    settle: Callable[[ClientSession], Awaitable[None]] | None = None
    """Sets anew what an agent that was started again may have forgotten."""
    reopen: Callable[[], Awaitable[ClientSession]] | None = None
    """Opens another session in place of one that was lost before anything was done in it; None where that would lose something."""
    stopping: Callable[[], None] | None = None
    """Told when the agent is asked to stop."""
    _seen: set[str] = field(default_factory=set[str])
    _shown: asyncio.Condition = field(default_factory=asyncio.Condition)
    _running: bool = False
    _expired: bool = False

    async def run(self, blocks: list[ContentBlock]) -> Result:
        """The turn, whole."""
        grace = self.session.life.options.limits.cancel
        limit = None if self.deadline is None else self.deadline + grace
        loop = asyncio.get_running_loop()
        timer = None if self.deadline is None else loop.call_later(self.deadline, self._out_of_time)
        try:
            async with asyncio.timeout(limit):
                result = await self._attempts(blocks)
        except TimeoutError:
            result = Result()
        finally:
            if timer is not None:
                timer.cancel()
        if self._expired:
            result.error = LimitReached(f"the turn was not over within {self.deadline:g} s (--deadline)")
        return result

    def stop(self) -> bool:
        """Ask the agent to stop; whether there was something to stop."""
        if not self.session.running:
            return False
        if self.stopping is not None:
            self.stopping()
        self.session.cancel()
        return True

    async def caught_up(self, session: ClientSession) -> None:
        """Wait until the question that the agent has just asked was taken from the events: all before it is shown then."""
        asked = next(reversed(session.state.permissions), None)
        if session is not self.session or asked is None:
            return
        async with self._shown:
            await self._shown.wait_for(lambda: not self._running or asked in self._seen)

    async def _attempts(self, blocks: list[ContentBlock]) -> Result:
        while True:
            served = self.served()
            result, worked = await self._once(blocks)
            if not isinstance(result.error, ConnectionClosed) or self._expired:
                return result
            untouched = not worked and self.served() == served
            again = self.retries > 0 and untouched
            back = await self._taken_up(again)
            if self.retries > 0 and not untouched:
                self.output.note("the prompt is not sent again: the agent had begun to work on it")
            if not (again and back):
                return result
            self.retries -= 1
            self.output.note("the prompt is sent again")

    async def _once(self, blocks: list[ContentBlock]) -> tuple[Result, bool]:
        result, worked = Result(), False
        self._running = True
        try:
            async for event in self.session.prompt(blocks):
                worked = worked or not isinstance(event, _NOTHING_DONE)
                if isinstance(event, TurnEnded):
                    result.ended = event
                self._take(event)
                if isinstance(event, PermissionAsked):
                    self._seen.add(event.permission_id)
                    await self._tell_shown()
        except AccordError as error:
            result.error = error
        finally:
            self._running = False
            await self._tell_shown()
        return result, worked

    def _take(self, event: ClientEvent) -> None:
        if (recording := self.recording()) is not None:
            recording.take(event)
        self.output.event(event)

    async def _tell_shown(self) -> None:
        async with self._shown:
            self._shown.notify_all()

    async def _taken_up(self, again: bool) -> bool:
        """Whether the session can go on after its agent died."""
        life = self.session.life
        if life.options.restart is None:
            return False
        died, started, back = _AFAR if life.remote else _HERE
        self.output.note(died)
        try:
            await life.ready()
        except AccordError as error:
            self.output.note(f"it could not be {started} again: {error}")
            return False
        if life.link.connection.end is not None:
            return False  # it has been started again often enough
        if self.session.lost is None:
            self.output.note(f"{back}; its session {self.session.id} goes on")
            if again and self.settle is not None:
                await self.settle(self.session)
            return True
        self.output.note(f"{back}, but its session is lost: {self.session.lost}")
        if not again or self.reopen is None:
            return False
        self.session = await self.reopen()
        return True

    def _out_of_time(self) -> None:
        self._expired = True
        self.stop()
