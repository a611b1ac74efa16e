"""Trying again: a request that failed for a passing reason, before anything was answered, goes out again, visibly."""

import random
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from msgspec import Struct

from accord.clock import SYSTEM_CLOCK, Clock
from accord.coder.messages import ToolUse
from accord.coder.models.model import (
    Draft,
    ErrorKind,
    ModelError,
    ModelEvent,
    Retrying,
    TextDelta,
    ThoughtDelta,
)
from accord.errors import UsageError


class Patience(Struct, frozen=True):
    """How often, and how long in between."""

    attempts: int = 6
    first: float = 1.0
    """Seconds before the second attempt, doubled every time."""
    most: float = 30.0
    longest_wait: float = 120.0
    """A provider that asks to wait longer is not waited for."""

    def wait(self, attempt: int, retry_after: float | None, chance: float) -> float | None:
        """Seconds to wait after this attempt; None to give up. The chance, 0 to 1, spreads those who failed together."""
        if attempt >= self.attempts:
            return None
        own = min(self.first * 2 ** (attempt - 1), self.most)
        if retry_after is None:
            return own * (0.5 + chance / 2)
        if retry_after > self.longest_wait:
            return None
        return max(retry_after, 0.0) + own * chance / 4


async def patiently(
    attempt: Callable[[], AsyncGenerator[ModelEvent, None]],
    patience: Patience,
    clock: Clock = SYSTEM_CLOCK,
    chance: Callable[[], float] = random.random,
) -> AsyncGenerator[ModelEvent, None]:
    """The events of the first attempt that answers; `Retrying` before every further one.

    Once an answer has begun, an error ends it: it carries what had come, for nothing that was shown is taken back.
    """
    if patience.attempts < 1:
        raise UsageError("a request needs at least one attempt")
    number = 1
    while True:
        draft, began, failure = Draft(), False, None
        try:
            async with aclosing(attempt()) as events:
                async for event in events:
                    draft.add(event)
                    began = began or isinstance(event, TextDelta | ThoughtDelta | ToolUse)
                    yield event
            return
        except ModelError as error:
            failure = error
        failure.partial = draft.message
        wait = patience.wait(number, failure.retry_after, chance())
        if began or failure.final or wait is None:
            raise _given_up(failure, number, began)
        number += 1
        yield Retrying(number, wait, str(failure))
        await clock.sleep(wait)


def _given_up(error: ModelError, attempts: int, began: bool) -> ModelError:
    kind: ErrorKind = error.kind
    more = "; the answer so far is kept" if began and error.partial else ""
    tried = f" (tried {attempts} times)" if attempts > 1 else ""
    if not more and not tried:
        return error
    return ModelError(
        kind, f"{error}{more}{tried}", retry_after=error.retry_after, final=error.final, partial=error.partial
    )
