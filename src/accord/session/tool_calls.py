"""The state of a tool call, and the conversion of its terminals to text.

Reports come in any order: a patch for an unknown id creates the call, and a late announcement fills in what
is missing. A finished call is never reopened.
"""

from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeAlias, TypeVar, cast

from msgspec.structs import replace

from accord.schema import (
    UNSET,
    Content,
    Record,
    Terminal,
    ToolCall,
    ToolCallChange,
    ToolCallContent,
    ToolCallLocation,
    ToolCallStatus,
    ToolCallUpdate,
    ToolKind,
    UnsetType,
)
from accord.schema.content import code_block, text_of_blocks

Mark: TypeAlias = Literal["", "cancelled", "ended_without_result"]
"""How the client closed a call that had no final status when the turn ended."""

_FINAL_STATUSES = frozenset({"completed", "failed"})
_STATUS_RANKS = {"pending": 0, "completed": 2, "failed": 2}


def _status_rank(status: str) -> int:
    return _STATUS_RANKS.get(status, 1)


class ToolCallState(Record, omit_defaults=True):
    """One tool call, with the protocol's defaults applied."""

    tool_call_id: str
    title: str = ""
    """What the call does, for the user; `label` is never empty."""
    kind: ToolKind = "other"
    """The kind of tool: "read", "edit", "execute" and so on."""
    status: ToolCallStatus = "pending"
    """"pending", "in_progress", "completed" or "failed"."""
    name: str | None = None
    """The name of the tool, if the agent sent it."""
    content: list[ToolCallContent] = []
    """The output: text and other blocks, diffs and terminals."""
    locations: list[ToolCallLocation] = []
    """The files, and lines, that the call works on."""
    raw_input: Any = UNSET
    """The arguments of the tool, as any JSON value."""
    raw_output: Any = UNSET
    """The result of the tool, as any JSON value."""
    meta: dict[str, Any] | None = None
    """The `_meta` members of all reports, merged."""
    announced: bool = False
    """Whether the agent introduced the call; otherwise it is known only from patches."""
    mark: Mark = ""
    """How the client closed a call that had no final status when the turn ended."""
    cancellable: bool = False
    """Whether the agent stops this call alone on request."""

    @property
    def label(self) -> str:
        """The title, or the best substitute."""
        return self.title or self.name or self.tool_call_id

    @property
    def display_kind(self) -> str:
        """The kind to show; guessed if the agent sent no official one. Do not base an approval on it."""
        if self.kind != "other" or self.meta is None:
            return self.kind
        from accord.schema.dialects.json_members import (
            display_kind,  # on first use: correct agents never need it
        )

        return display_kind(ToolCallUpdate(self.tool_call_id, meta=self.meta))

    @property
    def finished(self) -> bool:
        """Whether the agent reported a final status."""
        return self.status in _FINAL_STATUSES

    @property
    def open(self) -> bool:
        """Whether more reports are expected: neither finished nor marked."""
        return not self.mark and self.status not in _FINAL_STATUSES

    @property
    def cancelled(self) -> bool:
        """Whether the turn was canceled before the call completed."""
        return self.mark == "cancelled"

    @property
    def ended_without_result(self) -> bool:
        """Whether the turn ended without a final status of the call."""
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
        """Apply a patch: omitted keeps, null resets to the default, a value replaces; lists replace whole.

        Messages of protocol version 1 have no nulls here; see `protocol_v1`.
        """
        if patch.status is not UNSET:
            self._set_status(patch.status or "pending")
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
            self.raw_input = _none_to_unset(patch.raw_input)
        if patch.raw_output is not UNSET:
            self.raw_output = _none_to_unset(patch.raw_output)
        self._merge_meta(patch.meta)

    def announce(self, patch: ToolCallUpdate) -> None:
        """Apply the agent's introduction of the call.

        Applied as an ordinary patch if the call was announced before or the status moves forward. If the call
        is further on, only missing members are filled in.
        """
        behind = (
            self.finished
            if patch.status is UNSET
            else _status_rank(patch.status or "") < _status_rank(self.status)
        )
        ahead = bool(patch.status) and _status_rank(patch.status or "") > _status_rank(self.status)
        if not behind and (self.announced or ahead):
            self.apply(patch)
        else:
            self._fill_in(patch)
        self.announced = True

    def set_mark(self, mark: Mark) -> None:
        """Mark the call, unless it has finished or has a mark."""
        if self.open:
            self.mark = mark

    def to_update(self) -> ToolCallUpdate:
        """Return one patch with the whole call, without the mark."""
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

    def _set_status(self, status: ToolCallStatus) -> None:
        if self.status in _FINAL_STATUSES and status not in _FINAL_STATUSES:
            return
        self.status = status
        # Some agents report calls as failed after a cancellation; the call still counts as canceled.
        if status == "completed" or (status in _FINAL_STATUSES and self.mark == "ended_without_result"):
            self.mark = ""

    def _fill_in(self, patch: ToolCallUpdate) -> None:
        self.title = self.title or patch.title or ""
        if self.kind == "other":
            self.kind = patch.kind or "other"
        if self.name is None:
            self.name = patch.name or None
        self.content = self.content or patch.content or []
        self.locations = self.locations or patch.locations or []
        if self.raw_input is UNSET:
            self.raw_input = _none_to_unset(patch.raw_input)
        if self.raw_output is UNSET:
            self.raw_output = _none_to_unset(patch.raw_output)
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


def _none_to_unset(value: Any) -> Any:
    return UNSET if value is None else value


ToolCallMessageT = TypeVar("ToolCallMessageT", bound=ToolCall | ToolCallChange)


def has_terminals(update: ToolCall | ToolCallChange) -> bool:
    """Whether the content shows a terminal."""
    return bool(update.content) and any(isinstance(item, Terminal) for item in update.content)


def without_terminals(update: ToolCallMessageT, output_of: Callable[[str], str | None]) -> ToolCallMessageT:
    """Replace terminals by text, for a client that cannot show them.

    `output_of` returns a terminal's output; None if it is unknown. Then the raw output of the call is used.
    """
    if not has_terminals(update):
        return update
    content: list[ToolCallContent] = []
    has_unknown_terminal = False
    for item in update.content or ():
        if not isinstance(item, Terminal):
            content.append(item)
        elif (text := output_of(item.terminal_id)) is None:
            has_unknown_terminal = True
        elif text.strip():
            content.append(code_block(text.rstrip()))
    if has_unknown_terminal and (output := _raw_output_text(update.raw_output)):
        content.append(code_block(output.rstrip()))
    return replace(update, content=content or UNSET)


def _raw_output_text(raw_output: Any) -> str:
    output: Any = cast(dict[str, Any], raw_output).get("output") if isinstance(raw_output, dict) else None
    return output if isinstance(output, str) else ""
