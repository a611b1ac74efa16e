"""Appends every decision as one line of JSON to a file outside of all projects.

A decision that cannot be written must not be carried out: `record` raises, and the caller refuses.
"""

import os
import re
import stat
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from accord.errors import AccordError, UsageError
from accord.paths import data_dir, private_folder
from accord.policy.request import ActionRequest, Decision
from accord.policy.user_answer import UserAnswer

_MAX_CHARS: Final = 4000
_VALUE: Final = r"""("[^"]*"|'[^']*'|[^\s"'@&;|]+)"""
# `NAME=value` and `Name: Bearer value`, and `--name value`: after a blank, only an option has a value.
_NAME_AND_VALUE: Final = re.compile(
    rf"(?<![\w-])([\w-]{{1,80}}\s*[=:]\s*(?:(?:bearer|basic|token)\s+)?){_VALUE}", re.IGNORECASE
)
_OPTION_AND_VALUE: Final = re.compile(rf"(?<!\S)(--?[A-Za-z][\w-]{{1,80}}\s+){_VALUE}")
_SECRET_NAME: Final = re.compile(
    r"KEY(?!word|board|frame|map|stroke)|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|AUTHORIZATION"
    r"|^-*(?:auth|pass)\b",
    re.IGNORECASE,
)
_URL_PASSWORD: Final = re.compile(r"(://[^\s:/@]{1,200}:)[^\s/@]{1,200}@")
_KNOWN_KEYS: Final = re.compile(
    r"\b(?:sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|xox[abprs]-[\w-]{10,}"
    r"|AKIA[A-Z0-9]{16}|AIza[\w-]{30,}"
    r"|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*|glpat-[\w-]{16,}|hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,}"
    r"|acc_[a-z0-9]{8}_[\w-]{40,})"
)


class AuditFailed(AccordError):
    """A decision could not be written."""


class DecisionLog:
    """The file of decisions. Several processes may append to it at the same time."""

    def __init__(self, path: Path | None = None) -> None:
        self.path: Path = data_dir() / "decisions.jsonl" if path is None else path

    def record(
        self,
        request: ActionRequest,
        decision: Decision,
        answer: UserAnswer | None = None,
        *,
        session: str = "",
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        """Append one decision, with the user's answer if there is one. Raises AuditFailed."""
        real, directories = Path(os.path.realpath(self.path)), request.directories
        # A session in the home folder has Accord's own folder in a root. Access to that folder always needs
        # permission.
        in_accord_folder = any(real.is_relative_to(folder) for folder in directories.accord_folders)
        if not in_accord_folder and any(real.is_relative_to(root) for root in directories.roots):
            raise UsageError(f"the audit {self.path} lies inside the session's folders; keep it outside")
        entry = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "session": session,
            "tool": request.tool,
            "kind": request.kind,
            "category": request.category,
            "mode": request.mode,
            "cwd": str(request.directories.cwd),
            "paths": [str(path) for path in request.paths] or None,
            "command": _redact_command(request.command),
            "url": redacted(request.url) if request.url else None,
            "sandboxed": request.sandboxed or None,
            "effect": decision.effect,
            "rule": decision.rule,
            "reason": redacted(decision.reason),
            "answer": None if answer is None else answer.kind or "no",
            **(extra or {}),
        }
        self._append({name: value for name, value in entry.items() if value not in (None, "")})

    def _append(self, entry: dict[str, Any]) -> None:
        line = msgspec.json.encode(entry) + b"\n"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
        try:
            private_folder(self.path.parent)
            descriptor = os.open(self.path, flags, 0o600)
            try:
                if stat.S_IMODE(os.fstat(descriptor).st_mode) & 0o077:
                    os.fchmod(descriptor, 0o600)
                if os.write(descriptor, line) != len(line):
                    raise OSError("the disk is full")
            finally:
                os.close(descriptor)
        except OSError as error:
            raise AuditFailed(f"the decision could not be written to {self.path}: {error}") from None


def redacted(text: str) -> str:
    """Return the text without what looks like a password, key or token."""
    masked = _URL_PASSWORD.sub(r"\1***@", text[: 2 * _MAX_CHARS])
    for pattern in (_NAME_AND_VALUE, _OPTION_AND_VALUE):
        masked = pattern.sub(_mask_secret, masked)
    return _KNOWN_KEYS.sub("***", masked)[:_MAX_CHARS]


def _mask_secret(match: "re.Match[str]") -> str:
    return f"{match[1]}***" if _SECRET_NAME.search(match[1]) else match[0]


def _redact_command(command: str | tuple[str, ...] | None) -> str | list[str] | None:
    if command is None or isinstance(command, str):
        return None if command is None else redacted(_encodable(command))
    return [redacted(_encodable(word)) for word in command]


def _encodable(text: str) -> str:
    """Replace what cannot be encoded as UTF-8."""
    return text.encode(errors="backslashreplace").decode()
