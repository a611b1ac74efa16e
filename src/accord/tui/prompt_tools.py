"""Tools for the prompt: search earlier prompts, edit in the user's editor.

Imported on first use.
"""

import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from accord.errors import UsageError
from accord.text_width import count_text
from accord.tui.list_screen import ListRow, ListScreen

if TYPE_CHECKING:
    from accord.tui.chat_app import ChatApp
    from accord.tui.prompt_box import PromptBox
    from accord.tui.session_view import SessionView

_FALLBACK_EDITORS: Final = ("nano", "vi", "notepad.exe")
_MAX_BYTES: Final = 4 * 1024 * 1024


def search_history(app: "ChatApp", prompt: "PromptBox") -> None:
    """List the earlier prompts of the folder, the latest first; the chosen one goes into the prompt."""
    texts = list(dict.fromkeys(reversed(prompt.history.texts)))
    if not texts:
        app.notify("No earlier prompts in this folder")
        return
    rows = [ListRow(text, " ".join(text.split()), right=_size(text)) for text in texts]

    def use(text: Any) -> None:
        if text is not None:
            prompt.editor.write(text)
        prompt.editor.focus()

    screen = ListScreen("Earlier prompts", rows, placeholder="Words of the prompt")
    screen.filter_input.value = prompt.editor.text.strip() if "\n" not in prompt.editor.text else ""
    app.push_screen(screen, use)


def _size(text: str) -> str:
    lines = len(text.splitlines())
    return count_text(lines, "line") if lines > 1 else ""


def editor_command() -> list[str]:
    """The user's editor. Raises UsageError if there is none."""
    words = shlex.split(os.environ.get("VISUAL", "") or os.environ.get("EDITOR", ""))
    if words:
        return words
    found = next((path for path in map(shutil.which, _FALLBACK_EDITORS) if path is not None), None)
    if found is None:
        raise UsageError("no editor found; set EDITOR to the command of yours")
    return [found]


def edit_in_editor(view: "SessionView", prompt: "PromptBox") -> None:
    """Let the user edit the prompt in another program, while the screen is hidden."""
    try:
        command = editor_command()
        with tempfile.TemporaryDirectory(prefix="accord-prompt-") as folder:
            file = Path(folder, "prompt.md")
            file.write_text(prompt.draft.full_text, encoding="utf-8")
            code = view.run_without_screen(lambda: subprocess.call([*command, str(file)]))
            text = file.read_bytes()[:_MAX_BYTES].decode(errors="replace")
    except (OSError, ValueError, UsageError) as error:
        view.notify(f"cannot edit the prompt: {error}", severity="error")
        return
    if code:
        view.notify(f"{command[0]} ended with exit code {code}; the prompt is unchanged", severity="warning")
        return
    prompt.unfold_chips()
    prompt.editor.write(text.rstrip("\n"))
    prompt.editor.focus()
