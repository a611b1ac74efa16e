"""What the user is about to say: text, the files that go with it, and what a command of theirs printed."""

from dataclasses import dataclass, field


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
