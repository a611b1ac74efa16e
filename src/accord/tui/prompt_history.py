"""Earlier prompts of a folder, in a file.

Loaded before the first paint: keep the client out.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Final

from accord.errors import BadSettings
from accord.file_format import FileFormat
from accord.paths import data_dir
from accord.private_files import private_file, private_folder

MAX_PROMPTS: Final = 500
_MAX_PROMPT: Final = 20_000
_MAX_FILE_BYTES: Final = 4 * 1024 * 1024
_FORMAT: Final = FileFormat()
_FIRST_LINE: Final = json.dumps({"version": _FORMAT.version}) + "\n"


class PromptHistory:
    """Earlier prompts of a folder, stored in a file. The current text comes after the latest.

    The first line of the file has its version. A file of a newer Accord is neither read nor changed.
    """

    def __init__(self, cwd: str) -> None:
        key = hashlib.sha256(os.path.realpath(cwd).encode("utf-8", "surrogateescape")).hexdigest()[:24]
        self._path = data_dir() / "prompts" / f"{key}.jsonl"
        self._texts: list[str] | None = None
        self._index = 0
        self._draft = ""

    @property
    def texts(self) -> list[str]:
        """All prompts, oldest first."""
        if self._texts is None:
            self._texts = _read(self._path)
            self._index = len(self._texts)
        return self._texts

    @property
    def browsing(self) -> bool:
        """Whether an earlier prompt is shown."""
        return self._index < len(self.texts)

    def add(self, text: str) -> None:
        """Add a sent prompt."""
        texts = self.texts
        if text.strip() and len(text) <= _MAX_PROMPT and (not texts or texts[-1] != text):
            texts.append(text)
            self._write(text)
        del texts[:-MAX_PROMPTS]
        self.reset()

    def reset(self) -> None:
        """Return to the current text."""
        self._index = len(self.texts)
        self._draft = ""

    def older(self, current: str) -> str | None:
        """Return the previous prompt; None at the start."""
        texts = self.texts
        if self._index == 0 or not texts:
            return None
        if self._index == len(texts):
            self._draft = current
        self._index -= 1
        return texts[self._index]

    def newer(self) -> str | None:
        """Return the next prompt, finally the current text; None at the end."""
        texts = self.texts
        if self._index >= len(texts):
            return None
        self._index += 1
        return self._draft if self._index == len(texts) else texts[self._index]

    def _write(self, text: str) -> None:
        try:
            private_folder(self._path.parent)
            private_file(self._path)
            size = self._path.stat().st_size
            if _is_newer(self._path):
                return
            if size > _MAX_FILE_BYTES:
                recent = "".join(json.dumps(prompt) + "\n" for prompt in self.texts[-MAX_PROMPTS // 2 :])
                self._path.write_text(_FIRST_LINE + recent, encoding="utf-8")
                return
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(("" if size else _FIRST_LINE) + json.dumps(text) + "\n")
        except OSError:
            pass  # the history is optional


def _is_newer(path: Path) -> bool:
    """Whether a newer Accord wrote the file. A file without a version has version 1."""
    with path.open("rb") as file:
        first = file.readline(_MAX_PROMPT)
    try:
        _FORMAT.upgrade(json.loads(first) if first.startswith(b"{") else {}, path)
    except (ValueError, BadSettings) as error:
        return isinstance(error, BadSettings)
    return False


def _read(path: Path) -> list[str]:
    texts: list[str] = []
    try:
        if path.stat().st_size > _MAX_FILE_BYTES * 2 or _is_newer(path):
            return []
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines()[-MAX_PROMPTS:]:
            try:
                text = json.loads(line)
            except ValueError:
                continue
            if isinstance(text, str):
                texts.append(text)
    except OSError:
        pass
    return texts
