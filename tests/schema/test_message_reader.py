"""The reader of one peer: official form first, then repairs, else a one-line error. Reports each dialect
once.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import repetitions
from tests.schema.repair_checks import method_of
from tests.schema.test_dialects_safety import JSON

from accord.errors import BadAnswer, InvalidParams
from accord.schema.base import Unknown
from accord.schema.client_requests import PermissionOption
from accord.schema.dialects import final_text, set_method_of
from accord.schema.message_reader import MessageReader, SplitUpdate
from accord.schema.methods import METHODS, notification
from accord.wire.transport import OversizedFrame

OPTIONS = [PermissionOption("y", "Allow", "allow_once"), PermissionOption("n", "Reject", "reject_once")]
HI = {"type": "text", "text": "hi"}


class Peer:
    """One peer, and the dialects reported for it."""

    def __init__(self, *, strict: bool = False, session: str | None = None) -> None:
        self.reports: list[tuple[int, str]] = []
        self.reader = MessageReader(
            strict=strict,
            report=lambda row, text: self.reports.append((row, text)),
            active_session=lambda: session,
        )

    def send(self, method: str, params: Any = ...) -> Any:
        raw = None if params is ... else json.dumps(params).encode()
        return self.reader.params_reader(method_of(method))(raw)

    def answer(self, method: str, result: Any) -> Any:
        return self.reader.result_reader(method_of(method))(json.dumps(result).encode())

    def decide(self, result: Any) -> Any:
        return self.reader.outcome_reader(OPTIONS)(json.dumps(result).encode())

    @property
    def rows(self) -> list[int]:
        return [row for row, _ in self.reports]


def chunk(**update: Any) -> dict[str, Any]:
    return {"sessionId": "s", "update": {"sessionUpdate": "agent_message_chunk", **update}}


def test_an_official_message_is_read_without_a_report():
    peer = Peer()
    assert peer.send("session/update", chunk(content=HI)).update.content.text == "hi"
    assert peer.answer("session/prompt", {"stopReason": "end_turn"}).stop_reason == "end_turn"
    assert peer.reports == []


@pytest.mark.rule("framing.absent-params")
def test_absent_and_null_params_read_as_empty():
    peer = Peer()
    assert peer.send("session/list").cwd == peer.send("session/list", None).cwd
    assert peer.send("logout", None) == peer.send("logout", {})
    with pytest.raises(InvalidParams):
        peer.send("session/prompt", None)


def test_a_dialect_is_reported_once_per_peer():
    peer, other = Peer(), Peer()
    for _ in range(3):
        peer.send("session/update", {"sessionId": "s", "update": {"type": "plan", "entries": []}})
    assert peer.reports == [(7, "row 7: update.type instead of update.sessionUpdate")]
    other.send("session/update", {"sessionId": "s", "update": {"type": "plan", "entries": []}})
    assert other.rows == [7]


@pytest.mark.rule("prompt.malformed-refused", "accord.agent-strict-mode")
@pytest.mark.dialect(1)
def test_a_text_prompt_is_accepted_in_tolerant_and_rejected_in_strict_mode():
    params = {"sessionId": "s", "prompt": "hi"}
    assert Peer().send("session/prompt", params).prompt[0].text == "hi"
    with pytest.raises(InvalidParams, match=r"^Invalid params of session/prompt: prompt: ") as refused:
        Peer(strict=True).send("session/prompt", params)
    assert "\n" not in str(refused.value)
    for peer in (Peer(), Peer(strict=True)):
        with pytest.raises(InvalidParams):
            peer.send("session/prompt", {"sessionId": "s", "prompt": [{"type": "text"}]})
        assert peer.reports == []


@pytest.mark.rule("session.mcp-servers-invalid-refused", "accord.agent-strict-mode")
@pytest.mark.dialect(33, 35)
def test_maps_of_servers_and_variables_are_rejected_in_strict_mode():
    server = {"command": "/bin/db", "args": [], "env": {"K": "V"}}
    params = {"cwd": "/w", "mcpServers": {"db": server}}
    assert Peer().send("session/new", params).mcp_servers[0].env[0].value == "V"
    with pytest.raises(InvalidParams):
        Peer(strict=True).send("session/new", params)
    with pytest.raises(InvalidParams):
        Peer(strict=True).send("terminal/create", {"sessionId": "s", "command": "x", "env": {}})
    for servers in ("x", [{"name": "a"}], [5]):
        with pytest.raises(InvalidParams):
            Peer().send("session/new", {"cwd": "/w", "mcpServers": servers})


@pytest.mark.rule("accord.client-strict-mode")
@pytest.mark.dialect(6, 7, 9, 22)
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("session/update", {"sessionId": "s", "sessionUpdate": "plan", "entries": []}),
        ("session/update", {"sessionId": "s", "update": {"type": "plan", "entries": []}}),
        ("session/update", chunk(text="hi")),
        ("session/request_permission", {"sessionId": "s", "permissionId": "p", "toolName": "rm", "args": {}}),
    ],
)
def test_strict_reading_rejects_what_tolerant_reading_repairs(method: str, params: Any):
    assert Peer().send(method, params)
    with pytest.raises(InvalidParams):
        Peer(strict=True).send(method, params)


@pytest.mark.dialect(9)
def test_a_chunk_with_several_blocks_becomes_several_updates():
    several = Peer().send("session/update", chunk(content=["a", {"type": "text", "text": "b"}]))
    assert isinstance(several, SplitUpdate)
    assert several.session_id == "s"
    assert [one.update.content.text for one in several] == ["a", "b"]
    alone = Peer().send("session/update", chunk(content=["a"]))
    assert alone.update.content.text == "a"


@pytest.mark.dialect(9)
def test_an_invalid_block_among_several_is_skipped():
    got = Peer().send("session/update", chunk(content=[HI, {"type": "hologram"}, HI]))
    assert len(got) == 2
    with pytest.raises(InvalidParams):
        Peer().send("session/update", chunk(content=[{"type": "hologram"}]))


@pytest.mark.rule("extension.unknown-update")
def test_an_unknown_update_is_kept_as_unknown():
    peer = Peer()
    got = peer.send("session/update", {"sessionId": "s", "update": {"sessionUpdate": "zzz", "x": 1}})
    assert got.update == Unknown("zzz", {"sessionUpdate": "zzz", "x": 1})
    assert peer.reports == []


def test_repairs_run_before_lenient_reading():
    call = {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "inProgress", "content": [HI]}
    update = Peer().send("session/update", {"sessionId": "s", "update": call}).update
    assert update.status == "in_progress"
    assert update.content[0].content.text == "hi"
    strict = Peer(strict=True).send("session/update", {"sessionId": "s", "update": call}).update
    assert not strict.status
    assert strict.content == []


def test_lenient_reading_applies_where_no_repair_helps():
    call = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "T", "kind": "weird", "status": 5}
    for peer in (Peer(), Peer(strict=True)):
        update = peer.send("session/update", {"sessionId": "s", "update": call}).update
        assert (update.title, update.kind or None) == ("T", None)
        assert peer.reports == []


@pytest.mark.rule("accord.agent-lone-surrogate", "accord.client-lone-surrogate")
def test_a_lone_surrogate_costs_one_character():
    for peer in (Peer(), Peer(strict=True)):
        read = peer.reader.params_reader(method_of("session/update"))
        raw = json.dumps(chunk(content={"type": "text", "text": "a?"})).replace("?", "\\ud83d").encode()
        assert read(raw).update.content.text == "a\ufffd"
        assert peer.reports == []


@pytest.mark.dialect(37)
def test_misplaced_capabilities_are_used_although_the_message_is_valid():
    peer = Peer()
    params = {"protocolVersion": 1, "capabilities": {"terminal": True}}
    assert peer.send("initialize", params).client_capabilities.terminal is True
    assert peer.rows == [37]
    assert not Peer(strict=True).send("initialize", params).client_capabilities


@pytest.mark.dialect(14)
def test_misplaced_input_of_a_permission_request_is_used_although_valid():
    params = {"sessionId": "s", "toolCall": {"toolCallId": "c", "input": {"rm": 1}}, "options": []}
    assert Peer().send("session/request_permission", params).tool_call.raw_input == {"rm": 1}
    assert not Peer(strict=True).send("session/request_permission", params).tool_call.raw_input


@pytest.mark.dialect(22)
def test_a_permission_request_without_a_session_belongs_to_the_active_turn():
    flat = {"permissionId": "p", "toolName": "rm", "args": {}}
    assert Peer(session="s1").send("session/request_permission", flat).session_id == "s1"
    with pytest.raises(InvalidParams):
        Peer(session=None).send("session/request_permission", flat)


@pytest.mark.dialect(3, 4, 42)
def test_results_with_extra_members():
    peer = Peer()
    turn = peer.answer("session/prompt", {"stopReason": "tool_use", "content": "all"})
    assert (turn.stop_reason, final_text(turn)) == ("end_turn", "all")
    models = {"currentModelId": "m", "availableModels": [{"modelId": "m", "name": "M"}]}
    [option] = peer.answer("session/new", {"sessionId": "s", "models": models}).config_options
    assert set_method_of(option) == "session/set_model"
    assert peer.rows == [4, 3, 42]


@pytest.mark.rule("prompt.unknown-stop-reason")
@pytest.mark.dialect(5)
def test_an_unknown_stop_reason_ends_the_turn():
    for peer in (Peer(), Peer(strict=True)):
        assert peer.answer("session/prompt", {"stopReason": "budget"}).stop_reason == Unknown(
            "budget", "budget"
        )


@pytest.mark.rule("session.load-null-result", "file.null-write-result")
@pytest.mark.dialect(103, 104)
def test_null_is_an_empty_result_in_both_modes():
    for peer in (Peer(), Peer(strict=True)):
        peer.answer("session/load", None)
        peer.answer("fs/write_text_file", None)
        with pytest.raises(BadAnswer, match=r"^session/new: the result cannot be read: "):
            peer.answer("session/new", None)


@pytest.mark.dialect(44)
def test_a_setting_answered_with_null_gives_no_options():
    assert Peer().answer("session/set_config_option", None).config_options == []
    with pytest.raises(BadAnswer):
        Peer(strict=True).answer("session/set_config_option", None)


@pytest.mark.rule("accord.dialect-is-not-consent", "accord.agent-strict-mode")
@pytest.mark.dialect(24, 25, 26)
def test_permission_answers_in_tolerant_and_strict_mode():
    peer = Peer()
    assert peer.decide({"outcome": {"outcome": "selected", "optionId": "y"}}).allowed
    assert peer.reports == []
    assert peer.decide({"outcome": "allowed", "option_id": "y"}).allowed
    assert peer.decide("allow_once").allowed
    assert peer.decide({"outcome": "selected", "optionId": "y"}).allowed
    assert peer.rows == [24, 25, 26]
    assert not peer.decide({"outcome": "allowed"}).allowed
    assert not Peer(strict=True).decide("allow_once").allowed
    assert not peer.reader.outcome_reader(OPTIONS)(b"{oops").allowed


@pytest.mark.dialect(43, 201)
def test_an_aliased_method_is_reported_and_read():
    peer = Peer()
    found = {alias.sent: alias for alias in peer.reader.aliases("agent", "request")}
    listing = peer.reader.params_reader(method_of("session/list"), found["sessions/list"])
    assert listing(b'{"cwd":"/w"}').cwd == "/w"
    setting = peer.reader.params_reader(method_of("session/set_config_option"), found["session/set_model"])
    assert setting(b'{"sessionId":"s","modelId":"m1"}').value == "m1"
    assert setting(b'{"sessionId":"s","modelId":"m2"}').config_id == "model"
    assert peer.rows == [43, 201]


@pytest.mark.rule("accord.agent-strict-mode", "accord.client-strict-mode")
@pytest.mark.dialect(21, 30, 43)
def test_a_strict_reader_has_no_aliases():
    strict = MessageReader(strict=True)
    for side in ("agent", "client", "proxy"):
        assert strict.aliases(side, "request") == strict.aliases(side, "notification") == ()


@settings(max_examples=repetitions(200))
@given(st.sampled_from(METHODS), JSON, st.booleans())
def test_any_message_is_read_or_rejected(method: Any, value: Any, strict: bool):
    reader = MessageReader(strict=strict, active_session=lambda: "s")
    reads: list[Callable[[bytes], Any]] = [reader.params_reader(method)]
    if method.result is not None:
        reads.append(reader.result_reader(method))
    refusals: list[str] = []
    for read in reads:
        try:
            read(json.dumps(value).encode())
        except (InvalidParams, BadAnswer) as error:
            refusals.append(str(error))
    assert not any("\n" in text for text in refusals)


_LINE = (
    b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":'
    b'{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"%b"}}}}'
)


_ODD_LINES = (
    _LINE % b"\xff",
    _LINE.replace(b'"params"', b'"_meta":"\xff","params"') % b"not text",
    _LINE.replace(b"{", b'{"id":1,', 1) % b"a request",
    _LINE.replace(b"session/update", b"session/other") % b"another method",
    _LINE.replace(b"text", b"kind", 1) % b"a dialect",
    _LINE % b"two" + _LINE % b"values",
    (_LINE % b"cut")[:-1],
    b"",
)


@pytest.mark.parametrize("odd", _ODD_LINES)
def test_lines_that_are_read_together_are_read_as_each_alone(odd: bytes):
    update = notification("client", "session/update")
    assert update is not None
    one, many = MessageReader().line_reader(update), MessageReader().lines_reader(update)
    plain = [_LINE % b"a", _LINE % "é".encode()]
    assert many(plain) == [one(line) for line in plain]
    assert one(odd) is None
    assert many([*plain, odd]) == [*many(plain), None]
    assert many([odd, *plain]) == [None, *many(plain)]


def test_an_error_is_one_short_line():
    with pytest.raises(InvalidParams) as refused:
        Peer().send(
            "session/request_permission",
            {
                "sessionId": "s",
                "toolCall": {"toolCallId": "c"},
                "options": [{"optionId": "a", "name": "A", "kind": "x\n" * 10_000}],
            },
        )
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 400


@given(lines=st.lists(st.sampled_from((*_ODD_LINES, _LINE % b"plain", OversizedFrame(10, b"{", b"}")))))
def test_many_lines_are_read_together_as_each_alone(lines: list[Any]) -> None:
    update = notification("client", "session/update")
    assert update is not None
    reader = MessageReader()
    one, many = reader.line_reader(update), reader.lines_reader(update)
    assert many(lines) == [one(line) if isinstance(line, bytes) else None for line in lines]
