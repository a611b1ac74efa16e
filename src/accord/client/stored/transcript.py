"""What is known of one stored session: its entry in a list, and the whole of it."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, TypeAlias

from accord.cleaning import clean_line, one_line
from accord.client.recording import RecordedSession
from accord.schema import SessionInfo
from accord.session import SessionState
from accord.store import iso_time

Source: TypeAlias = Literal["agent", "recorded"]
"""Who tells it: the agent itself, or the log that this client keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A session as a list shows it. Its texts are the agent's own: clean them before they are shown."""

    agent: str
    """Under which its sessions are recorded."""
    session_id: str
    cwd: str
    title: str | None = None
    updated: str | None = None
    """As the protocol writes times."""
    additional_directories: tuple[str, ...] = ()
    archived: bool = False
    source: Source = "agent"
    recorded: RecordedSession | None = None
    """What this client has of it, whoever tells the rest."""

    @staticmethod
    def listed(agent: str, info: SessionInfo, recorded: RecordedSession | None) -> "Entry":
        """As the agent lists it. The folders are those it reports now, never older ones."""
        return Entry(
            agent=agent,
            session_id=info.session_id,
            cwd=info.cwd,
            title=info.title or None,
            updated=info.updated_at or None,
            additional_directories=tuple(info.additional_directories or ()),
            archived=bool(info.archived),
            recorded=recorded,
        )

    @staticmethod
    def noted(recorded: RecordedSession) -> "Entry":
        """As it was recorded here."""
        head = recorded.head
        return Entry(
            agent=recorded.agent,
            session_id=recorded.session_id,
            cwd=head.cwd,
            title=head.title,
            updated=iso_time(head.updated),
            additional_directories=head.additional_directories,
            source="recorded",
            recorded=recorded,
        )

    @property
    def when(self) -> str:
        """The time of the last change, for people: local, or what the agent wrote where that is no time."""
        return local_time(self.updated)

    @property
    def label(self) -> str:
        """The id, with the title where there is one; safe to show."""
        title = one_line(clean_line(self.title), 60) if self.title else ""
        return f"{one_line(self.session_id)} ({title})" if title else one_line(self.session_id)


@dataclass(frozen=True, slots=True)
class Transcript:
    """A whole session."""

    entry: Entry
    state: SessionState
    source: Source

    @property
    def title(self) -> str | None:
        """What the session is called: in the list, or in what was said."""
        return self.entry.title or self.state.title


def local_time(text: str | None) -> str:
    """A time of the wire as a clock on the wall shows it."""
    if not text:
        return ""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return one_line(clean_line(text), 40)
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return time.astimezone().strftime("%Y-%m-%d %H:%M")
