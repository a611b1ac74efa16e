"""The text of the prompt: from the arguments, a file, or stdin."""

import sys
from typing import Final

from accord.cli.running.arguments import Arguments
from accord.errors import UsageError

_LARGEST: Final = 16 * 1024 * 1024
_STDIN: Final = "-"


def prompt_text(given: Arguments) -> str:
    """The whole text. Stdin is read where `-` stands for it, or where nothing else is given and it is no terminal."""
    words: list[str] = []
    parts: list[str] = []
    from_stdin = False
    for word in given.words:
        if word != _STDIN:
            words.append(word)
            continue
        if from_stdin or given.file == _STDIN:
            raise UsageError("stdin can be read only once: write - once")
        from_stdin = True
        parts += [" ".join(words), _stdin()]
        words = []
    parts.append(" ".join(words))
    if given.file is not None:
        parts.append(_stdin() if given.file == _STDIN else _read(given.file))
    elif not given.words and not _is_terminal():
        parts.append(_stdin())
    text = "\n\n".join(part.strip("\n") for part in parts if part.strip())
    if not text:
        raise UsageError(
            'there is no prompt: accord run "what to do", or --file F, or something on stdin'
            if not (given.words or given.file) and _is_terminal()
            else "the prompt is empty"
        )
    return text


def _is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def _stdin() -> str:
    if sys.stdin is None:
        return ""
    return _text(sys.stdin.buffer.read(_LARGEST + 1), "stdin")


def _read(path: str) -> str:
    import os

    try:
        with open(os.path.expanduser(path), "rb") as file:
            return _text(file.read(_LARGEST + 1), f"--file {path!r}")
    except OSError as error:
        raise UsageError(f"--file {path!r} cannot be read: {error.strerror}") from None


def _text(data: bytes, place: str) -> str:
    if len(data) > _LARGEST:
        raise UsageError(f"{place} has more than {_LARGEST // 1024 // 1024} MiB: that is no prompt")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise UsageError(f"{place} is no text in UTF-8; --attach takes other files") from None
