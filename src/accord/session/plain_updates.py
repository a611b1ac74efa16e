"""Tells clients of version 1 what only version 2 can say, as far as they can show it."""

from typing import Final, cast

from msgspec import UNSET

from accord.schema import SessionUpdate, ToolCallChange, ToolCallUpdate
from accord.session.events import Event, MessageChanged, StateChanged, TerminalChanged, ToolCallChanged
from accord.session.protocol_v1 import updates_of
from accord.session.state import SessionState

PROMPT_KEY: Final = "promptKey"
"""A member of the `TurnStarted` with which a translation tells a gateway which of its prompts was taken."""


def is_plain(event: Event) -> bool:
    """Whether updates of version 1 say all of this event, without knowledge of what came before."""
    if isinstance(event, ToolCallChanged):
        patch = event.patch
        plain = not event.append and not event.mark and event.cancellable is UNSET
        return plain and None not in [getattr(patch, name) for name in ToolCallUpdate.__struct_fields__]
    if isinstance(event, MessageChanged):
        return not event.replaces
    return not isinstance(event, TerminalChanged | StateChanged)


def plain_updates(event: Event, state: SessionState) -> list[SessionUpdate]:
    """The updates of version 1 for an event that `state` has applied and returned.

    What has no form at all is left out. Tool calls may show terminals of the agent, which `without_terminals`
    makes text.
    """
    if not isinstance(event, TerminalChanged):
        return cast("list[SessionUpdate]", updates_of(event))
    shown = state.tool_calls.values() if event.exit else ()
    return [
        ToolCallChange(call.tool_call_id, content=list(call.content))
        for call in shown
        if event.terminal_id in call.terminal_ids
    ]


def terminal_text(state: SessionState, terminal_id: str) -> str | None:
    """The output of a terminal of the agent; None if it is unknown."""
    terminal = state.terminals.get(terminal_id)
    return None if terminal is None else terminal.text
