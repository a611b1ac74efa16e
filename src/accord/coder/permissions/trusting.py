"""Asking the user whether the files of a project may change what the agent does: once a session, with all they say shown."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

from accord.agent.permission import PermissionAnswer
from accord.agent.turn import Turn
from accord.clock import SYSTEM_CLOCK, Clock, within
from accord.coder.permissions.projectfiles import ProjectFile, ProjectFiles
from accord.coder.tools.tool import listing
from accord.errors import AccordError
from accord.policy.asking import read_answer
from accord.schema.content import TextContent
from accord.schema.permissions import PermissionOption
from accord.schema.tools import Content, ToolCallContent

AskTrust: TypeAlias = Callable[
    [str, Sequence[ToolCallContent], Sequence[PermissionOption]], Awaitable[PermissionAnswer]
]
"""Shows a title and contents, and asks. It may be cancelled, and then takes the question back."""

TITLE: Final = "Trust the files of this project that change what the agent does?"
PATIENCE: Final = 120.0
"""Seconds; the prompt waits as long, so it is less than for a permission."""

# No `allow_once`: a client that answers by itself to go on must not be able to agree to this.
OPTIONS: Final = (
    PermissionOption("trust", "Trust them, as long as they do not change", "allow_always"),
    PermissionOption("ignore", "Go on without them", "reject_once"),
)


def asking_in(turn: Turn) -> AskTrust:
    """Asks in a turn, as a call of its own that does nothing."""

    async def ask(
        title: str, content: Sequence[ToolCallContent], options: Sequence[PermissionOption]
    ) -> PermissionAnswer:
        async with turn.tool_call(title, kind="other") as call:
            await call.replace(content)
            return await call.ask_permission(options)

    return ask


async def ask_trust(
    files: ProjectFiles, ask: AskTrust, *, seconds: float | None = PATIENCE, clock: Clock = SYSTEM_CLOCK
) -> bool:
    """Ask about what is not trusted, and keep a yes. Whether all is trusted now; anything but a yes leaves it as it was.

    Nobody is asked where there is nothing to ask about. Never raises for what an answer is.
    """
    if not files.untrusted:
        return True
    shown = [block for file in files.untrusted.values() for block in _shown(file)]
    asking = asyncio.ensure_future(ask(TITLE, shown, OPTIONS))
    try:
        if seconds is None:
            await asyncio.wait((asking,))
        elif not await within(clock, seconds, asking):
            return False
        answer = asking.result()
    except AccordError:
        return False
    finally:
        if not asking.done():
            asking.cancel()
            await asyncio.wait((asking,))
    if not read_answer(OPTIONS, answer.option).allowed:
        return False
    try:
        await asyncio.to_thread(files.trust)
    except OSError:
        return False  # what cannot be kept was not agreed to; the next session asks again
    return not files.untrusted


def _shown(file: ProjectFile) -> Sequence[ToolCallContent]:
    """All of it, with what hides from the eye made visible."""
    visible = "".join(
        c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in file.text
    )
    head = Content(TextContent(f"**{file.name}** ({file.purpose}):"))
    return (head, listing(visible)) if visible else (head, Content(TextContent("(empty)")))
