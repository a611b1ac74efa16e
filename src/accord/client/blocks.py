"""Prompts: what a caller may pass as one, as content blocks, and which of them the agent takes."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from accord.errors import NotOffered, UsageError
from accord.schema import (
    AgentCapabilities,
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    TextContent,
)

PromptPart: TypeAlias = str | ContentBlock
Prompt: TypeAlias = PromptPart | Sequence[PromptPart]
"""Text, a block, or several of either."""


def blocks_of(prompt: Prompt) -> list[ContentBlock]:
    """The content blocks of a prompt. Refuses an empty one."""
    if isinstance(prompt, str | ContentBlock):
        parts: Iterable[object] = (prompt,)
    elif isinstance(prompt, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance] - not every caller is type-checked
        parts = prompt
    else:
        raise UsageError(
            f"a prompt is a text, a content block, or a list of them, not {type(prompt).__name__}"
        )
    blocks = [_block(part) for part in parts]
    if not blocks:
        raise UsageError("the prompt is empty: pass a text, a content block, or a list of them")
    return blocks


def _block(part: object) -> ContentBlock:
    if isinstance(part, str):
        return TextContent(text=part)
    if isinstance(part, ContentBlock):
        return part
    raise UsageError(f"a prompt is made of texts and content blocks, not of {type(part).__name__}")


def check_offered(blocks: list[ContentBlock], capabilities: AgentCapabilities) -> None:
    """Refuse blocks that the agent has not said it takes."""
    takes = capabilities.prompt_capabilities or None
    for block in blocks:
        if isinstance(block, ImageContent) and not (takes and takes.image):
            raise NotOffered(
                "the agent takes no images in prompts (promptCapabilities.image); send a link or text"
            )
        if isinstance(block, AudioContent) and not (takes and takes.audio):
            raise NotOffered("the agent takes no audio in prompts (promptCapabilities.audio); send text")
        if isinstance(block, EmbeddedResource) and not (takes and takes.embedded_context):
            raise NotOffered(
                "the agent takes no embedded resources in prompts (promptCapabilities.embeddedContext); "
                "send a resource link"
            )
