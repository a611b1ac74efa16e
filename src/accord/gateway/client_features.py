"""What a client can show, as it said in `initialize`."""

from collections.abc import Callable
from typing import Any, Final, cast

import msgspec
from msgspec import UNSET

from accord.agent.version_choice import initialize_params, is_version_1
from accord.schema import (
    ClientCapabilities,
    CompactionSummaryChunk,
    CompactionUpdate,
    Notice,
    SessionConfigBoolean,
)
from accord.session.tool_calls import ToolCallMessageT, without_terminals


def asks_for_version_2(first: bytes) -> bool:
    """Whether a client's first message is an `initialize` for version 2 or a later one, in its form."""
    params, _ = initialize_params(first)
    requested = None if params is None else params.get("protocolVersion")
    newer = isinstance(requested, int) and not isinstance(requested, bool) and requested >= 2
    return newer and not is_version_1(params)


CAPABILITY_GATED: Final = frozenset({Notice, CompactionUpdate, CompactionSummaryChunk})
"""Updates that are sent only to clients with the matching capability."""


class OfferedFeatures:
    """The capabilities of one client."""

    def __init__(self) -> None:
        self.capabilities: ClientCapabilities | None = None
        """Set by `initialize`."""
        self.extensions: dict[str, Any] = {}
        """The client's own announcement about Accord's extensions (`_meta.accord`)."""

    def set_capabilities(self, capabilities: ClientCapabilities | None) -> None:
        """Take what the client said in `initialize`."""
        self.capabilities = capabilities or ClientCapabilities()
        extensions = (self.capabilities.meta or {}).get("accord")
        self.extensions = cast("dict[str, Any]", extensions) if isinstance(extensions, dict) else {}

    @property
    def shows_forms(self) -> bool:
        """Whether it supports form elicitation."""
        elicitation = self.capabilities.elicitation if self.capabilities else None
        return bool(elicitation) and elicitation.form is not UNSET and elicitation.form is not None

    @property
    def opens_urls(self) -> bool:
        """Whether it supports URL elicitation."""
        elicitation = self.capabilities.elicitation if self.capabilities else None
        return bool(elicitation) and elicitation.url is not UNSET and elicitation.url is not None

    def wants_update(self, update: object) -> bool:
        """Whether to send this kind of update: some need a capability."""
        kind = type(update)
        if kind not in CAPABILITY_GATED:
            return True
        session = self.capabilities.session if self.capabilities else None
        if not session:
            return False
        members = session.notices if kind is Notice else session.compaction
        return members is not UNSET and members is not None

    def adapt_call(
        self, update: ToolCallMessageT, output_of: Callable[[str], str | None] = lambda _: None
    ) -> ToolCallMessageT:
        """Return the tool call with text instead of terminals if the client does not show the gateway's."""
        return update if self.extensions.get("terminal") else without_terminals(update, output_of)

    def adapt(self, value: Any) -> Any:
        """Return the value without boolean config options if the client does not support them."""
        options = getattr(value, "config_options", None)
        if not options or not any(isinstance(option, SessionConfigBoolean) for option in options):
            return value
        session = self.capabilities.session if self.capabilities else None
        config_options = session.config_options if session else None
        if config_options and config_options.boolean is not UNSET and config_options.boolean is not None:
            return value
        options_kept = [option for option in options if not isinstance(option, SessionConfigBoolean)]
        return msgspec.structs.replace(value, config_options=options_kept)
