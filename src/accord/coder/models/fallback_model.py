"""A model with others behind it, which answer when it cannot."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Final

from accord.coder.model_history import ToolUse
from accord.coder.models.model import (
    Effort,
    ErrorKind,
    Model,
    ModelError,
    ModelEvent,
    ModelRequest,
    Retrying,
    TextDelta,
    ThoughtDelta,
)

_TEMPORARY: Final[tuple[ErrorKind, ...]] = ("rate", "overloaded", "network", "other")
"""Failures of a provider. A refused key, a wrong request or a full context is for the user to solve."""


class FallbackModel:
    """Asks the first model; if it fails for good, the next one.

    The model that answered is asked first from then on. Create one for each turn, so that the next turn tries
    the first model again.
    """

    def __init__(self, models: Sequence[Model], *, after: Sequence[ErrorKind] = _TEMPORARY) -> None:
        """`after`: the failures after which the next model is asked."""
        self._models = list(models)
        self._after = after

    @property
    def name(self) -> str:
        return self._models[0].name

    @property
    def provider(self) -> str:
        return self._models[0].provider

    @property
    def sees_images(self) -> bool:
        return self._models[0].sees_images

    @property
    def context_size(self) -> int | None:
        return self._models[0].context_size

    @property
    def efforts(self) -> Sequence[Effort]:
        return self._models[0].efforts

    @property
    def max_tools(self) -> int | None:
        return min((model.max_tools for model in self._models if model.max_tools), default=None)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield the events of the first model that answers, with a `Retrying` event before each other one."""
        while True:
            began, failure = False, None
            try:
                async with aclosing(self._models[0].stream(request)) as events:
                    async for event in events:
                        began = began or isinstance(event, TextDelta | ThoughtDelta | ToolUse)
                        yield event
                return
            except ModelError as error:
                failure = error
            if len(self._models) == 1 or failure.kind not in self._after:
                raise failure
            self._models.pop(0)
            next_model = f"{self.provider}:{self.name}"
            yield Retrying(1, 0.0, str(failure), began, next_model=next_model)
