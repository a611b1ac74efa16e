"""The state of the model agent: sessions, in a store that outlives one process."""

import asyncio
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

Message = dict[str, Any]


@dataclass
class Session:
    id: str
    cwd: str
    roots: list[str] = field(default_factory=list)
    history: list[Message] = field(default_factory=list)
    mode: str = "ask"
    values: dict[str, Any] = field(
        default_factory=lambda: {"mode": "ask", "model": "small", "level": "low", "fast": True}
    )
    always_allowed: bool = False
    word: str = "none"
    title: str = ""
    archived: bool = False
    system: str = ""
    open: bool = True
    acp: str = ""
    permission_pending: bool = False
    prompts: int = 0
    turn: "asyncio.Task[Any] | None" = None


@dataclass
class Store:
    """The sessions of one home folder."""

    sessions: dict[str, Session] = field(default_factory=dict)
    list_calls: int = 0

    def add(self, session: Session) -> None:
        self.sessions[session.id] = session


def absolute(path: Any) -> bool:
    return isinstance(path, str) and PurePosixPath(path).is_absolute()


MODES = ("ask", "code")


def modes(session: Session) -> Message:
    return {
        "currentModeId": session.mode,
        "availableModes": [{"id": mode, "name": mode.title()} for mode in MODES],
    }


def options(session: Session, *, boolean: bool) -> list[Message]:
    values = session.values
    mode = [{"value": value, "name": value} for value in MODES]
    models = [{"value": value, "name": value} for value in ("small", "large")]
    levels = [{"group": "all", "name": "All", "options": [{"value": v, "name": v} for v in ("low", "high")]}]
    found: list[Message] = [
        {
            "type": "select",
            "id": "model",
            "name": "Model",
            "currentValue": values["model"],
            "options": models,
        },
        {
            "type": "select",
            "id": "mode",
            "name": "Mode",
            "category": "mode",
            "currentValue": session.mode,
            "options": mode,
        },
        {
            "type": "select",
            "id": "level",
            "name": "Level",
            "currentValue": values["level"],
            "options": levels,
        },
    ]
    if boolean:
        found.append({"type": "boolean", "id": "fast", "name": "Fast", "currentValue": values["fast"]})
    return found
