"""The interface the loop sends its output to: the turn of a user, or the parent's tool call."""

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Protocol

from accord.agent.tool_call_scope import Location, PermissionAnswer
from accord.schema.client_requests import PermissionOption
from accord.schema.content import ToolCallContent, ToolKind


class ToolCallOutput(Protocol):
    """A tool call as the client sees it. `ToolCallScope` implements it."""

    @property
    def open(self) -> bool: ...
    async def __aenter__(self) -> "ToolCallOutput": ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    async def start(self) -> None: ...
    async def fail(self, reason: str | None = None) -> None: ...
    async def replace(self, content: Iterable[ToolCallContent]) -> None: ...
    async def locations(self, *file_locations: Location) -> None: ...
    async def title(self, title: str) -> None: ...
    async def ask_permission(self, options: Sequence[PermissionOption]) -> PermissionAnswer: ...
    async def finish(
        self,
        *,
        content: Iterable[ToolCallContent] | None = None,
        raw_output: Any = ...,
        locations: Iterable[Location] | None = None,
        failed: bool = False,
    ) -> None: ...


class TurnOutput(Protocol):
    """The output of a loop. `Turn` implements it."""

    async def say(self, content: str) -> None: ...
    async def think(self, content: str) -> None: ...
    async def notice(self, title: str, description: str | None = None, *, severity: str = "info") -> None: ...
    def tool_call(
        self,
        title: str,
        *,
        kind: ToolKind | None = None,
        name: str | None = None,
        locations: Iterable[Location] = (),
        raw_input: Any = ...,
    ) -> ToolCallOutput: ...
