"""Subagents: child sessions an agent shows on their parent. Unstable."""

from typing import Any

from msgspec import Struct

from accord.schema import (
    UNSET,
    IdleStateUpdate,
    RequiresActionStateUpdate,
    RunningStateUpdate,
    StateUpdate,
    SubagentSessionCapabilities,
    SubagentUpdate,
    Unknown,
)

_ACTIVITIES: dict[type, str] = {
    RunningStateUpdate: "running",
    IdleStateUpdate: "idle",
    RequiresActionStateUpdate: "requires_action",
}


class SubagentState(Struct):
    """One child session as its parent told of it. None is "not said", or cleared."""

    session_id: str
    title: str | None = None
    description: str | None = None
    capabilities: SubagentSessionCapabilities | None = None
    state: StateUpdate | Unknown | None = None
    cwd: str | None = None
    additional_directories: list[str] | None = None
    meta: dict[str, Any] | None = None

    @property
    def activity(self) -> str:
        """What it does right now: running, idle, requires_action, or a word of the agent's own. While the agent has
        not said, took it back, or cannot tell: unknown, which is not idle.
        """
        if isinstance(self.state, Unknown):
            return self.state.kind
        return _ACTIVITIES.get(type(self.state), "unknown")

    @property
    def may_cancel(self) -> bool:
        """Whether the client may cancel this child; what the agent offers for ordinary sessions grants nothing."""
        return self.capabilities is not None and bool(self.capabilities.cancel)

    def apply(self, patch: SubagentUpdate) -> None:
        """Omitted keeps, null clears, a value replaces whole."""
        if patch.title is not UNSET:
            self.title = patch.title
        if patch.description is not UNSET:
            self.description = patch.description
        if patch.capabilities is not UNSET:
            self.capabilities = patch.capabilities
        if patch.state is not UNSET:
            self.state = patch.state
        if patch.cwd is not UNSET:
            self.cwd = patch.cwd
        if patch.additional_directories is not UNSET:
            self.additional_directories = patch.additional_directories
        if patch.meta is not UNSET:
            self.meta = patch.meta

    def whole(self) -> SubagentUpdate:
        """The one update that says all of it."""
        return SubagentUpdate(
            session_id=self.session_id,
            title=self.title,
            description=self.description,
            capabilities=self.capabilities,
            state=self.state,
            cwd=self.cwd,
            additional_directories=self.additional_directories,
            meta=UNSET if self.meta is None else self.meta,
        )
