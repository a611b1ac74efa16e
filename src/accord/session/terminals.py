"""Terminals in a tool call, told to somebody who cannot look at them: what each printed, as text."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from msgspec import UNSET
from msgspec.structs import replace

from accord.schema import Content, Terminal, TextContent, ToolCall, ToolCallChange, ToolCallContent

Call = TypeVar("Call", bound=ToolCall | ToolCallChange)


def shows_terminals(update: ToolCall | ToolCallChange) -> bool:
    """Whether there are any."""
    return bool(update.content) and any(isinstance(item, Terminal) for item in update.content)


def without_terminals(update: Call, printed: Callable[[str], str | None]) -> Call:
    """The same with text in their place. `printed` gives what a terminal printed, None where nobody knows any more; the output
    that the agent told along with the call then stands for it.
    """
    if not shows_terminals(update):
        return update
    shown: list[ToolCallContent] = []
    lost = False
    for item in update.content or ():
        if not isinstance(item, Terminal):
            shown.append(item)
        elif (text := printed(item.terminal_id)) is None:
            lost = True
        elif text.strip():
            shown.append(fenced(text))
    if lost and (output := _output(update.raw_output)):
        shown.append(fenced(output))
    return replace(update, content=shown or UNSET)


def fenced(text: str) -> Content:
    """Output as a block of Markdown that nothing in it can end."""
    fence = "```"
    while fence in text:
        fence += "`"
    return Content(TextContent(f"{fence}\n{text.rstrip()}\n{fence}"))


def _output(raw: Any) -> str:
    output: Any = cast(dict[str, Any], raw).get("output") if isinstance(raw, dict) else None
    return output if isinstance(output, str) else ""
