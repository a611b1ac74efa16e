"""What a client can show, as it said in `initialize`."""

from collections.abc import Callable, Iterator
from typing import Any, Final, cast

import msgspec
from msgspec import UNSET, Raw, UnsetType

from accord.agent.version_choice import initialize_params, is_version_1
from accord.gateway.contracts import LogReader
from accord.schema import (
    ClientCapabilities,
    CompactionSummaryChunk,
    CompactionUpdate,
    Notice,
    SessionConfigBoolean,
    SessionNotification,
    Terminal,
    ToolCall,
    ToolCallChange,
)
from accord.schema.codec import encode
from accord.session import Event, TerminalChanged
from accord.session.plain_updates import is_plain, plain_updates, terminal_text
from accord.session.protocol_v1 import accord_meta
from accord.session.tool_calls import ToolCallMessageT, without_terminals
from accord.store.records import event_payload
from accord.wire.envelope import Notification


def asks_for_version_2(first: bytes) -> bool:
    """Whether a client's first message is an `initialize` for version 2 or a later one, in its form."""
    params, _ = initialize_params(first)
    requested = None if params is None else params.get("protocolVersion")
    newer = isinstance(requested, int) and not isinstance(requested, bool) and requested >= 2
    return newer and not is_version_1(params)


CAPABILITY_GATED: Final = frozenset({Notice, CompactionUpdate, CompactionSummaryChunk})
"""Updates that are sent only to clients with the matching capability."""


def with_accord_meta(meta: dict[str, Any] | UnsetType | None, **members: Any) -> dict[str, Any]:
    """A `_meta` with more members of Accord's own."""
    return {**(meta or {}), "accord": {**accord_meta(meta), **members}}


def event_body(session_id: str, event: Event) -> bytes:
    """The notification with an event in place of an update, for a client that takes events."""
    return encode(
        Notification("session/update", {"sessionId": session_id, "update": Raw(event_payload(event))})
    )


class OfferedFeatures:
    """The capabilities of one client."""

    def __init__(self) -> None:
        self.capabilities: ClientCapabilities | None = None
        """Set by `initialize`."""
        self.extensions: dict[str, Any] = {}
        """The client's own announcement about Accord's extensions (`_meta.accord`)."""
        self.takes_events: bool = False
        """Whether it gets events of `accord.session` for what updates of version 1 cannot say."""

    def set_capabilities(self, capabilities: ClientCapabilities | None) -> None:
        """Take what the client said in `initialize`."""
        self.capabilities = capabilities or ClientCapabilities()
        extensions = (self.capabilities.meta or {}).get("accord")
        self.extensions = cast("dict[str, Any]", extensions) if isinstance(extensions, dict) else {}
        self.takes_events = self.extensions.get("events") is True

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

    @property
    def shows_terminals(self) -> bool:
        """Whether it shows terminals of agents and of the gateway."""
        return self.takes_events or bool(self.extensions.get("terminal"))

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
        """Return the tool call with text instead of terminals if the client does not show them."""
        return update if self.shows_terminals else without_terminals(update, output_of)

    def adapt_terminal(self, event: Event) -> Event:
        """Leave out the whole output of a terminal for a client that asks for it when it shows it."""
        if isinstance(event, TerminalChanged) and event.output and self.extensions.get("terminal"):
            return msgspec.structs.replace(event, output=UNSET)
        return event

    def history_bodies(
        self,
        session_id: str,
        event: Event,
        reader: LogReader,
        output_of: Callable[[str], str | None] = lambda _: None,
    ) -> Iterator[bytes]:
        """Yield the notifications that tell this client of an event that `reader` has just read.

        `output_of` has the output of terminals that are not in the log.
        """

        def logged_output(terminal_id: str) -> str | None:
            logged = terminal_text(reader.state, terminal_id)
            return output_of(terminal_id) if logged is None else logged

        if self.takes_events and not is_plain(event):
            yield event_body(session_id, self.adapt_terminal(event))
            return
        if reader.in_history and isinstance(event, TerminalChanged):
            return  # its output is in the tool calls
        for update in plain_updates(event, reader.state):
            if not self.wants_update(update):
                continue
            if isinstance(update, ToolCall | ToolCallChange):
                ids = [item.terminal_id for item in update.content or () if isinstance(item, Terminal)]
                is_lost = self.takes_events and None in map(logged_output, ids)
                adapted: Any = (without_terminals if is_lost else self.adapt_call)(update, logged_output)
            else:
                adapted = self.adapt(update)
            yield encode(Notification("session/update", SessionNotification(session_id, adapted)))

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
