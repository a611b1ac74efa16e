"""What an agent can do, as `initialize` says it: exactly what its handlers and its declarations give, no more."""

from collections.abc import Container, Mapping
from typing import Any, Final, Literal, TypeVar

from msgspec import UNSET, Struct, UnsetType

from accord.errors import UsageError
from accord.schema.capabilities import (
    AgentAuthCapabilities,
    AgentCapabilities,
    AuthStatusCapabilities,
    LogoutCapabilities,
    McpCapabilities,
    PromptCapabilities,
    ProvidersCapabilities,
    SessionAdditionalDirectoriesCapabilities,
    SessionArchiveCapabilities,
    SessionCapabilities,
    SessionCloseCapabilities,
    SessionDeleteCapabilities,
    SessionForkCapabilities,
    SessionListCapabilities,
    SessionResumeCapabilities,
    SessionStatusCapabilities,
    SessionSystemPromptCapabilities,
    SessionSystemPromptModeCapabilities,
    SessionSystemPromptOverrideCapabilities,
    SessionTitleCapabilities,
)

T = TypeVar("T", bound=Struct)

_TOGETHER: Final = (
    ("session/archive", "session/unarchive"),
    ("providers/list", "providers/set", "providers/disable"),
)


class Accepts(Struct, frozen=True, kw_only=True):
    """What an agent takes that cannot be seen from its handlers."""

    image: bool = False
    audio: bool = False
    embedded_context: bool = False
    """Content of prompts beyond text and links."""
    mcp_http: bool = False
    mcp_sse: bool = False
    mcp_acp: bool = False
    """MCP servers beyond those it starts itself (`mcp_acp` is unstable)."""
    additional_directories: bool = False
    """Sessions with more than one root."""
    system_prompt: Literal["append", "override"] | None = None
    """Unstable. Instructions from the client: beside the agent's own, or also instead of them."""
    meta: Mapping[str, Any] | None = None
    """Extensions to announce, in the `_meta` of the capabilities."""


def advertise(served: Container[str], accepts: Accepts) -> AgentCapabilities:
    """The capabilities of an agent that serves these methods."""

    def if_served(method: str, mark: type[T]) -> T | UnsetType:
        return mark() if method in served else UNSET

    return AgentCapabilities(
        load_session="session/load" in served,
        prompt_capabilities=PromptCapabilities(accepts.image, accepts.audio, accepts.embedded_context),
        mcp_capabilities=McpCapabilities(accepts.mcp_http, accepts.mcp_sse, accepts.mcp_acp or UNSET),
        session_capabilities=SessionCapabilities(
            list=if_served("session/list", SessionListCapabilities),
            delete=if_served("session/delete", SessionDeleteCapabilities),
            additional_directories=SessionAdditionalDirectoriesCapabilities()
            if accepts.additional_directories
            else UNSET,
            resume=if_served("session/resume", SessionResumeCapabilities),
            close=if_served("session/close", SessionCloseCapabilities),
            system_prompt=_system_prompt(accepts),
            fork=if_served("session/fork", SessionForkCapabilities),
            archive=if_served("session/archive", SessionArchiveCapabilities),
            status=if_served("session/status", SessionStatusCapabilities),
            title=if_served("session/set_title", SessionTitleCapabilities),
        ),
        auth=AgentAuthCapabilities(
            if_served("logout", LogoutCapabilities), if_served("auth/status", AuthStatusCapabilities)
        ),
        providers=if_served("providers/list", ProvidersCapabilities),
        meta=UNSET if accepts.meta is None else dict(accepts.meta),
    )


def _system_prompt(accepts: Accepts) -> SessionSystemPromptCapabilities | UnsetType:
    if accepts.system_prompt is None:
        return UNSET
    if accepts.system_prompt == "append":
        return SessionSystemPromptCapabilities()
    override = SessionSystemPromptOverrideCapabilities()
    return SessionSystemPromptCapabilities(SessionSystemPromptModeCapabilities(override))


def check_complete(served: Container[str]) -> None:
    """One capability may stand for several methods: all of them must be there."""
    for methods in _TOGETHER:
        present = [method for method in methods if method in served]
        if present and len(present) < len(methods):
            missing = ", ".join(method for method in methods if method not in served)
            raise UsageError(
                f"{present[0]} needs a handler for {missing} as well: one capability announces them all"
            )
    if "session/archive" in served and "session/list" not in served:
        raise UsageError("session/archive needs a handler for session/list as well")
