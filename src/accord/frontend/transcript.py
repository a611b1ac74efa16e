"""One stored session: its list entry, its whole transcript, and the Markdown export."""

import difflib
import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias

from accord.errors import UsageError
from accord.frontend.display_text import words_of
from accord.frontend.recording import RecordedSession
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
from accord.store import iso_time

# MERGED client.stored.transcript: What is known of one stored session: its entry in a list, and the whole of it.

Source: TypeAlias = Literal["agent", "recorded"]
"""Who tells it: the agent itself, or the log that this client keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionListEntry:
    """A session as a list shows it. Its texts are the agent's own: clean them before they are shown."""

    agent: str
    """Under which its sessions are recorded."""
    session_id: str
    cwd: str
    title: str | None = None
    updated: str | None = None
    """As the protocol writes times."""
    additional_directories: tuple[str, ...] = ()
    archived: bool = False
    source: Source = "agent"
    recorded: RecordedSession | None = None
    """What this client has of it, whoever tells the rest."""

    @staticmethod
    def listed(agent: str, info: SessionInfo, recorded: RecordedSession | None) -> "SessionListEntry":
        """As the agent lists it. The folders are those it reports now, never older ones."""
        return SessionListEntry(
            agent=agent,
            session_id=info.session_id,
            cwd=info.cwd,
            title=info.title or None,
            updated=info.updated_at or None,
            additional_directories=tuple(info.additional_directories or ()),
            archived=bool(info.archived),
            recorded=recorded,
        )

    @staticmethod
    def noted(recorded: RecordedSession) -> "SessionListEntry":
        """As it was recorded here."""
        head = recorded.head
        return SessionListEntry(
            agent=recorded.agent,
            session_id=recorded.session_id,
            cwd=head.cwd,
            title=head.title,
            updated=iso_time(head.updated),
            additional_directories=head.additional_directories,
            source="recorded",
            recorded=recorded,
        )

    @property
    def when(self) -> str:
        """The time of the last change, for people: local, or what the agent wrote where that is no time."""
        return local_time(self.updated)

    @property
    def label(self) -> str:
        """The id, with the title where there is one; safe to show."""
        title = one_line(clean_line(self.title), 60) if self.title else ""
        return f"{one_line(self.session_id)} ({title})" if title else one_line(self.session_id)


@dataclass(frozen=True, slots=True)
class StoredTranscript:
    """A whole session."""

    entry: SessionListEntry
    state: SessionState
    source: Source

    @property
    def title(self) -> str | None:
        """What the session is called: in the list, or in what was said."""
        return self.entry.title or self.state.title


def local_time(text: str | None) -> str:
    """A time of the wire as a clock on the wall shows it."""
    if not text:
        return ""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return one_line(clean_line(text), 40)
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return time.astimezone().strftime("%Y-%m-%d %H:%M")


# MERGED client.stored.markdown: A transcript as Markdown: what was said, what was thought (folded), what was done with its diffs and output, and the plans.
#
# What an agent wrote stays Markdown, without terminal escapes. What it wrote as a title, a path or output is text, and is marked
# so that it cannot become anything else.

_SPECIAL: Final = re.compile(r"([\\`*_\[\]<>#|~])")
_RUNS: Final = re.compile(r"`+")
_CLOSING: Final = re.compile(r"<(/?(?:details|summary))", re.IGNORECASE)
_SIGNS: Final = {"pending": "○", "in_progress": "●", "completed": "✓", "failed": "✗", "cancelled": "⊘"}
_LONGEST_DIFF: Final = 20_000


def markdown(transcript: StoredTranscript, *, folded: bool = True) -> str:
    """The whole document. `folded` puts thoughts behind a summary; else they are quoted, which a terminal can show."""
    parts = [*_head(transcript), *_body(transcript, folded)]
    return "\n\n".join(part for part in parts if part) + "\n"


def conversation(transcript: StoredTranscript, *, folded: bool = True) -> str:
    """The same without its head."""
    return "\n\n".join(part for part in _body(transcript, folded) if part) + "\n"


def _head(transcript: StoredTranscript) -> Iterator[str]:
    entry, state = transcript.entry, transcript.state
    yield f"# {_plain(transcript.title or entry.session_id)}"
    facts = [
        ("Agent", _plain(entry.agent)),
        ("Session", _code(entry.session_id)),
        ("Folder", _code(entry.cwd)),
        *(("Also", _code(folder)) for folder in entry.additional_directories),
        ("Last used", _plain(local_time(entry.updated or state.updated_at))),
        ("From", "the agent" if transcript.source == "agent" else "what was recorded here"),
    ]
    yield "\n".join(f"- {name}: {value}" for name, value in facts if value)


def _body(transcript: StoredTranscript, folded: bool) -> Iterator[str]:
    speaker = ""
    for entry in transcript.state.timeline:
        said = "You" if isinstance(entry, Message) and entry.kind == "user" else "Agent"
        text = _entry(entry, folded)
        if text and said != speaker:
            speaker = said
            yield f"## {said}"
        yield text
    if not transcript.state.timeline:
        yield "*Nothing was said.*"
    if (error := transcript.state.error) is not None:
        yield f"*The last turn failed: {_plain(error.message)}*"


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
    inside = _CLOSING.sub(r"&lt;\1", text)
    return f"<details>\n<summary>Thought</summary>\n\n{inside}\n\n</details>"


def _blocks(blocks: Iterable[ContentBlock]) -> str:
    """Text runs on; everything else stands for itself."""
    parts: list[str] = []
    for block in blocks:
        if isinstance(block, TextContent):
            parts.append(clean_text(block.text))
        elif isinstance(block, EmbeddedResource) and isinstance(block.resource, TextResourceContents):
            resource = block.resource
            parts.append(f"\n\n{_code(resource.uri)}\n\n{_fenced(resource.text)}\n\n")
        else:
            parts.append(_plain(words_of(block)))
    return "".join(parts).strip()


def _tool_call(call: ToolCallState) -> Iterator[str]:
    status = "cancelled" if call.cancelled else call.status
    words = [] if call.display_kind == "other" else [_plain(call.display_kind)]
    if call.ended_without_result:
        words.append("ended without a result")
    elif status != "completed":
        words.append(_plain(status.replace("_", " ")))
    note = f" ({', '.join(words)})" if words else ""
    yield f"**{_SIGNS.get(status, '?')} {_plain(call.label)}**{note}"
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
    if len(before) + len(after) > _LONGEST_DIFF:
        return f"{_code(diff.path)}: {len(before)} lines before, {len(after)} after"
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
    """Text that is no Markdown, on one line."""
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
    """Output that came in a fence of its own, without it."""
    lines = text.strip().splitlines()
    if len(lines) >= 2 and lines[0].startswith("```") and lines[-1].strip() == "```":
        return "\n".join(lines[1:-1])
    return text


def _longest_run(text: str) -> int:
    return max((len(run) for run in _RUNS.findall(text)), default=0)


def _raw(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)


# MERGED client.stored.places: Where an export goes: a file that is not there yet. Nothing is ever written over.


def free_place(text: str, said: str = "") -> str:
    """The absolute path of a file that is not there. `said` begins the message. Raises UsageError."""
    place = os.path.abspath(os.path.expanduser(text))
    if os.path.exists(place):
        raise UsageError(f"{said}{place} is there already: name another file")
    return place


def write_new(place: str, text: str, said: str = "") -> None:
    """Write the file. Raises UsageError."""
    try:
        with open(place, "x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"{said}{place} cannot be written ({error.strerror}): name another file") from None
