"""The history of a session whose agent takes it up without telling it again: what was recorded here the last time."""

from typing import Final

from accord.client import ClientSession
from accord.client.recording import Records
from accord.errors import StoreError
from accord.schema import (
    AgentMessageChunk,
    AgentThoughtChunk,
    CompactionSummaryChunk,
    CompactionUpdate,
    UserMessageChunk,
)
from accord.session import (
    MessageChanged,
    PlanChanged,
    ToolCallChanged,
    TurnCancelling,
    TurnEnded,
    TurnStarted,
)

_HISTORY: Final = (
    AgentMessageChunk, AgentThoughtChunk, UserMessageChunk, MessageChanged, ToolCallChanged, PlanChanged,
    CompactionUpdate, CompactionSummaryChunk, TurnStarted, TurnEnded, TurnCancelling,
)  # fmt: skip


def recall(records: Records, session: ClientSession, agent: str) -> None:
    """Let the session's state have what is known of its history; settings stay as the agent says they are."""
    try:
        recorded = records.find(session.id, agent=agent)
        if recorded is None:
            return
        for event in records.events(recorded):
            if isinstance(event, _HISTORY):
                session.state.apply(event)
    except StoreError:
        return  # then it begins without
    if session.state.turn != "idle":
        session.state.apply(TurnEnded())
