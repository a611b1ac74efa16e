"""A tool of this package: a type for its arguments, a description beside it, and a function that prepares its calls."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from accord.coder.tools.arguments import Arguments, read_arguments
from accord.coder.tools.context import ToolContext
from accord.coder.tools.schema import schema_of
from accord.coder.tools.tool import Call, Category, Report, ToolFailure, ToolOutcome, said
from accord.errors import AccordError, RpcError
from accord.schema.tools import ToolCallContent, ToolKind

A = TypeVar("A", bound=Arguments)
_LOG = logging.getLogger("accord.coder.tools")


@dataclass(frozen=True)
class BuiltIn(Generic[A]):
    """A `Tool`. `prepare_call` gets arguments that fit; its calls may raise ToolFailure or any AccordError."""

    name: str
    kind: ToolKind
    category: Category
    arguments: type[A]
    prepare_call: Callable[[A, ToolContext], Awaitable[Call]]

    @cached_property
    def description(self) -> str:
        return Path(__file__).with_name(f"{self.name}.md").read_text("utf-8").strip()

    @property
    def schema(self) -> dict[str, Any]:
        return schema_of(self.arguments)

    async def prepare(self, arguments: Any, context: ToolContext) -> Call:
        read = read_arguments(self.name, self.arguments, arguments)
        call = await self.prepare_call(read, context)
        run, preview = call.run, call.preview

        async def guarded(report: Report) -> ToolOutcome:
            try:
                return await run(report)
            except ToolFailure as failure:
                return said(str(failure), failed=True)
            except RpcError as error:
                return said(f"{self.name} failed: {error.message}", failed=True)
            except AccordError as error:
                return said(f"{self.name} failed: {error}", failed=True)
            except Exception as error:  # noqa: BLE001 - the boundary of a tool's run: a defect in it must not end the turn
                _LOG.error("%s failed", self.name, exc_info=error)
                return said(
                    f"{self.name} failed by a defect of its own ({type(error).__name__}).", failed=True
                )

        async def glanced() -> Sequence[ToolCallContent]:
            try:
                return await preview()
            except (AccordError, OSError):
                return ()  # the question is asked all the same; the run will say what is wrong

        return replace(
            call,
            run=guarded,
            preview=glanced,
            category=self.category if call.category == "external" else call.category,
            arguments=call.arguments or msgspec.to_builtins(read),
        )
