"""Appends every decision as one line of JSON to a file outside of all projects.

A decision that cannot be written must not be carried out: `record` raises, and the caller refuses.
"""

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from accord.errors import AccordError, UsageError
from accord.paths import data_dir
from accord.policy.request import ActionRequest, Decision
from accord.policy.user_answer import UserAnswer
from accord.private_files import open_log, private_folder

_MAX_CHARS: Final = 4000


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
            "version": 1,
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
        try:
            private_folder(self.path.parent)
            descriptor = open_log(self.path)
            try:
                if os.write(descriptor, line) != len(line):
                    raise OSError("the disk is full")
            finally:
                os.close(descriptor)
        except OSError as error:
            raise AuditFailed(f"the decision could not be written to {self.path}: {error}") from None


def redacted(text: str) -> str:
    """Return the text without what looks like a password, key or token."""
    from accord.trace.secret_names import REDACTED
    from accord.trace.text_redaction import redact_script  # on first use: it compiles many patterns

    return redact_script(text[: 2 * _MAX_CHARS]).replace(REDACTED, "***")[:_MAX_CHARS]


def _redact_command(command: str | tuple[str, ...] | None) -> str | list[str] | None:
    if command is None or isinstance(command, str):
        return None if command is None else redacted(_encodable(command))
    from accord.trace.redaction import redact_command

    return list(map(redacted, redact_command(list(map(_encodable, command)))))


def _encodable(text: str) -> str:
    """Replace what cannot be encoded as UTF-8."""
    return text.encode(errors="backslashreplace").decode()
