"""The state of a tool call, and its terminals as plain text."""

from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeAlias, TypeVar, cast

from msgspec.structs import replace

from accord.schema import (
    UNSET,
    Content,
    Record,
    Terminal,
    TextContent,
    ToolCall,
    ToolCallChange,
    ToolCallContent,
    ToolCallLocation,
    ToolCallStatus,
    ToolCallUpdate,
    ToolKind,
    UnsetType,
)
from accord.schema.content import text_of_blocks

Mark: TypeAlias = Literal["", "cancelled", "ended_without_result"]
"""What this side knows about a call that its reports do not say."""

_FINAL = frozenset({"completed", "failed", "cancelled"})
_RANK = {"pending": 0, "completed": 2, "failed": 2, "cancelled": 2}


def _rank(status: str) -> int:
    return _RANK.get(status, 1)


class ToolCallState(Record, omit_defaults=True):
    """One tool call as it stands, the protocol's defaults applied."""

    tool_call_id: str
    title: str = ""
    kind: ToolKind = "other"
    status: ToolCallStatus = "pending"
    name: str | None = None
    content: list[ToolCallContent] = []
    locations: list[ToolCallLocation] = []
    raw_input: Any = UNSET
    raw_output: Any = UNSET
    meta: dict[str, Any] | None = None
    announced: bool = False
    """Whether the agent introduced the call, or it is known only by patches."""
    mark: Mark = ""

    @property
    def label(self) -> str:
        """What to show: the title, or the best there is instead."""
        return self.title or self.name or self.tool_call_id

    @property
    def display_kind(self) -> str:
        """The kind to show; where the agent sent none of the official ones, what it probably meant. Never a ground for
        approval.
        """
        if self.kind != "other" or self.meta is None:
            return self.kind
        from accord.schema.dialects.json_members import (
            display_kind,  # on first use: correct agents never need it
        )

        return display_kind(ToolCallUpdate(self.tool_call_id, meta=self.meta))

    @property
    def finished(self) -> bool:
        """Whether the agent reported a final status."""
        return self.status in _FINAL

    @property
    def open(self) -> bool:
        """Whether something may still be expected: neither finished nor given up."""
        return not self.mark and self.status not in _FINAL

    @property
    def cancelled(self) -> bool:
        """The turn was cancelled before the call completed."""
        return self.mark == "cancelled"

    @property
    def ended_without_result(self) -> bool:
        """The turn ended and the agent never said how the call did."""
        return self.mark == "ended_without_result"

    @property
    def text(self) -> str:
        """The text blocks of the content."""
        return text_of_tool_content(self.content)

    @property
    def terminal_ids(self) -> list[str]:
        """The terminals embedded in the content, in order."""
        return [item.terminal_id for item in self.content if isinstance(item, Terminal)]

    def apply(self, patch: ToolCallUpdate) -> None:
        """Omitted keeps, null resets to the default, a value replaces; arrays replace whole."""
        if patch.status is not UNSET:
            self._move(patch.status or "pending")
        if patch.title is not UNSET:
            self.title = patch.title or ""
        if patch.kind is not UNSET:
            self.kind = patch.kind or "other"
        if patch.name is not UNSET:
            self.name = patch.name or None
        if patch.content is not UNSET:
            self.content = patch.content or []
        if patch.locations is not UNSET:
            self.locations = patch.locations or []
        if patch.raw_input is not UNSET:
            self.raw_input = _or_unset(patch.raw_input)
        if patch.raw_output is not UNSET:
            self.raw_output = _or_unset(patch.raw_output)
        self._merge_meta(patch.meta)

    def announce(self, patch: ToolCallUpdate) -> None:
        """The agent introduces the call. If it did so before, or goes on from here, that is a patch like any other;
        an announcement that looks back, because the call is already further on, only fills in what is missing.
        """
        behind = self.finished if patch.status is UNSET else _rank(patch.status or "") < _rank(self.status)
        ahead = bool(patch.status) and _rank(patch.status or "") > _rank(self.status)
        if not behind and (self.announced or ahead):
            self.apply(patch)
        else:
            self._fill(patch)
        self.announced = True

    def give_up(self, mark: Mark) -> None:
        """Mark the call, unless it has finished or carries a mark already."""
        if self.open:
            self.mark = mark

    def whole(self) -> ToolCallUpdate:
        """The one patch that says all of it, marks aside."""
        return ToolCallUpdate(
            tool_call_id=self.tool_call_id,
            title=self.title,
            kind=self.kind,
            status=self.status,
            name=UNSET if self.name is None else self.name,
            content=list(self.content),
            locations=list(self.locations),
            raw_input=self.raw_input,
            raw_output=self.raw_output,
            meta=UNSET if self.meta is None else self.meta,
        )

    def _move(self, status: ToolCallStatus) -> None:
        if self.status in _FINAL and status not in _FINAL:
            return
        self.status = status
        # After a cancel an agent may close its calls as failed; that is still a cancelled call to the user.
        if status == "completed" or (status in _FINAL and self.mark == "ended_without_result"):
            self.mark = ""

    def _fill(self, patch: ToolCallUpdate) -> None:
        self.title = self.title or patch.title or ""
        if self.kind == "other":
            self.kind = patch.kind or "other"
        if self.name is None:
            self.name = patch.name or None
        self.content = self.content or patch.content or []
        self.locations = self.locations or patch.locations or []
        if self.raw_input is UNSET:
            self.raw_input = _or_unset(patch.raw_input)
        if self.raw_output is UNSET:
            self.raw_output = _or_unset(patch.raw_output)
        if patch.meta:
            self._merge_meta({**patch.meta, **(self.meta or {})})

    def _merge_meta(self, meta: dict[str, Any] | UnsetType | None) -> None:
        if meta is None:
            self.meta = None
        elif meta:
            merged = {**(self.meta or {}), **meta}
            self.meta = {key: value for key, value in merged.items() if value is not None} or None


def text_of_tool_content(items: Iterable[ToolCallContent]) -> str:
    """Concatenate the text blocks of a tool's output; diffs and terminals add nothing."""
    return text_of_blocks([item.content for item in items if isinstance(item, Content)])


def _or_unset(value: Any) -> Any:
    return UNSET if value is None else value


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
