"""What may be sent to this client? Updates behind a capability never go out without it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from accord.errors import NotOffered
from accord.schema.config import ConfigOptionUpdate
from accord.schema.plans import PlanRemoved, PlanUpdate
from accord.schema.subagents import SessionMessage, SessionMessageChunk, SubagentUpdate
from accord.schema.updates import CompactionSummaryChunk, CompactionUpdate, Notice, SessionUpdate

from .client import Client

if TYPE_CHECKING:
    from .session import AgentSession

_GATES: Final[dict[type, tuple[str, Callable[[Client], bool]]]] = {
    Notice: ("session.notices", lambda client: client.shows_notices),
    CompactionUpdate: ("session.compaction", lambda client: client.shows_compaction),
    CompactionSummaryChunk: ("session.compaction", lambda client: client.shows_compaction),
    PlanUpdate: ("plan", lambda client: client.shows_plans),
    PlanRemoved: ("plan", lambda client: client.shows_plans),
    SubagentUpdate: ("subagents", lambda client: client.shows_subagents),
    SessionMessage: ("subagents", lambda client: client.shows_subagents),
    SessionMessageChunk: ("subagents", lambda client: client.shows_subagents),
}


def admit(update: SessionUpdate, session: "AgentSession") -> SessionUpdate:
    """The update in the form this client takes it; raises NotOffered if it takes none."""
    kind = type(update)
    gate = _GATES.get(kind)
    if gate is not None and not gate[1](session.client):
        raise NotOffered(
            f"{kind.__name__} needs the client capability `{gate[0]}`, which this client does not have"
        )
    if isinstance(update, ConfigOptionUpdate):
        return ConfigOptionUpdate(session.pickers.shown(update.config_options), meta=update.meta)
    return update
