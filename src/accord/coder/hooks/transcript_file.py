"""The messages of a session as JSON lines in the form of Claude Code: the `transcript_path` of hooks."""

import json
import re
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

from accord.coder.hooks.hook_config import TOOL_NAMES
from accord.coder.model_history import (
    AssistantMessage,
    ImagePart,
    Message,
    Part,
    TextPart,
    ThoughtPart,
    ToolResult,
    ToolUse,
)
from accord.paths import data_dir
from accord.private_files import open_log, private_folder

_KEPT_SECONDS: Final = 7 * 24 * 3600.0
"""How long a file stays whose agent was killed before it could remove it."""

ToolInput: TypeAlias = Callable[[str, Mapping[str, Any]], dict[str, Any]]
"""The arguments of a tool with the names that hooks expect."""


class TranscriptFile:
    """A file that only its owner can read. It is updated before hooks run, and ends with the session."""

    def __init__(self, session_id: str, cwd: str, tool_input: ToolInput) -> None:
        self._session_id = session_id
        self._cwd = cwd
        self._tool_input = tool_input
        self._path: Path | None = None
        self._written: Sequence[Message] = ()
        self._last_id: str | None = None
        self._lock = threading.Lock()

    def write(self, messages: Sequence[Message]) -> str:
        """Add the new messages and return the path. Raises OSError. Call it in a thread."""
        with self._lock:
            path = self._path or self._create()
            known = len(self._written)
            if list(messages[:known]) != list(self._written) or not path.exists():
                path.unlink(missing_ok=True)  # the history was compacted or rewound
                self._last_id, known = None, 0
            text = "".join(self._line(message) for message in messages[known:])
            with open(open_log(path), "a", encoding="ascii") as file:
                file.write(text)
            self._written = messages
            return str(path)

    def remove(self) -> None:
        """Remove the file, if there is one."""
        if self._path is not None:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)

    def _create(self) -> Path:
        folder = private_folder(data_dir() / "transcripts")
        for left in folder.glob("*.jsonl"):
            with suppress(OSError):
                if time.time() - left.stat().st_mtime > _KEPT_SECONDS:
                    left.unlink()
        self._path = folder / f"{re.sub(r'[^A-Za-z0-9-]', '_', self._session_id)[:100]}.jsonl"
        self._path.unlink(missing_ok=True)
        return self._path

    def _line(self, message: Message) -> str:
        parent, self._last_id = self._last_id, str(uuid.uuid4())
        members = {
            "type": "assistant" if isinstance(message, AssistantMessage) else "user",
            "message": self._message(message),
            "uuid": self._last_id,
            "parentUuid": parent,
            "sessionId": self._session_id,
            "cwd": self._cwd,
            "isSidechain": False,
            "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        }
        return json.dumps(members) + "\n"

    def _message(self, message: Message) -> dict[str, Any]:
        if isinstance(message, AssistantMessage):
            return {"role": "assistant", "content": [self._answer_block(part) for part in message.parts]}
        blocks = [_block(part) for part in message.parts]
        if isinstance(message, ToolResult):
            blocks = [
                {
                    "type": "tool_result",
                    "tool_use_id": message.id,
                    "content": blocks,
                    "is_error": message.failed,
                }
            ]
        return {"role": "user", "content": blocks}

    def _answer_block(self, part: TextPart | ThoughtPart | ToolUse) -> dict[str, Any]:
        if isinstance(part, ToolUse):
            arguments = part.arguments if isinstance(part.arguments, dict) else {"arguments": part.arguments}
            name = TOOL_NAMES.get(part.name, part.name)
            return {
                "type": "tool_use",
                "id": part.id,
                "name": name,
                "input": self._tool_input(part.name, arguments),
            }
        if isinstance(part, ThoughtPart):
            return {"type": "thinking", "thinking": part.text}
        return {"type": "text", "text": part.text}


def _block(part: Part) -> dict[str, Any]:
    if isinstance(part, ImagePart):
        return {"type": "text", "text": f"[image: {part.mime_type}, {len(part.data):,} bytes]"}
    return {"type": "text", "text": part.text}
