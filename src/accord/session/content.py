"""Content that grows: blocks come one at a time, and adjacent plain text is merged only when someone looks.

Appending costs the same however long the content already is.
"""

from collections.abc import Iterable

from accord.schema import ContentBlock, TextContent


class Body:
    """The content of a message or a summary. Equal when the merged blocks are equal."""

    __slots__ = ("_blocks", "_texts")

    def __init__(self, blocks: Iterable[ContentBlock] = ()) -> None:
        self._blocks: list[ContentBlock] = []
        self._texts: list[str] = []  # plain text after the last of the blocks, not merged yet
        for block in blocks:
            self.append(block)

    def append(self, block: ContentBlock) -> None:
        """Add one block at the end. Text that carries annotations or `_meta` stays a block of its own."""
        if type(block) is TextContent and not block.annotations and not block.meta:
            self._texts.append(block.text)
        else:
            self._merge()
            self._blocks.append(block)

    def replace(self, blocks: Iterable[ContentBlock]) -> None:
        """Forget what was there and start again with these blocks."""
        self._blocks = []
        self._texts = []
        for block in blocks:
            self.append(block)

    @property
    def blocks(self) -> tuple[ContentBlock, ...]:
        """Everything so far, adjacent plain text as one block."""
        self._merge()
        return tuple(self._blocks)

    @property
    def text(self) -> str:
        """The text blocks, one after the other; what is not text is left out."""
        texts = self._texts
        if len(texts) > 1:
            self._texts = texts = ["".join(texts)]
        tail = texts[0] if texts else ""
        return text_of_blocks(self._blocks) + tail if self._blocks else tail

    def _merge(self) -> None:
        if not self._texts:
            return
        text = "".join(self._texts)
        self._texts = []
        last = self._blocks[-1] if self._blocks else None
        if type(last) is TextContent and not last.annotations and not last.meta:
            self._blocks[-1] = TextContent(text=last.text + text)
        elif text:
            self._blocks.append(TextContent(text=text))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.blocks == other.blocks

    __hash__ = None  # type: ignore[assignment]  # it grows

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.text!r})"


def text_of_blocks(blocks: Iterable[ContentBlock]) -> str:
    """The text blocks among these, one after the other."""
    return "".join([block.text for block in blocks if type(block) is TextContent])
