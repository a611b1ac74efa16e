"""Converts between the updates of protocol version 2 and the events of a session. Imported on first use.

In version 2 every message has an id, a tool call has one update for its creation and its changes, null
clears, content is appended by chunks, a change of files is a patch, and the mode is a config option.
"""

from collections.abc import Callable
from typing import Any, Final, cast, get_args

from msgspec import UnsetType, structs

from accord.schema import (
    UNSET,
    AgentMessageChunk,
    AgentThoughtChunk,
    AvailableCommand,
    AvailableCommandsUpdate,
    CompactionSummaryChunk,
    CompactionUpdate,
    ConfigOptionUpdate,
    Content,
    ContentBlock,
    Diff,
    Error,
    PlanEntry,
    PlanEntryPriority,
    PlanEntryStatus,
    PlanItems,
    ResourceLink,
    SessionMessage,
    SessionMessageChunk,
    SessionUpdate,
    TextContent,
    ToolCallContent,
    ToolCallLocation,
    ToolCallStatus,
    ToolCallUpdate,
    ToolKind,
    Unknown,
    UnstructuredCommandInput,
    UserMessageChunk,
    v2,
)
from accord.schema.codec import Mismatch, read, to_builtins
from accord.session.config_options_v2 import option_v1, options_v2
from accord.session.events import (
    Event,
    MessageChanged,
    MessageChunk,
    PlanChanged,
    StateChanged,
    TerminalChanged,
    ToolCallChanged,
)
from accord.session.git_patch import read_patch, write_patch
from accord.session.history_items import V1_PLAN_ID, MessageKind, PlanBody
from accord.session.terminal_state import BackgroundItem, TerminalExit
from accord.session.tool_calls import Mark

UpdateV2 = Any
"""A variant of `v2.SessionUpdateV2`."""

PLAN_ID: Final = "_accord/plan"
"""The id, in version 2, of the plan that has none in version 1."""

_KINDS: Final = frozenset(get_args(ToolKind))
_STATUSES: Final = frozenset(get_args(ToolCallStatus))
_PRIORITIES: Final = frozenset(get_args(PlanEntryPriority))
_ENTRY_STATUSES: Final = frozenset(get_args(PlanEntryStatus))
_DIFF_NOTE: Final = "_accord/diff"
"""The `_meta` key of a diff that says what was done with the file, where version 1 cannot say it."""
_CHANGE_NOTE: Final = "_accord/change"
"""The same as version 2 says it: the change of a file that is not just written."""
_STATUS_NOTE: Final = "_accord/status"
"""The same for the status of a tool call or of a step of a plan."""
_NOTES: Final = (_DIFF_NOTE, _CHANGE_NOTE, _STATUS_NOTE)


# -- version 2 to events -------------------------------------------------------------------------------------


def events_of(update: UpdateV2) -> list[Event]:
    """Return the events of an update; most updates are one event."""
    convert = _EVENTS.get(update.__class__)
    return [cast(Event, update)] if convert is None else convert(update)


_CHUNKS_V1: Final[dict[type, type[UserMessageChunk] | type[AgentMessageChunk] | type[AgentThoughtChunk]]] = {
    v2.UserMessageChunkV2: UserMessageChunk,
    v2.AgentMessageChunkV2: AgentMessageChunk,
    v2.AgentThoughtChunkV2: AgentThoughtChunk,
}
_MESSAGE_KINDS: Final[dict[type, MessageKind]] = {
    v2.UserMessage: "user",
    v2.AgentMessage: "agent",
    v2.AgentThought: "thought",
}


def _chunk_event(update: v2.ContentChunkV2) -> list[Event]:
    if isinstance(update.content, Unknown):
        return [_kept(update)]
    chunk = _CHUNKS_V1[type(update)]
    return [chunk(content=update.content, message_id=update.message_id, meta=update.meta)]


def _kept(update: UpdateV2) -> Unknown:
    """An update with a part that no event has: kept as it is."""
    raw = to_builtins(update)
    return Unknown(str(raw.get("sessionUpdate", "")), raw)


def _message_event(update: v2.UserMessage | v2.AgentMessage | v2.AgentThought) -> list[Event]:
    content: list[ContentBlock] | UnsetType | None = UNSET
    if update.content is not UNSET:
        content = None if update.content is None else known_blocks(update.content)
    return [MessageChanged(_MESSAGE_KINDS[type(update)], update.message_id, content)]


def known_blocks(blocks: "list[v2.ContentBlockV2]") -> list[ContentBlock]:
    """The blocks of types that version 1 has."""
    return [block for block in blocks if not isinstance(block, Unknown)]


def _tool_call_event(update: v2.ToolCallUpdateV2) -> list[Event]:
    patch, mark = tool_call_v1(update)
    return [ToolCallChanged(patch, mark=mark, cancellable=_cancellable(update.capabilities))]


def _cancellable(
    capabilities: v2.ToolCallCapabilities | v2.TerminalCapabilities | UnsetType | None,
) -> bool | UnsetType:
    return UNSET if capabilities is UNSET else bool(capabilities and capabilities.cancel)


def tool_call_v1(update: v2.ToolCallUpdateV2) -> tuple[ToolCallUpdate, Mark]:
    """The patch of an event for a tool call, and the mark for a call that was canceled."""
    kind = update.kind
    status: Any = update.status
    mark: Mark = ""
    meta = update.meta
    if status == "cancelled":
        status, mark = UNSET, "cancelled"
    elif status == "in_progress":
        meta = {**(meta or {}), _STATUS_NOTE: None}  # it may have been paused
    elif isinstance(status, str) and status not in _STATUSES:
        meta = {**(meta or {}), _STATUS_NOTE: status}  # paused, and whatever a later version adds
        status = "in_progress"
    patch = ToolCallUpdate(
        update.tool_call_id,
        title=update.title,
        kind=cast(Any, "other" if isinstance(kind, str) and kind not in _KINDS else kind),
        status=cast(Any, status),
        content=_each(update.content, tool_content_v1),
        locations=_each(
            update.locations, lambda place: [ToolCallLocation(place.path, place.line, meta=place.meta)]
        ),
        raw_input=update.raw_input,
        raw_output=update.raw_output,
        name=update.name,
        meta=meta,
    )
    return patch, mark


def _each(items: Any, convert: Callable[[Any], list[Any]]) -> Any:
    """Convert the items of a list, each to several; keep UNSET and None."""
    if not items:
        return items
    return [converted for item in items for converted in convert(item)]


def tool_content_v1(item: Any) -> list[ToolCallContent]:
    """The content of a tool call in the form of version 1; none for an unknown type."""
    if isinstance(item, Unknown):
        return []
    return _diffs_v1(item) if isinstance(item, v2.DiffV2) else [item]


def _diffs_v1(diff: v2.DiffV2) -> list[ToolCallContent]:
    changes = [change for change in diff.changes if not isinstance(change, Unknown)]
    files = read_patch(diff.patch.text) if diff.patch and diff.patch.format == "git_patch" else []
    if len(files) != len(changes):
        files = []
    items: list[ToolCallContent] = []
    for index, change in enumerate(changes):
        texts = files[index] if files else None
        note = _change_note(change)
        meta: dict[str, Any] = dict(diff.meta) if len(changes) == 1 and diff.meta else {}
        if texts is None or (note and not (texts.old or texts.new)):
            meta[_CHANGE_NOTE] = to_builtins(change)
            items.append(Content(TextContent(f"{note or _change_words(change)}"), meta=meta))
            continue
        if note:
            meta |= {_DIFF_NOTE: note, _CHANGE_NOTE: to_builtins(change)}
        old = None if isinstance(change, v2.DiffAdd) else texts.old
        items.append(Diff(change.path, texts.new or "", old, meta=meta or UNSET))
    return items


def _change_note(change: Any) -> str:
    """What version 1 cannot say about a change; "" for a new or changed file."""
    match change:
        case v2.DiffDelete():
            return f"Deleted `{change.path}`"
        case v2.DiffMove():
            return f"Moved `{change.old_path}` to `{change.path}`"
        case v2.DiffCopy():
            return f"Copied `{change.old_path}` to `{change.path}`"
        case _:
            return ""


def _change_words(change: Any) -> str:
    return f"{'Added' if isinstance(change, v2.DiffAdd) else 'Changed'} `{change.path}`"


def _content_chunk_event(update: v2.ToolCallContentChunk) -> list[Event]:
    patch = ToolCallUpdate(update.tool_call_id)
    return [ToolCallChanged(patch, append=tool_content_v1(update.content))]


def _terminal_event(update: v2.TerminalUpdate) -> list[Event]:
    output: str | UnsetType | None = UNSET
    if update.output is not UNSET:
        output = None if update.output is None else update.output.data
    ended: TerminalExit | UnsetType | None = UNSET
    if update.exit_status is not UNSET:
        status = update.exit_status
        ended = None if status is None else TerminalExit(status.exit_code or None, status.signal or None)
        if status is not None and status.exit_code == 0 and ended is not None:
            ended.exit_code = 0
    return [
        TerminalChanged(
            update.terminal_id,
            update.command,
            update.cwd,
            output,
            exit=ended,
            cancellable=_cancellable(update.capabilities),
        )
    ]


def _terminal_chunk_event(update: v2.TerminalOutputChunk) -> list[Event]:
    return [TerminalChanged(update.terminal_id, append=update.data)]


def _plan_event(update: v2.PlanUpdateV2) -> list[Event]:
    plan = update.plan
    if isinstance(plan, Unknown):
        return [_kept(update)]
    body: PlanBody
    plan_id = V1_PLAN_ID if plan.plan_id == PLAN_ID else plan.plan_id
    if isinstance(plan, v2.PlanItemsV2):
        body = PlanItems(plan_id, [_entry_v1(entry) for entry in plan.entries], meta=plan.meta)
    else:
        body = plan
    return [PlanChanged(plan_id, body)]


def _entry_v1(entry: v2.PlanEntryV2) -> PlanEntry:
    status, meta = entry.status, entry.meta
    if status not in _ENTRY_STATUSES:
        meta = {**(meta or {}), _STATUS_NOTE: status}
        status = "completed" if status == "cancelled" else "pending"
    priority = entry.priority if entry.priority in _PRIORITIES else "medium"
    return PlanEntry(entry.content, cast(Any, priority), cast(Any, status), meta=meta)


def _plan_removed_event(update: v2.PlanRemoved) -> list[Event]:
    return [PlanChanged(V1_PLAN_ID if update.plan_id == PLAN_ID else update.plan_id, None)]


def _state_event(update: v2.SessionStateUpdate) -> list[Event]:
    background: list[BackgroundItem] | UnsetType = UNSET
    if update.background:
        background = [item for work in update.background if (item := _background_item(work)) is not None]
    elif update.background is not UNSET and update.background is not None:
        background = []
    failure = update.error or None
    error = None if failure is None else Error(failure.code, failure.message, failure.data)
    return [StateChanged(update.state, background, update.stop_reason or "", error, update.usage or None)]


def _background_item(work: Any) -> BackgroundItem | None:
    match work:
        case v2.BackgroundTerminal():
            return BackgroundItem("terminal", work.terminal_id)
        case v2.BackgroundToolCall():
            return BackgroundItem("tool_call", work.tool_call_id)
        case v2.BackgroundSubagent():
            return BackgroundItem("subagent", work.session_id)
        case Unknown():
            return BackgroundItem(work.kind, "")
        case _:
            return None


def _commands_event(update: v2.AvailableCommandsUpdateV2) -> list[Event]:
    return [AvailableCommandsUpdate(commands_v1(update.available_commands), meta=update.meta)]


def commands_v1(commands: "list[v2.AvailableCommandV2]") -> list[AvailableCommand]:
    """The slash commands in the form of version 1."""
    return [
        AvailableCommand(
            command.name,
            command.description,
            UnstructuredCommandInput(command.input.hint)
            if isinstance(command.input, v2.TextCommandInput)
            else UNSET,
            meta=command.meta,
        )
        for command in commands
        if isinstance(command, v2.Command)
    ]


def _options_event(update: v2.ConfigOptionUpdateV2) -> list[Event]:
    options = [option_v1(option) for option in update.config_options if not isinstance(option, Unknown)]
    return [ConfigOptionUpdate(options, meta=update.meta)]


_EVENTS: Final[dict[type, Callable[[Any], list[Event]]]] = {
    v2.UserMessageChunkV2: _chunk_event,
    v2.AgentMessageChunkV2: _chunk_event,
    v2.AgentThoughtChunkV2: _chunk_event,
    v2.UserMessage: _message_event,
    v2.AgentMessage: _message_event,
    v2.AgentThought: _message_event,
    v2.ToolCallChangeV2: _tool_call_event,
    v2.ToolCallContentChunk: _content_chunk_event,
    v2.TerminalUpdate: _terminal_event,
    v2.TerminalOutputChunk: _terminal_chunk_event,
    v2.PlanUpdateV2: _plan_event,
    v2.PlanRemoved: _plan_removed_event,
    v2.SessionStateUpdate: _state_event,
    v2.AvailableCommandsUpdateV2: _commands_event,
    v2.ConfigOptionUpdateV2: _options_event,
}
"""Converters for the updates that are not events themselves."""


# -- events to version 2 -------------------------------------------------------------------------------------


class MessageIds:
    """The ids of messages that have none in version 1: one for each run of chunks of one kind."""

    __slots__ = ("_count", "_current", "_kind", "_prefix", "_seen")

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._count = 0
        self._kind: object = None
        self._current = ""
        self._seen: set[tuple[type, str]] = set()

    def new(self) -> str:
        """A new id."""
        self._count += 1
        return f"{self._prefix}-{self._count}"

    def end(self) -> None:
        """The next chunk without an id begins another message."""
        self._kind = None

    def end_for(self, kind: type, id: str) -> None:
        """The same if this tool call or compaction is new: the history shows it between the chunks."""
        if (kind, id) not in self._seen:
            self._seen.add((kind, id))
            self.end()

    def of(self, kind: object, message_id: str | UnsetType | None) -> str:
        """The id for a chunk of this kind."""
        if message_id:
            self._kind, self._current = kind, message_id
        elif self._kind != kind:
            self._kind, self._current = kind, self.new()
        return self._current


def updates_of(event: Event, ids: MessageIds) -> list[UpdateV2]:
    """Return the updates that report an event; empty if updates cannot express it."""
    if isinstance(event, MessageChunk):
        kind = _CHUNKS_V2[type(event)]
        return [kind(block_v2(event.content), ids.of(kind, event.message_id), meta=event.meta)]
    if isinstance(event, ToolCallChanged):
        ids.end_for(ToolCallChanged, event.patch.tool_call_id)
    elif isinstance(event, CompactionUpdate | CompactionSummaryChunk):
        ids.end_for(CompactionUpdate, event.compaction_id)
    elif isinstance(event, MessageChanged):
        ids.end()
    convert = _UPDATES.get(type(event))
    if convert is not None:
        return convert(event, ids)
    return [event] if type(event) in _SHARED else []


_CHUNKS_V2: Final[dict[type, Any]] = {old: new for new, old in _CHUNKS_V1.items()}
_MESSAGES_V2: Final[dict[MessageKind, Any]] = {kind: cls for cls, kind in _MESSAGE_KINDS.items()}
_UPDATES_V2: Final = frozenset(get_args(cast(Any, v2.SessionUpdateV2).__origin__))
_SHARED: Final = frozenset(get_args(SessionUpdate)) & _UPDATES_V2 | {Unknown}


def _whole_message(event: MessageChanged, ids: MessageIds) -> list[UpdateV2]:
    message_id = event.message_id or ids.new()
    return [_MESSAGES_V2[event.kind](message_id, _blocks_v2(event.content))]


def block_v2(block: ContentBlock) -> ContentBlock:
    """A content block without the numbers that version 2 does not allow; version 1 has no limits for them."""
    annotations = block.annotations or None
    if annotations is not None and annotations.priority and not 0 <= annotations.priority <= 1:
        block = structs.replace(block, annotations=structs.replace(annotations, priority=UNSET))
    if isinstance(block, ResourceLink) and block.size and block.size < 0:
        block = structs.replace(block, size=UNSET)
    return block


def _blocks_v2(content: Any) -> Any:
    """The same for one block, a list of them, null or nothing."""
    if isinstance(content, list):
        return [block_v2(block) for block in cast("list[ContentBlock]", content)]
    return block_v2(content) if content else content


def _tool_call_updates(event: ToolCallChanged, ids: MessageIds) -> list[UpdateV2]:
    updates: list[UpdateV2] = []
    patch = event.patch
    if event.announce and event.call.tool_call_id and not event.new:
        patch = event.call.to_update()  # here, the effect of introducing a known call cannot be said
    bare = not event.announce and patch == ToolCallUpdate(patch.tool_call_id)
    if not (bare and event.append and not event.mark and event.cancellable is UNSET):
        members = tool_call_v2(patch)
        change = v2.ToolCallChangeV2(*_members(members))
        if event.mark == "cancelled" and patch.status not in ("completed", "failed"):
            change.status = "cancelled"
        if event.cancellable is not UNSET:
            cancel = v2.ToolCallCancelCapabilities() if event.cancellable else UNSET
            change.capabilities = v2.ToolCallCapabilities(cancel) if event.cancellable else None
        change.meta = members.meta
        updates.append(change)
    updates += [v2.ToolCallContentChunk(patch.tool_call_id, tool_content_v2(item)) for item in event.append]
    return updates


def _members(patch: v2.ToolCallUpdateV2) -> tuple[Any, ...]:
    return tuple(getattr(patch, name) for name in _TOOL_CALL_FIELDS)


_TOOL_CALL_FIELDS: Final = tuple(name for name in v2.ToolCallUpdateV2.__struct_fields__ if name != "meta")


def tool_call_v2(patch: ToolCallUpdate) -> v2.ToolCallUpdateV2:
    """The patch of an event in the form of version 2, where null clears as it does in events."""
    meta, status = patch.meta, patch.status
    if meta and _STATUS_NOTE in meta:
        note = meta[_STATUS_NOTE]
        meta = _without_notes(meta)
        if status == "in_progress" and isinstance(note, str):
            status = cast(Any, note)
    return v2.ToolCallUpdateV2(
        patch.tool_call_id,
        title=patch.title,
        kind=patch.kind,
        status=status,
        content=_each(patch.content, lambda item: [tool_content_v2(item)]),
        locations=_each(patch.locations, _location_v2),
        raw_input=patch.raw_input,
        raw_output=patch.raw_output,
        name=patch.name,
        meta=meta,
    )


def _without_notes(meta: dict[str, Any] | UnsetType | None) -> dict[str, Any] | UnsetType:
    return {name: value for name, value in (meta or {}).items() if name not in _NOTES} or UNSET


def _location_v2(place: ToolCallLocation) -> list[v2.ToolCallLocationV2]:
    return [v2.ToolCallLocationV2(place.path, place.line or UNSET, meta=place.meta)]


def tool_content_v2(item: ToolCallContent) -> Any:
    """The content of a tool call in the form of version 2."""
    if not isinstance(item, Content | Diff):
        return item
    noted = _noted_change(item)
    if isinstance(item, Content):
        if noted is not None:
            return v2.DiffV2([noted], meta=_without_notes(item.meta))
        return structs.replace(item, content=block_v2(item.content))
    old = None if item.old_text is UNSET else item.old_text
    note = item.meta.get(_DIFF_NOTE) if item.meta else None
    if noted is not None:
        change: Any = noted
    elif isinstance(note, str) and note.startswith("Deleted "):  # in logs of earlier versions
        change = v2.DiffDelete(item.path)
    else:
        change = v2.DiffAdd(item.path) if old is None else v2.DiffModify(item.path)
    old_path = change.old_path if isinstance(change, v2.DiffMove | v2.DiffCopy) else item.path
    patch = v2.DiffPatch("git_patch", write_patch(item.path, old, item.new_text, old_path))
    return v2.DiffV2([change], patch, meta=_without_notes(item.meta))


def _noted_change(item: Content | Diff) -> Any:
    """The change of a file that version 1 cannot say, if there is a note of it."""
    note: Any = item.meta.get(_CHANGE_NOTE) if item.meta else None
    if note is None:
        return None
    try:
        change = read(v2.DiffChange, note)
    except Mismatch:
        return None
    known = not isinstance(change, Unknown) and (isinstance(item, Content) or change.path == item.path)
    return change if known else None


def _terminal_updates(event: TerminalChanged, ids: MessageIds) -> list[UpdateV2]:
    updates: list[UpdateV2] = []
    update = v2.TerminalUpdate(event.terminal_id, event.command, event.cwd)
    if event.output is not UNSET:
        update.output = None if event.output is None else v2.TerminalOutput(event.output)
    if event.exit is not UNSET:
        ended = event.exit
        update.exit_status = None if ended is None else v2.TerminalExitStatusV2(ended.exit_code, ended.signal)
    if event.cancellable is not UNSET:
        cancel = v2.TerminalCancelCapabilities()
        update.capabilities = v2.TerminalCapabilities(cancel) if event.cancellable else None
    if update != v2.TerminalUpdate(event.terminal_id) or not event.append:
        updates.append(update)
    if event.append:
        # The output comes before the end, even if one event has both.
        place = len(updates) if event.exit is UNSET or event.output is not UNSET else 0
        updates.insert(place, v2.TerminalOutputChunk(event.terminal_id, event.append))
    return updates


def _plan_updates(event: PlanChanged, ids: MessageIds) -> list[UpdateV2]:
    plan_id = event.plan_id or PLAN_ID
    plan = event.plan
    if plan is None:
        return [v2.PlanUpdateV2(v2.PlanItemsV2(plan_id, []))]
    if not isinstance(plan, PlanItems):
        return [v2.PlanUpdateV2(plan)]
    return [
        v2.PlanUpdateV2(v2.PlanItemsV2(plan_id, [_entry_v2(entry) for entry in plan.entries], meta=plan.meta))
    ]


def _entry_v2(entry: PlanEntry) -> v2.PlanEntryV2:
    status = entry.meta.get(_STATUS_NOTE) if entry.meta else None
    meta = {key: value for key, value in (entry.meta or {}).items() if key != _STATUS_NOTE}
    return v2.PlanEntryV2(
        entry.content,
        entry.priority,
        status if isinstance(status, str) else entry.status,
        meta=meta or (UNSET if entry.meta else entry.meta),
    )


def _state_updates(event: StateChanged, ids: MessageIds) -> list[UpdateV2]:
    error = event.error
    return [
        v2.SessionStateUpdate(
            event.state,
            event.stop_reason or UNSET,
            UNSET if error is None else v2.ErrorV2(error.code, error.message, error.data),
            event.usage or UNSET,
            background_v2(event.background),
        )
    ]


def background_v2(items: list[BackgroundItem] | UnsetType) -> Any:
    """The background work of a state update."""
    if items is UNSET:
        return UNSET
    kinds: dict[str, Callable[[str], Any]] = {
        "terminal": v2.BackgroundTerminal,
        "tool_call": v2.BackgroundToolCall,
        "subagent": v2.BackgroundSubagent,
    }
    return [kinds[item.kind](item.id) for item in items if item.kind in kinds]


def _commands_updates(event: AvailableCommandsUpdate, ids: MessageIds) -> list[UpdateV2]:
    return [v2.AvailableCommandsUpdateV2(commands_v2(event.available_commands), meta=event.meta)]


def commands_v2(commands: list[AvailableCommand]) -> "list[v2.AvailableCommandV2]":
    """The slash commands in the form of version 2."""
    return [
        v2.Command(
            command.name,
            command.description,
            v2.TextCommandInput(command.input.hint) if command.input else UNSET,
            meta=command.meta,
        )
        for command in commands
    ]


def _options_updates(event: ConfigOptionUpdate, ids: MessageIds) -> list[UpdateV2]:
    return [v2.ConfigOptionUpdateV2(options_v2(event.config_options), meta=event.meta)]


def _content_updates(event: Any, ids: MessageIds) -> list[UpdateV2]:
    return [structs.replace(event, content=_blocks_v2(event.content))]


_UPDATES: Final[dict[type, Callable[[Any, MessageIds], list[UpdateV2]]]] = {
    MessageChanged: _whole_message,
    ToolCallChanged: _tool_call_updates,
    TerminalChanged: _terminal_updates,
    StateChanged: _state_updates,
    PlanChanged: _plan_updates,
    AvailableCommandsUpdate: _commands_updates,
    ConfigOptionUpdate: _options_updates,
    CompactionSummaryChunk: _content_updates,
    SessionMessage: _content_updates,
    SessionMessageChunk: _content_updates,
}
"""Converters for the events that are not updates themselves."""
