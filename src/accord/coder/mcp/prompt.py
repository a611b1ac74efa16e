"""A prompt of a server as a slash command: its arguments are taken from the text after the command."""

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from accord.coder.mcp.hooks import McpFailure
from accord.coder.mcp.offers import OfferedPrompt, PromptArgument
from accord.coder.mcp.server import Server
from accord.coder.messages import Part

if TYPE_CHECKING:
    from collections.abc import Callable

    from accord.coder.mcp.live.link import Link

_NAMED: Final = re.compile(r"([^\s=]+)=(.*)", re.DOTALL)


@dataclass(frozen=True)
class McpPrompt:
    """A command that stands for a message of the user."""

    name: str
    """Of the command, without its slash."""
    description: str
    server: Server
    offered: OfferedPrompt
    chars: int
    """Of text that is taken, at most."""
    picture_bytes: int

    @property
    def hint(self) -> str:
        """What may be typed after the command; nothing if it takes nothing."""
        return " ".join(
            argument.name if argument.required else f"[{argument.name}]"
            for argument in self.offered.arguments
        )

    async def parts(self, text: str, *, sees_images: bool = False) -> tuple[Part, ...]:
        """What the command stands for. Raises McpFailure."""
        arguments = self._arguments(text.strip())

        async def ask(link: "Link", alive: "Callable[[], None]") -> tuple[Part, ...]:
            from accord.coder.mcp.live.content import Bounds

            bounds = Bounds(self.chars, self.picture_bytes, sees_images)
            return await link.prompt(self.offered.name, arguments, bounds)

        parts = await self.server.use(ask)
        if not parts:
            raise McpFailure(f"{self.server.name}: its prompt {self.offered.title} is empty")
        return parts

    def _arguments(self, text: str) -> dict[str, str]:
        declared = self.offered.arguments
        given = _given(text, declared) if text and declared else {}
        missing = [argument.name for argument in declared if argument.required and argument.name not in given]
        if missing:
            raise McpFailure(f"/{self.name} needs {', '.join(missing)}; type: /{self.name} {self.hint}")
        return given


def _given(text: str, declared: tuple[PromptArgument, ...]) -> dict[str, str]:
    """The arguments in the text: `name=value` anywhere, the other words in order, the last argument takes the rest."""
    names = [argument.name for argument in declared]
    if len(names) == 1:
        named = _NAMED.fullmatch(text)
        return {names[0]: named[2] if named and named[1] == names[0] else text}
    given: dict[str, str] = {}
    loose: list[str] = []
    for word in _words(text):
        named = _NAMED.fullmatch(word)
        if named and named[1] in names:
            given[named[1]] = named[2]
        else:
            loose.append(word)
    open_names = [name for name in names if name not in given]
    for position, name in enumerate(open_names):
        words = loose[position:] if position == len(open_names) - 1 else loose[position : position + 1]
        if words:
            given[name] = " ".join(words)
    return given


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()  # a lone quote is an apostrophe
