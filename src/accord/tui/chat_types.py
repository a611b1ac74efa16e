"""Light types shared by the session and its display: start options, drafts, the display interface.

Loaded before the first paint: keep Textual and the client out.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from accord.client import ClientEvent, ClientSession, RemoteAgent
    from accord.errors import AccordError
    from accord.frontend.agent_config import ConfiguredAgent
    from accord.frontend.agent_config.project_trust import TrustCallback
    from accord.policy.rules import PermissionDefault
    from accord.session import TurnEnded
    from accord.tui.parts.note_part import Tone
    from accord.wire.remote.address import RemoteLauncher


@dataclass(frozen=True, slots=True)
class KeyState:
    """Whether the coding agent has a model that it can use."""

    model: str = ""
    key: str = ""
    """Where the key comes from, and whether it works; empty if none is needed."""
    problem: str = ""
    """One line that says why no model answers."""


CheckKey: TypeAlias = Callable[[bool], KeyState]
"""Looks up the key of the coding agent's model; with True, also tests it with a request. Blocking."""
ChooseAgent: TypeAlias = "Callable[[str, str, TrustCallback], ConfiguredAgent]"
"""Finds an agent by its name for a folder. Runs in a thread; may raise UsageError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatStart:
    """The agent, folder and options of a new tab."""

    find_agent: "Callable[[TrustCallback], ConfiguredAgent]"
    """Finds the agent. Runs in a thread, may ask to trust a project's `acp.json`, may raise UsageError."""
    cwd: str
    remote: "RemoteLauncher | None" = None
    """How to reach the agent if it is remote."""
    name: str = ""
    """The name of the agent until it reports its own."""
    from_command: bool = False
    """Whether the agent is a command after `--`, which has no name in `acp.json`."""
    add_dir: tuple[str, ...] = ()
    permissions: "PermissionDefault | None" = None
    model: str | None = None
    mode: str | None = None
    settings: tuple[tuple[str, str], ...] = ()
    session: str | None = None
    """The id of the session to continue."""
    newest: bool = False
    model_script: bool = False
    """Whether the model is the scripted one, as in the tour."""
    """Continue the newest session of the folder."""


@dataclass(slots=True)
class Attachment:
    """A file or a command output that is sent with a prompt."""

    name: str
    """The label on the screen."""
    path: str = ""
    """An absolute path; empty if the attachment is `text`."""
    text: str = ""
    picture: bytes = field(default=b"", repr=False)
    """A picture from the clipboard."""


@dataclass(slots=True)
class Draft:
    """A prompt that is not sent yet."""

    text: str = ""
    attachments: list[Attachment] = field(default_factory=list[Attachment])
    pastes: dict[str, str] = field(default_factory=dict[str, str])
    """What the chips in the text stand for."""

    @property
    def full_text(self) -> str:
        """The text with what its chips stand for."""
        return expand_chips(self.text, self.pastes)

    def __bool__(self) -> bool:
        return bool(self.text.strip() or self.attachments)

    @property
    def line(self) -> str:
        """The text and the attachments on one line."""
        names = "".join(f" [{attachment.name}]" for attachment in self.attachments)
        return " ".join(self.text.split()) + names


def expand_chips(text: str, pastes: dict[str, str]) -> str:
    """Put pasted blocks in the place of their chips."""
    if not pastes:
        return text
    parts = re.split(f"({'|'.join(map(re.escape, pastes))})", text)
    return "".join(pastes.get(part, part) for part in parts)


class DraftQueue:
    """Prompts that wait for the running turn."""

    def __init__(self) -> None:
        self.drafts: list[Draft] = []
        self.paused: bool = False
        """Whether the queue is paused because the last turn was canceled or failed."""

    def __len__(self) -> int:
        return len(self.drafts)

    def add(self, draft: Draft) -> None:
        self.drafts.append(draft)

    def next(self) -> Draft | None:
        """Remove and return the first draft; None if there is none or the queue is paused."""
        return None if self.paused or not self.drafts else self.drafts.pop(0)

    def prepend(self, draft: Draft) -> None:
        """Put back a draft that could not be sent."""
        self.drafts.insert(0, draft)

    def remove(self, index: int) -> Draft | None:
        """Remove and return a draft; None if there is none."""
        return self.drafts.pop(index) if 0 <= index < len(self.drafts) else None


Phase: TypeAlias = Literal["connecting", "ready", "running", "cancelling", "lost", "dead", "failed", "closed"]
"""`lost`: the gateway is gone, and the client reconnects by itself."""


class SessionDisplay(Protocol):
    """Shows a `ChatSession`: the screen, or plain text. Called on the event loop."""

    def phase_changed(self, phase: Phase) -> None:
        """The phase has changed."""

    def opened(self, session: "ClientSession", agent: "RemoteAgent") -> None:
        """The session is open; its state contains its history."""

    def link_changed(self, lost: str) -> None:
        """The connection to the gateway was lost for this reason, or is back, with an empty text."""

    def event_received(self, event: "ClientEvent") -> None:
        """The session has produced an event."""

    def note(self, text: str, tone: "Tone" = "quiet", details: str = "") -> None:
        """Show a note to the user."""

    def failed(self, error: "AccordError", details: str) -> None:
        """The agent or the session could not be opened; `details` say what to do."""

    def turn_ended(self, ended: "TurnEnded | None", error: "AccordError | None") -> None:
        """A turn has ended or could not start; all its events have been shown."""

    def queue_changed(self) -> None:
        """The queue of prompts has changed."""
