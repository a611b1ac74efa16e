"""The seam between a turn and a slash command."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from accord.agent.turn import Turn
from accord.coder.context.prompts import parts_of
from accord.coder.messages import Part, TextPart
from accord.schema.content import ContentBlock, TextContent

if TYPE_CHECKING:
    from accord.coder.workbench import Workbench


@dataclass(frozen=True, slots=True)
class Reply:
    """What is said to the user, as Markdown. The model is not asked."""

    text: str


@dataclass(frozen=True, slots=True)
class Ask:
    """What the model is asked, in place of what was typed."""

    parts: tuple[Part, ...]


class Command(Protocol):
    """What a name behind a slash stands for."""

    @property
    def name(self) -> str:
        """Without the slash."""
        ...

    @property
    def description(self) -> str: ...
    @property
    def hint(self) -> str | None:
        """What may be typed behind it; None if nothing."""
        ...

    def run(self, text: str, turn: Turn, bench: "Workbench", /) -> Awaitable[Reply | Ask]:
        """Do it, with what was typed behind the name."""
        ...


Runs: TypeAlias = Callable[[str, Turn, "Workbench"], Awaitable[Reply | Ask]]


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """A command of the agent itself."""

    name: str
    description: str
    hint: str | None
    run: Runs


async def asked_with(text: str, turn: Turn, bench: "Workbench") -> Ask:
    """The model is asked this, with everything that the prompt carries beside the command."""
    model = await bench.model()
    return Ask((TextPart(text), *parts_of(_attached(turn.blocks), sees_images=model.sees_images)))


async def attached(turn: Turn, bench: "Workbench") -> tuple[Part, ...]:
    """What the prompt carries beside the command."""
    model = await bench.model()
    return parts_of(_attached(turn.blocks), sees_images=model.sees_images)


def _attached(blocks: list[ContentBlock]) -> list[ContentBlock]:
    """All blocks but the first text, which is the command."""
    first = next((number for number, block in enumerate(blocks) if isinstance(block, TextContent)), None)
    return [block for number, block in enumerate(blocks) if number != first]
