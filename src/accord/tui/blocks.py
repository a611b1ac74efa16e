"""A draft as the blocks of a prompt: its text, the files it mentions, what is attached to it."""

from collections.abc import Callable, Sequence

from accord.client.attachments import Attaching
from accord.client.mentions import mentions_in
from accord.schema import AgentCapabilities, ContentBlock, TextContent
from accord.tui.draft import Draft


def blocks_of(
    draft: Draft, folders: Sequence[str], capabilities: AgentCapabilities, note: Callable[[str], None]
) -> list[ContentBlock]:
    """Reads files: for a thread. Raises UsageError where one cannot be read."""
    attaching = Attaching(capabilities, note)
    found = mentions_in(draft.text, folders, "paste its path to attach it")
    for text in found.notes:
        note(text)
    printed = [attachment.text for attachment in draft.attachments if attachment.text]
    text = "\n\n".join(filter(None, (draft.text, *printed)))
    blocks: list[ContentBlock] = [TextContent(text)] if text.strip() else []
    blocks += [attaching.mentioned(path) for path in found.paths]
    blocks += [attaching.attached(attachment.path) for attachment in draft.attachments if attachment.path]
    return blocks
