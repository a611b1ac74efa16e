"""What a compacted history begins with: one note of the agent in parts, each of which can be found in it again.

The user's prompts, the plan, the files and the last words of the agent are put in by this code and never left to a
model. The note of an earlier compaction is taken apart and carried on.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from accord.coder.context.fence import fenced
from accord.coder.messages import (
    AssistantMessage,
    ImagePart,
    Message,
    TextPart,
    ToolResult,
    UserMessage,
    text_of,
    uses_of,
)
from accord.coder.output import capped
from accord.coder.tools.tool import one_line
from accord.schema.plans import PlanEntry

PREAMBLE: Final = (
    "The earlier part of this conversation was compacted, because it no longer fits. This stands in its place. The "
    "prompts are in the user's own words; the rest was put together from what was said and done."
)
CLOSING: Final = (
    "Go on from here without repeating what is done. If the latest prompt follows below, part of the work on it may be "
    "done already. What the files hold is not shown any more: read again what you need."
)
_SUMMARY: Final = "# Summary\n"
_PLAN: Final = "# Plan\n"
_FILES: Final = "# Files you read or changed, the latest last\n"
_FACTS: Final = "# Also\n"
_PROMPT: Final = "<prompt"
_SAID: Final = "<you-said"

_PROMPT_CHARS: Final = 3000
_SAID_CHARS: Final = 1500
_MOST_SAID: Final = 4
_MOST_READ: Final = 20
_MOST_CHANGED: Final = 40
_MOST_COMPLETED: Final = 20
_CHANGES: Final = ("edit_file", "write_file", "move_file")


class Memory(Struct, frozen=True, kw_only=True):
    """What is known of the part of a history that leaves."""

    prompts: Sequence[str] = ()
    """What the user asked, as parts of a note, the oldest first."""
    earlier: Sequence[str] = ()
    """Summaries of compactions before."""
    files: Sequence[str] = ()
    """Lines: what was done with a file, and its path."""
    said: Sequence[str] = ()
    """What the agent answered at the end of the last turns, and said last, as parts of a note: promises are made there."""


def is_memory(message: Message) -> bool:
    """Whether it is the note that a compaction left."""
    if not isinstance(message, UserMessage) or not message.note or not message.parts:
        return False
    first = message.parts[0]
    return isinstance(first, TextPart) and first.text == PREAMBLE


def remember(part: Sequence[Message]) -> Memory:
    """What must be kept of these messages."""
    prompts: list[str] = []
    earlier: list[str] = []
    files: dict[str, str] = {}
    said: list[str] = []
    passing = ""
    failed = {message.id for message in part if isinstance(message, ToolResult) and message.failed}
    for message in part:
        if is_memory(message):
            for text in (item.text for item in message.parts if isinstance(item, TextPart)):
                if text.startswith(_PROMPT):
                    prompts.append(text)
                elif text.startswith(_SUMMARY):
                    earlier.append(text.removeprefix(_SUMMARY))
                elif text.startswith(_SAID):
                    said.append(text)
                elif text.startswith(_FILES):
                    for line in text.removeprefix(_FILES).split("\n"):
                        done, _, path = line.removeprefix("- ").partition(": ")
                        _put(files, path, done)
        elif isinstance(message, UserMessage):
            if not message.note:
                prompts.append(fenced("prompt", capped(_told(message), _PROMPT_CHARS)))
        elif isinstance(message, AssistantMessage):
            _note_files(files, message, failed)
            if words := text_of(message).strip():
                passing = fenced("you-said", capped(words, _SAID_CHARS))
                if not uses_of(message):
                    said.append(passing)
                    passing = ""
    said += [passing] if passing else []
    return Memory(prompts=prompts, earlier=earlier, files=_file_lines(files), said=said[-_MOST_SAID:])


def note_of(
    memory: Memory, summary: str, plan: Sequence[PlanEntry], facts: Sequence[str], prompt_chars: int
) -> UserMessage:
    """The note. Of the prompts the first and the latest are kept, `prompt_chars` in all."""
    texts = [PREAMBLE, *_prompts(memory.prompts, prompt_chars)]
    if summary.strip():
        texts.append(_SUMMARY + summary.strip())
    texts += memory.said
    if plan:
        texts.append(_PLAN + "\n".join(_plan(plan)))
    if memory.files:
        texts.append(_FILES + "\n".join(memory.files))
    if kept := [fact for fact in facts if fact.strip()]:
        texts.append(_FACTS + "\n".join(f"- {fact.strip()}" for fact in kept))
    return UserMessage(tuple(map(TextPart, (*texts, CLOSING))), note=True)


def _prompts(prompts: Sequence[str], most: int) -> list[str]:
    if not prompts:
        return []
    first, *others = prompts
    room = most - len(first)
    if room < 0:
        return [] if most <= 0 else [first] if not others else _prompts(others[-1:], most)
    kept: list[str] = []
    for text in reversed(others):
        room -= len(text)
        if room < 0:
            break
        kept.append(text)
    left = len(others) - len(kept)
    gap = [f"({left} prompts from between are told only by the summary.)"] if left else []
    return [first, *gap, *reversed(kept)]


def _plan(plan: Sequence[PlanEntry]) -> list[str]:
    completed = [entry for entry in plan if entry.status == "completed"]
    hidden = {id(entry) for entry in completed[:-_MOST_COMPLETED]}
    lines = [f"({len(hidden)} steps before are completed)"] if hidden else []
    return lines + [f"- {entry.status}: {entry.content}" for entry in plan if id(entry) not in hidden]


def _note_files(files: dict[str, str], message: AssistantMessage, failed: set[str]) -> None:
    for use in uses_of(message):
        if use.id in failed or not isinstance(use.arguments, dict):
            continue
        path = use.arguments.get("destination") if use.name == "move_file" else use.arguments.get("path")
        if not isinstance(path, str) or not path.strip():
            continue
        if use.name == "delete_file":
            files.pop(one_line(path, 300), None)
        elif use.name in _CHANGES:
            _put(files, path, "changed")
        elif use.name == "read_file":
            _put(files, path, "changed" if files.get(one_line(path, 300)) == "changed" else "read")


def _file_lines(files: dict[str, str]) -> list[str]:
    """The latest of both sorts, in their order; what was changed is not pushed out by what was only read."""
    changed = [path for path, done in files.items() if done == "changed"][-_MOST_CHANGED:]
    read = [path for path, done in files.items() if done != "changed"][-_MOST_READ:]
    kept = {*changed, *read}
    return [f"- {done}: {path}" for path, done in files.items() if path in kept]


def _put(files: dict[str, str], path: str, done: str) -> None:
    name = one_line(path, 300)
    files.pop(name, None)  # to the end: the latest stands last
    files[name] = done


def _told(message: UserMessage) -> str:
    return "\n".join(
        f"[image: {part.mime_type}]" if isinstance(part, ImagePart) else part.text for part in message.parts
    )
