"""The record of a connection with either side, and the rules for all of its messages."""

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, Final, TypeVar

from accord.check.checked_connection import CheckedConnection, has_capability
from accord.check.findings import SCHEMA, RuleNotes
from accord.trace.message_judge import MessageJudge
from accord.trace.trace_format import Side
from accord.trace.trace_steps import at
from accord.trace.wire_line import CallRecord, WireLine, pair_calls
from accord.wire.envelope import Message


class ConnectionRecord:
    """The lines of one closed connection, with queries for the rules."""

    def __init__(
        self, connection: CheckedConnection, client_capabilities: Any, initialize_result: Message
    ) -> None:
        self.name: str = connection.name
        self.lines: list[WireLine] = connection.lines
        self.side: Side = connection.peer_side
        """The side under test."""
        self.flood: str = connection.flood
        self.client_capabilities: Any = client_capabilities
        """The client capabilities as sent (any value), or `ABSENT`."""
        self.initialize_result = initialize_result
        """The result of `initialize`."""
        self.judge: MessageJudge = MessageJudge(self.side, passes=True)

    @cached_property
    def sent(self) -> list[WireLine]:
        """The lines that the side under test sent."""
        return [line for line in self.lines if line.sender == self.side]

    @cached_property
    def calls(self) -> list[WireLine]:
        """The requests and notifications of the side under test."""
        return [line for line in self.sent if line.method]

    @cached_property
    def client_requests(self) -> list[CallRecord]:
        """The client's requests with the agent's answers."""
        return pair_calls(self.lines, "client")

    @cached_property
    def agent_requests(self) -> list[CallRecord]:
        """The agent's requests with the client's answers."""
        return pair_calls(self.lines, "agent")

    def results(self, *methods: str) -> list[tuple[WireLine, Any]]:
        """The agent's results of these methods, each with its line."""
        return [
            (answer, (answer.message or {}).get("result"))
            for call in self.client_requests
            if call.request.method in methods
            for answer in call.answers
            if "result" in (answer.message or {})
        ]

    def client_advertises(self, path: str) -> bool:
        """Whether the client advertised a capability (dotted path)."""
        return has_capability(self.client_capabilities, path)

    def agent_advertises(self, path: str) -> bool:
        """Whether the agent advertised a capability (dotted path)."""
        return has_capability(at(self.initialize_result, "agentCapabilities"), path)


RecordT = TypeVar("RecordT", bound=ConnectionRecord)


async def check_record(
    record: RecordT, notes: RuleNotes, rules: Sequence[Callable[[RecordT, RuleNotes], None]]
) -> None:
    """Run all rule functions on a record. Yields to the event loop between them."""
    for line in record.sent:
        if line.skip_reason:
            notes.add_unjudged(SCHEMA, f"not judged: {line.skip_reason}", line)
    if record.flood:
        notes.add_unjudged(SCHEMA, f"only the start was judged of {record.flood}")
    for check_rule in rules:
        await asyncio.sleep(0)
        try:
            check_rule(record, notes)
        except Exception as error:  # noqa: BLE001 - an unexpected message must not end the run
            notes.add_fail(SCHEMA, f"a message that cannot be judged ({type(error).__name__})")


ACTIVELY_TESTED: Final = (
    *("cancel.stop-reason", "cancel.no-error", "cancel.waits-before-next-prompt"),
    *("initialize.missing-client-capability", "initialize.missing-agent-capability"),
)
"""Rules that cases test, or that other rule functions judge more precisely."""


def check_messages(record: ConnectionRecord, notes: RuleNotes) -> None:
    """Check envelopes, ids, schema and the order of every message."""
    skipped: set[int] = set()
    for group in _spread_messages(record.sent):
        notes.add_fail(f"framing.{record.side}-one-line", "a message is spread over several lines", *group)
        skipped.update(line.number for line in group)
    for line in record.lines:
        for one in record.judge.judge(line) if line.number not in skipped else ():
            rule = SCHEMA if one.rule is None else one.rule
            if one.passed:
                notes.add_pass(rule, one.reason, *one.lines)
            elif rule not in ACTIVELY_TESTED:
                notes.add_fail(rule, one.reason, *one.lines, from_schema=one.from_schema)
    _check_extensions(record, notes)


def _spread_messages(lines: list[WireLine]) -> Iterator[list[WireLine]]:
    """Groups of consecutive lines that are a message only together."""
    group: list[WireLine] = []
    for line in [*lines, None]:
        if line is not None and line.message is None and not line.skip_reason and line.data.strip():
            group.append(line)
            continue
        text = "\n".join(one.data.decode("utf-8", "replace") for one in group)
        if len(group) > 1 and _is_json_object(text):
            yield group
        group = []


def _is_json_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text, strict=False), dict)
    except (ValueError, RecursionError):
        return False


def _check_extensions(record: ConnectionRecord, notes: RuleNotes) -> None:
    extension = next((line for line in record.calls if line.method.startswith("_")), None)
    if extension is None:
        return
    # An agent's capabilities, or a client's `initialize` params, may announce extensions.
    announcements: Any = at(record.initialize_result, "agentCapabilities")
    if record.side == "client":
        announcements = [line.params for line in record.calls if line.method == "initialize"]
    announced = '"_meta"' in json.dumps(announcements)
    failure = f"{extension.method} is used, but not announced in a `_meta` of the capabilities"
    rule = f"extension.{record.side}-announced"
    notes.judge(rule, announced, "its extensions are announced", failure, extension)
