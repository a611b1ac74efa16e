"""Light types shared by the session and its display: start options, drafts, the display interface.

Loaded before the first paint: keep Textual and the client out.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from accord.client import ClientEvent, ClientSession, RemoteAgent
    from accord.errors import AccordError
    from accord.frontend.agent_config import ConfiguredAgent
    from accord.frontend.agent_config.project_trust import Trusting
    from accord.policy.rules import PermissionDefault
    from accord.session import TurnEnded
    from accord.tui.parts.markdown_part import Tone
    from accord.wire.remote.address import RemoteLauncher


# MERGED tui.start: What a session on the screen begins with. Light: it is read before anything of the client is imported.

Choose: TypeAlias = "Callable[[str, str, Trusting], ConfiguredAgent]"
"""Finds an agent by its name, for work in a folder. For a thread; may raise UsageError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatStart:
    """Which agent, where, and what is set."""

    find: "Callable[[Trusting], ConfiguredAgent]"
    """Finds the agent; runs in a thread, may ask whether a project's file counts, and may raise UsageError."""
    cwd: str
    remote: "RemoteLauncher | None" = None
    """Where the agent is, if it is not started here."""
    name: str = ""
    """What to call the agent until it has said so itself."""
    add_dir: tuple[str, ...] = ()
    permissions: "PermissionDefault | None" = None
    model: str | None = None
    mode: str | None = None
    settings: tuple[tuple[str, str], ...] = ()
    session: str | None = None
    """The session to take up."""
    newest: bool = False
    """Take up the newest of the folder."""


# MERGED tui.draft: What the user is about to say: text, the files that go with it, and what a command of theirs printed.


@dataclass(slots=True)
class Attachment:
    """Something that goes with a prompt."""

    name: str
    """What it is called on the screen."""
    path: str = ""
    """An absolute path; empty where `text` is what goes along."""
    text: str = ""


@dataclass(slots=True)
class Draft:
    """A prompt that has not gone out yet."""

    text: str = ""
    attachments: list[Attachment] = field(default_factory=list[Attachment])

    def __bool__(self) -> bool:
        return bool(self.text.strip() or self.attachments)

    @property
    def line(self) -> str:
        """All of it on one line."""
        names = "".join(f" [{attachment.name}]" for attachment in self.attachments)
        return " ".join(self.text.split()) + names


class DraftQueue:
    """Prompts that wait for their turn."""

    def __init__(self) -> None:
        self.drafts: list[Draft] = []
        self.held = False
        """Whether they wait for a word of the user, because the last turn was cancelled or failed."""

    def __len__(self) -> int:
        return len(self.drafts)

    def add(self, draft: Draft) -> None:
        """Put one behind the others."""
        self.drafts.append(draft)

    def next(self) -> Draft | None:
        """Take the first one, unless all are held back."""
        return None if self.held or not self.drafts else self.drafts.pop(0)

    def put_back(self, draft: Draft) -> None:
        """It could not go out: it is the first again."""
        self.drafts.insert(0, draft)

    def take(self, index: int) -> Draft | None:
        """Take one out."""
        return self.drafts.pop(index) if 0 <= index < len(self.drafts) else None


# MERGED tui.stage: The contract between a conversation and where it is shown: a screen, or paper.

Phase: TypeAlias = Literal["connecting", "ready", "running", "cancelling", "dead", "failed", "closed"]


class SessionDisplay(Protocol):
    """Where the conversation is shown. Called on the event loop."""

    def phase_changed(self, phase: Phase) -> None:
        """Something else goes on now."""
        ...

    def opened(self, session: "ClientSession", agent: "RemoteAgent") -> None:
        """The session is there, its history in its state."""
        ...

    def happened(self, event: "ClientEvent") -> None:
        """An event of the session."""
        ...

    def note(self, text: str, tone: "Tone" = "quiet", details: str = "") -> None:
        """Tell the user something."""
        ...

    def failed(self, error: "AccordError", details: str) -> None:
        """It could not be connected, or its session not opened; `details` say what to do."""
        ...

    def turn_over(self, ended: "TurnEnded | None", error: "AccordError | None") -> None:
        """A turn is over, or could not begin; all its events have been shown."""
        ...

    def queue_changed(self) -> None:
        """A prompt left the queue, or returned to it."""
        ...
