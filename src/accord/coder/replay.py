"""Telling a client what happened in a session before: from the log, as few messages as say it all."""

from collections.abc import Iterator
from typing import Any, Final, cast

from msgspec import UNSET
from msgspec.structs import replace

from accord.agent.session import AgentSession
from accord.errors import NotOffered
from accord.schema.content import TextContent
from accord.schema.tools import Content, Terminal, ToolCall, ToolCallContent
from accord.schema.updates import SessionInfoUpdate, SessionUpdate
from accord.session import SessionState
from accord.session.v1 import updates_of

_BREATH: Final = 64
"""After so many updates the client gets the chance to read."""


async def replay(session: AgentSession, state: SessionState) -> None:
    """Tell everything; waits while the client reads more slowly."""
    for number, update in enumerate(_updates(state), 1):
        _tell(session, update)
        if number % _BREATH == 0:
            await session.drain()


def replay_now(session: AgentSession, state: SessionState) -> None:
    """Tell everything at once, before anything else can be told."""
    for update in _updates(state):
        _tell(session, update)


def _updates(state: SessionState) -> Iterator[SessionUpdate]:
    for event in state.history.events():
        for update in updates_of(event):
            yield cast(SessionUpdate, _without_terminals(update) if isinstance(update, ToolCall) else update)
    if state.title is not None:
        yield SessionInfoUpdate(state.title)
    if state.usage is not None:
        yield state.usage


def _tell(session: AgentSession, update: SessionUpdate) -> None:
    try:
        session.push(update)
    except NotOffered:
        pass  # another client had asked for it


def _without_terminals(update: ToolCall) -> ToolCall:
    """A terminal was one of a client that may be gone: what it showed is told as text."""
    content = update.content
    if not content or not any(isinstance(item, Terminal) for item in content):
        return update
    output = _output(update.raw_output)
    shown: list[ToolCallContent] = [item for item in content if not isinstance(item, Terminal)]
    if output:
        fence = "```"
        while fence in output:
            fence += "`"
        shown.append(Content(TextContent(f"{fence}\n{output.rstrip()}\n{fence}")))
    return replace(update, content=shown or UNSET)


def _output(raw: Any) -> str:
    output: Any = cast(dict[str, Any], raw).get("output") if isinstance(raw, dict) else None
    return output if isinstance(output, str) else ""
