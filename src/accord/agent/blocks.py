"""What can be said: text, or a content block."""

from typing import Final, get_args

from accord.errors import UsageError
from accord.schema.content import ContentBlock, TextContent

_BLOCKS: Final = get_args(ContentBlock)


def block_of(content: str | ContentBlock) -> ContentBlock:
    """The content block for it; raises UsageError for anything else."""
    if isinstance(content, str):
        return TextContent(content)
    if isinstance(content, _BLOCKS):
        return content
    raise UsageError(f"only text and content blocks can be said, not {type(content).__name__}")
