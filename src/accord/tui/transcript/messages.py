"""Messages in the conversation: what the user said, what the agent says, what it thinks, and what was summed up."""

from accord.client.words import seconds, words_of
from accord.schema import TextContent
from accord.session import CompactionState, Message
from accord.session.content import Body
from accord.tui.parts.note import NotePart
from accord.tui.parts.prose import Prose
from accord.tui.parts.said import PromptPart, ThoughtPart
from accord.tui.transcript.item import Item, Surroundings


def said(body: Body) -> str:
    """All of it in words; pictures and files are named."""
    blocks = body.blocks
    if all(type(block) is TextContent for block in blocks):
        return body.text
    return "\n".join([words_of(block) for block in blocks])


class SaidItem(Item):
    """A message that is one part, which can be folded."""

    def __init__(self, message: Message, part: PromptPart | ThoughtPart) -> None:
        super().__init__()
        self._message = message
        self._part = part
        self.parts = [part]
        self.refresh()

    def refresh(self) -> bool:
        text = said(self._message)
        if text == self._part.text:
            return False
        self._part.text = text
        self._part.forget()
        return True

    def toggle(self) -> bool:
        self._part.folded = not self._part.folded
        self._part.forget()
        return True

    @property
    def text(self) -> str:
        return self._part.text


class PromptItem(SaidItem):
    """What the user said."""

    def __init__(self, message: Message) -> None:
        super().__init__(message, PromptPart(""))


class AnswerItem(Item):
    """What the agent says: it grows at its end."""

    def __init__(self, message: Message) -> None:
        super().__init__()
        self._message = message
        self._prose = Prose()
        self._said = ""
        self.refresh()

    def refresh(self) -> bool:
        self._said = said(self._message)
        changed = self._prose.show(self._said)
        self.parts = self._prose.parts
        return changed

    @property
    def text(self) -> str:
        return self._said


class ThoughtItem(SaidItem):
    """What the agent thinks: one line until somebody wants to read it."""

    def __init__(self, message: Message, around: Surroundings) -> None:
        self._thought = ThoughtPart()
        self._thought.going_on = around.live
        self._around = around
        self._began = around.clock.now()
        super().__init__(message, self._thought)

    def over(self) -> None:
        """Something else has begun."""
        thought = self._thought
        if thought.going_on:
            thought.going_on = False
            thought.took = seconds(self._around.clock.now() - self._began)
            thought.forget()


class CompactionItem(Item):
    """The agent shortened its context."""

    def __init__(self, compaction: CompactionState) -> None:
        super().__init__()
        self._compaction = compaction
        self._part = NotePart("")
        self._folded = True
        self.parts = [self._part]
        self.refresh()

    def refresh(self) -> bool:
        compaction = self._compaction
        words = {"in_progress": "Shortening the context…", "completed": "The context was shortened"}
        text = words.get(compaction.status, f"Shortening the context: {compaction.status}")
        if compaction.error:
            text += f": {compaction.error}"
        details = "" if self._folded else said(compaction)
        if (text, details) == (self._part.text, self._part.details):
            return False
        self._part.text, self._part.details = text, details
        self._part.tone = "warn" if compaction.error else "quiet"
        self._part.forget()
        return True

    def toggle(self) -> bool:
        self._folded = not self._folded
        return self.refresh()

    @property
    def text(self) -> str:
        return said(self._compaction)
