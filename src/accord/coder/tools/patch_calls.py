"""Calls of `apply_patch`, a tool of other agents, as calls of our own tools: one or two for each file.

Every file then has its own permission question with its own diff, and rules for our tools hold.
"""

import re
from typing import Any, Final, cast

from accord.coder.files.patch_text import PATCH_START, parse_patch
from accord.coder.model_history import ToolUse
from accord.coder.tools.bash import line_of_words

_PROGRAMS: Final = ("apply_patch", "applypatch")
_PATCH_MEMBERS: Final = ("input", "patch", "patch_text", "patchText", "diff")
_HERE_DOCUMENT: Final = re.compile(
    r"\s*apply_?patch\s*<<-?\s*(?P<quote>['\"]?)(?P<word>\w+)(?P=quote)\n(?P<patch>.*)\n(?P=word)\s*",
    re.DOTALL,
)


def patch_of(use: ToolUse, tool: str | None) -> str | None:
    """Return the patch of a call; None for other calls. `tool` is our tool that the call means."""
    arguments = use.arguments
    if isinstance(arguments, str):
        is_patch = tool == "edit_file" and arguments.lstrip().startswith(PATCH_START)
        return arguments if is_patch else None
    if tool == "edit_file":
        texts = [arguments.get(name) for name in _PATCH_MEMBERS]
        return next((text for text in texts if isinstance(text, str) and PATCH_START in text), None)
    if tool == "bash":
        return _patch_of_command(arguments.get("command", arguments.get("cmd")))
    return None


def _patch_of_command(command: Any) -> str | None:
    """Return the patch that a command passes to `apply_patch`: as its argument, or in a here-document."""
    if isinstance(command, list):
        words = cast(list[Any], command)
        if len(words) == 2 and words[0] in _PROGRAMS and isinstance(words[1], str):
            return words[1]
        command = line_of_words(words)
    found = _HERE_DOCUMENT.fullmatch(command) if isinstance(command, str) else None
    return found["patch"] if found else None


def calls_of_patch(patch: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the calls that a patch stands for, in order: the name of the tool and its arguments.

    Raises BadPatch.
    """
    calls: list[tuple[str, dict[str, Any]]] = []
    for file in parse_patch(patch):
        if file.action == "Add":
            calls.append(("write_file", {"path": file.path, "content": file.body}))
        elif file.action == "Delete":
            calls.append(("delete_file", {"path": file.path}))
        else:
            if file.body.strip():
                calls.append(("edit_file", {"path": file.path, "patch": file.body}))
            if file.new_path is not None:
                calls.append(("move_file", {"source": file.path, "destination": file.new_path}))
    return calls
