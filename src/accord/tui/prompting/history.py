"""What was said before in this folder, to be said again: kept in a file of the user's own, the latest last."""

import hashlib
import json
import os
from pathlib import Path
from typing import Final

from accord.paths import data_dir, private_file, private_folder

KEPT: Final = 500
_LONGEST: Final = 20_000
_LARGEST_FILE: Final = 4 * 1024 * 1024


class PromptHistory:
    """Walk back and forth; the text that was being written is at its end."""

    def __init__(self, cwd: str) -> None:
        key = hashlib.sha256(os.path.realpath(cwd).encode("utf-8", "surrogateescape")).hexdigest()[:24]
        self._path = data_dir() / "prompts" / f"{key}.jsonl"
        self._texts: list[str] | None = None
        self._at = 0
        self._draft = ""

    @property
    def texts(self) -> list[str]:
        """The oldest first."""
        if self._texts is None:
            self._texts = _read(self._path)
            self._at = len(self._texts)
        return self._texts

    @property
    def walking(self) -> bool:
        """Whether an earlier text is shown."""
        return self._at < len(self.texts)

    def add(self, text: str) -> None:
        """It was said."""
        texts = self.texts
        if text.strip() and len(text) <= _LONGEST and (not texts or texts[-1] != text):
            texts.append(text)
            self._write(text)
        del texts[:-KEPT]
        self.rest()

    def rest(self) -> None:
        """Go back to the end."""
        self._at = len(self.texts)
        self._draft = ""

    def older(self, current: str) -> str | None:
        """The text before the one that is shown; None at the beginning."""
        texts = self.texts
        if self._at == 0 or not texts:
            return None
        if self._at == len(texts):
            self._draft = current
        self._at -= 1
        return texts[self._at]

    def newer(self) -> str | None:
        """The text behind it, at last what was being written; None at the end."""
        texts = self.texts
        if self._at >= len(texts):
            return None
        self._at += 1
        return self._draft if self._at == len(texts) else texts[self._at]

    def _write(self, text: str) -> None:
        try:
            private_folder(self._path.parent)
            private_file(self._path)
            if self._path.stat().st_size > _LARGEST_FILE:
                kept = "".join(json.dumps(one) + "\n" for one in self.texts[-KEPT // 2 :])
                self._path.write_text(kept, encoding="utf-8")
                return
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(json.dumps(text) + "\n")
        except OSError:
            pass  # that it is not remembered costs nothing today


def _read(path: Path) -> list[str]:
    texts: list[str] = []
    try:
        if path.stat().st_size > _LARGEST_FILE * 2:
            return []
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines()[-KEPT:]:
            try:
                text = json.loads(line)
            except ValueError:
                continue
            if isinstance(text, str):
                texts.append(text)
    except OSError:
        pass
    return texts
