"""Content blocks in words: what is not text is named, not shown."""

from accord.schema import (
    AudioContent,
    BlobResourceContents,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)


def words_of(block: ContentBlock) -> str:
    """A block as a reader gets it."""
    match block:
        case TextContent():
            return block.text
        case ImageContent():
            return f"[image {block.mime_type}, {_bytes(block.data)}]"
        case AudioContent():
            return f"[audio {block.mime_type}, {_bytes(block.data)}]"
        case ResourceLink():
            return f"[{block.title or block.name}]({block.uri})"
        case EmbeddedResource(resource=TextResourceContents(uri=uri, text=text)):
            return f"[{uri}, {len(text)} characters]"
        case EmbeddedResource(resource=BlobResourceContents(uri=uri, blob=blob)):
            return f"[{uri}, {_bytes(blob)}]"
        case _:
            return "[something this version cannot show]"


def _bytes(base64: str) -> str:
    return f"{len(base64) * 3 // 4} bytes"
