"""One stored session: its list entry, its transcript, and the exports as Markdown and JSON.

The JSON has a format version, and its members have the shapes of the protocol. In Markdown, the agent's
messages stay Markdown, without terminal escapes. Titles, paths and output are escaped, so that they cannot
become markup.
"""

import difflib
import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias

from accord import __version__
from accord.errors import UsageError
from accord.frontend.display_text import block_text, kind_to_show
from accord.frontend.recording import RecordedSession
from accord.private_files import private_opener
from accord.safe_text import clean_line, clean_text, one_line
from accord.schema import (
    UNSET,
    Content,
    ContentBlock,
    Diff,
    EmbeddedResource,
    PlanFile,
    PlanMarkdown,
    SessionInfo,
    Terminal,
    TextContent,
    TextResourceContents,
)
from accord.schema.codec import to_builtins
from accord.session import (
    CompactionState,
    Entry,
    Message,
    PlanState,
    SessionMessageState,
    SessionState,
    SubagentState,
    ToolCallState,
)
from accord.session.protocol_v1 import accord_meta, node_in
from accord.store import Lease, iso_time
from accord.text_width import count_text

JSON_FORMAT: Final = "accord.session"
JSON_VERSION: Final = 1
"""Increases when a member changes its meaning or is removed, not when one is added."""

TranscriptSource: TypeAlias = Literal["agent", "recorded"]
"""Where the data comes from: the agent, or the recording of this client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionListEntry:
    """A session in a list. Its texts come from the agent: clean them before you show them."""

    agent: str
    """The name under which the agent's sessions are recorded."""
    session_id: str
    cwd: str
    title: str | None = None
    updated: str | None = None
    """The time in the format of the protocol."""
    additional_directories: tuple[str, ...] = ()
    archived: bool = False
    source: TranscriptSource = "agent"
    recorded: RecordedSession | None = None
    """The recording of this client, if there is one."""
    writer: Lease | None = None
    """Who writes to the agent's own log now, if it can be read here."""
    node: str = ""
    """The node of a cluster that has the session."""
    node_is_lost: bool = False
    """Whether that node does not run."""

    @staticmethod
    def from_agent(agent: str, info: SessionInfo, recorded: RecordedSession | None) -> "SessionListEntry":
        """From the agent's list. The directories are the current ones, not those of the recording.

        The recording has the title if the user chose it, or if the agent gives none.
        """
        summary = None if recorded is None else recorded.summary
        title = info.title or None
        if summary is not None and (title is None or summary.title_set):
            title = summary.title
        return SessionListEntry(
            agent=agent,
            session_id=info.session_id,
            cwd=info.cwd,
            title=title,
            updated=info.updated_at or None,
            additional_directories=tuple(info.additional_directories or ()),
            archived=bool(info.archived) or (summary is not None and summary.archived),
            recorded=recorded,
            node=node_in(info.meta) or "",
            node_is_lost=bool(accord_meta(info.meta).get("nodeLost")),
        )

    @staticmethod
    def from_recording(recorded: RecordedSession) -> "SessionListEntry":
        summary = recorded.summary
        return SessionListEntry(
            agent=recorded.agent,
            session_id=recorded.session_id,
            cwd=summary.cwd,
            title=summary.title,
            updated=iso_time(summary.updated),
            additional_directories=summary.additional_directories,
            archived=summary.archived,
            source="recorded",
            recorded=recorded,
        )

    @property
    def running_in(self) -> int | None:
        """The id of the other process that runs the session now: the client if it is known, or the agent."""
        writer = (None if self.recorded is None else self.recorded.writer) or self.writer
        return None if writer is None or writer.ours or writer.pid == os.getpid() else writer.pid

    @property
    def when(self) -> str:
        """The time of the last change in local time, or the agent's text if it is not a time."""
        return local_time(self.updated)

    @property
    def shown_title(self) -> str:
        """The title, safe to show; never the id."""
        return one_line(clean_line(self.title), 120) if self.title else "Untitled"

    @property
    def label(self) -> str:
        """The id and the title, safe to show."""
        title = one_line(clean_line(self.title), 60) if self.title else ""
        return f"{one_line(self.session_id)} ({title})" if title else one_line(self.session_id)


@dataclass(frozen=True, slots=True)
class StoredTranscript:
    """The content of a session."""

    entry: SessionListEntry
    state: SessionState
    source: TranscriptSource

    @property
    def running_text(self) -> str:
        """Says in which other process the session runs; empty if it does not."""
        pid = self.entry.running_in
        if pid is None:
            return ""
        return f"{'running' if self.state.turn != 'idle' else 'open'} in process {pid}"

    @property
    def title(self) -> str | None:
        """The title in the list, or in the session state."""
        return self.entry.title or self.state.title


def local_time(text: str | None) -> str:
    """A time of the protocol as local time."""
    if not text:
        return ""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return one_line(clean_line(text), 40)
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return time.astimezone().strftime("%Y-%m-%d %H:%M")


# -- Markdown ------------------------------------------------------------------------------------------------

_SPECIAL: Final = re.compile(r"([\\`*_\[\]<>#|~])")
_BACKTICKS: Final = re.compile(r"`+")
_DETAILS_TAG: Final = re.compile(r"<(/?(?:details|summary))", re.IGNORECASE)
_STATUS_SIGNS: Final = {"pending": "○", "in_progress": "●", "completed": "✓", "failed": "✗", "cancelled": "⊘"}
_MAX_DIFF_LINES: Final = 20_000


def markdown(transcript: StoredTranscript, *, folded: bool = True) -> str:
    """The transcript as a document. `folded` puts thoughts into `<details>`; otherwise they are quoted."""
    parts = [*_head(transcript), *_body(transcript, folded)]
    return "\n\n".join(part for part in parts if part) + "\n"


def markdown_body(transcript: StoredTranscript, *, folded: bool = True) -> str:
    """Like `markdown`, without the heading and the session data."""
    return "\n\n".join(part for part in _body(transcript, folded) if part) + "\n"


def _head(transcript: StoredTranscript) -> Iterator[str]:
    entry, state = transcript.entry, transcript.state
    yield f"# {_plain(transcript.title or entry.session_id)}"
    lines = [
        ("Agent", _plain(entry.agent)),
        ("Session", _code(entry.session_id)),
        ("Folder", _code(entry.cwd)),
        *(("Also", _code(path)) for path in entry.additional_directories),
        ("Last used", _plain(local_time(entry.updated or state.updated_at))),
        ("From", "the agent" if transcript.source == "agent" else "the recording of this client"),
    ]
    yield "\n".join(f"- {name}: {value}" for name, value in lines if value)


def conversation_markdown(entries: Iterable[Entry]) -> str:
    """These entries as a document, without thoughts."""
    shown = (entry for entry in entries if not (isinstance(entry, Message) and entry.kind == "thought"))
    return "\n\n".join(part for part in _conversation(shown, folded=True) if part) + "\n"


def _conversation(entries: Iterable[Entry], folded: bool) -> Iterator[str]:
    speaker = ""
    for entry in entries:
        role = "You" if isinstance(entry, Message) and entry.kind == "user" else "Agent"
        text = _entry(entry, folded)
        if text and role != speaker:
            speaker = role
            yield f"## {role}"
        yield text


def _body(transcript: StoredTranscript, folded: bool) -> Iterator[str]:
    yield from _conversation(transcript.state.timeline, folded)
    if not transcript.state.timeline:
        yield "*No messages.*"
    if (error := transcript.state.error) is not None:
        yield f"*The last turn failed: {_plain(error.message)}*"
    if transcript.running_text:
        yield f"*This session is {transcript.running_text}.*"


def _entry(entry: Entry, folded: bool) -> str:
    match entry:
        case Message(kind="thought"):
            return _thought(_blocks(entry.blocks), folded)
        case Message():
            return _blocks(entry.blocks)
        case ToolCallState():
            return "\n\n".join(_tool_call(entry))
        case PlanState():
            return _plan(entry)
        case CompactionState():
            summary = _blocks(entry.blocks)
            return f"*The context was compacted ({_plain(entry.status)}).*" + (
                f"\n\n{_quoted(summary)}" if summary else ""
            )
        case SubagentState():
            return f"*Sub-agent {_plain(entry.title or entry.session_id)}*"
        case SessionMessageState():
            return _quoted(_blocks(entry.blocks))


def _thought(text: str, folded: bool) -> str:
    if not text:
        return ""
    if not folded:
        return _quoted(text)
    inside = _DETAILS_TAG.sub(r"&lt;\1", text)
    return f"<details>\n<summary>Thought</summary>\n\n{inside}\n\n</details>"


def _blocks(blocks: Iterable[ContentBlock]) -> str:
    """The blocks as Markdown; adjacent texts are joined."""
    parts: list[str] = []
    for block in blocks:
        if isinstance(block, TextContent):
            parts.append(clean_text(block.text))
        elif isinstance(block, EmbeddedResource) and isinstance(block.resource, TextResourceContents):
            resource = block.resource
            parts.append(f"\n\n{_code(resource.uri)}\n\n{_fenced(resource.text)}\n\n")
        else:
            parts.append(_plain(block_text(block)))
    return "".join(parts).strip()


def _tool_call(call: ToolCallState) -> Iterator[str]:
    status = "cancelled" if call.cancelled else call.status
    kind = kind_to_show(call.display_kind, call.label)
    notes = [_plain(kind)] if kind else []
    if call.ended_without_result:
        notes.append("ended without a result")
    elif status != "completed":
        notes.append(_plain(status.replace("_", " ")))
    note = f" ({', '.join(notes)})" if notes else ""
    yield f"**{_STATUS_SIGNS.get(status, '?')} {_plain(call.label)}**{note}"
    shown = False
    for item in call.content:
        shown = True
        match item:
            case Content(content=TextContent(text=text)):
                yield _fenced(_unfenced(text)) if text.strip() else ""
            case Content(content=block):
                yield _blocks([block])
            case Diff():
                yield _diff(item)
            case Terminal(terminal_id=terminal_id):
                yield f"*Terminal {_plain(terminal_id)}: its output is not part of the transcript.*"
            case _:
                pass
    if not shown:
        for name, raw in (("Input", call.raw_input), ("Output", call.raw_output)):
            if raw is not UNSET and raw not in ({}, [], ""):
                yield f"{name}:\n\n{_fenced(_raw(raw), 'text' if isinstance(raw, str) else 'json')}"


def _diff(diff: Diff) -> str:
    before = clean_text(diff.old_text or "").splitlines()
    after = clean_text(diff.new_text).splitlines()
    if len(before) + len(after) > _MAX_DIFF_LINES:
        return f"{_code(diff.path)}: {count_text(len(before), 'line')} before, {len(after):,} after"
    path = clean_line(diff.path)
    lines = difflib.unified_diff(
        before, after, "/dev/null" if diff.old_text is None else path, path, lineterm=""
    )
    return _fenced("\n".join(lines), "diff")


def _plan(plan: PlanState) -> str:
    match plan.body:
        case PlanMarkdown(content=content):
            return "**Plan**\n\n" + clean_text(content)
        case PlanFile() as file:
            return f"**Plan** in {_code(json.dumps(to_builtins(file)))}"
        case _:
            boxes = {"completed": "[x]"}
            lines = [
                f"- {boxes.get(entry.status, '[ ]')} {_plain(entry.content)}"
                + (" *(in progress)*" if entry.status == "in_progress" else "")
                for entry in plan.entries
            ]
            return "**Plan**\n\n" + "\n".join(lines) if lines else ""


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def _plain(text: str) -> str:
    """Escape text for Markdown, on one line."""
    return _SPECIAL.sub(r"\\\1", one_line(clean_line(text), 500))


def _code(text: str) -> str:
    line = one_line(clean_line(text), 500)
    fence = "`" * (_longest_run(line) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def _fenced(text: str, language: str = "") -> str:
    clean = clean_text(text).rstrip("\n")
    fence = "`" * max(3, _longest_run(clean) + 1)
    return f"{fence}{language}\n{clean}\n{fence}"


def _unfenced(text: str) -> str:
    """Remove the code fence of an output."""
    lines = text.strip().splitlines()
    if len(lines) >= 2 and lines[0].startswith("```") and lines[-1].strip() == "```":
        return "\n".join(lines[1:-1])
    return text


def _longest_run(text: str) -> int:
    return max((len(run) for run in _BACKTICKS.findall(text)), default=0)


def _raw(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)


def transcript_json(transcript: StoredTranscript) -> dict[str, Any]:
    """Return the document of `accord sessions export --format json`."""
    state = transcript.state
    document: dict[str, Any] = {
        "format": JSON_FORMAT,
        "version": JSON_VERSION,
        "exportedBy": f"accord {__version__}",
        **list_entry_json(transcript.entry),
        "source": transcript.source,
    }
    document["title"] = transcript.title
    document["timeline"] = [_timeline_json(entry) for entry in state.timeline]
    if state.usage is not None:
        document["usage"] = _without_update_tag(state.usage)
    return document


def list_entry_json(entry: SessionListEntry) -> dict[str, Any]:
    """Return one session of `accord sessions list --json`."""
    return {
        "agent": entry.agent,
        "sessionId": entry.session_id,
        "cwd": entry.cwd,
        "additionalDirectories": list(entry.additional_directories),
        "title": entry.title,
        "updatedAt": entry.updated,
        "archived": entry.archived,
        "source": entry.source,
        **({} if entry.running_in is None else {"runningIn": entry.running_in}),
        **({"node": entry.node} if entry.node else {}),
        **({"nodeLost": True} if entry.node_is_lost else {}),
    }


def _timeline_json(entry: Entry) -> dict[str, Any]:
    match entry:
        case Message():
            members: dict[str, Any] = {"type": "message", "role": entry.kind}
            if entry.id is not None:
                members["messageId"] = entry.id
            return {**members, "content": [_without_update_tag(block) for block in entry.blocks]}
        case ToolCallState():
            members = {"type": "tool_call", **_without_update_tag(entry.to_update())}
            members.pop("_meta", None)
            if entry.mark:
                members["endedAs"] = entry.mark
            return members
        case PlanState():
            return {"type": "plan", "planId": entry.plan_id, "plan": _without_update_tag(entry.body)}
        case CompactionState():
            return {"type": "compaction", **_without_update_tag(entry.to_update())}
        case SubagentState():
            return {"type": "subagent", **_without_update_tag(entry.to_update())}
        case SessionMessageState():
            return {"type": "session_message", **_without_update_tag(entry.to_update())}


def _without_update_tag(value: Any) -> Any:
    """Convert a record to plain values, without its `sessionUpdate` tag."""
    members = to_builtins(value)
    if isinstance(members, dict):
        members.pop("sessionUpdate", None)  # pyright: ignore[reportUnknownMemberType]
    return members if members is not UNSET else None  # pyright: ignore[reportUnknownVariableType]


def new_file_path(text: str, prefix: str = "") -> str:
    """The absolute path of a new file. Raises UsageError, with `prefix`, if the file exists."""
    path = os.path.abspath(os.path.expanduser(text))
    if os.path.exists(path):
        raise UsageError(f"{prefix}{path} already exists; name another file")
    return path


def write_new_file(path: str, text: str, prefix: str = "") -> None:
    """Write a new file that only the user can read; never overwrites one.

    Raises UsageError, with `prefix`.
    """
    try:
        with open(path, "x", encoding="utf-8", opener=private_opener) as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"{prefix}cannot write {path} ({error.strerror}); name another file") from None
