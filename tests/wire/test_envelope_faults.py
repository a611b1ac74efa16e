"""Malformed lines: the peer gets the right error where one is due, and the connection stays usable."""

import asyncio
import json
from typing import Any

import pytest
from tests.wire.connection_pair import ConnectionPair, route

from accord.errors import BadAnswer, InternalError, InvalidParams, MethodNotFound, NotFound, RpcError
from accord.testing.raw_peer import RawPeer, raw_pair
from accord.wire.calls import Route
from accord.wire.connection import Connection
from accord.wire.envelope import InvalidMessage, parse_envelope
from accord.wire.memory_transport import memory_pair
from accord.wire.transport import OversizedFrame


def echo(params: dict[str, Any], call: Any) -> Any:
    return params


async def assert_still_serving(pair: ConnectionPair) -> None:
    assert await pair.peer.call("echo", {"still": "here"}) == {"still": "here"}


@pytest.mark.rule(
    "framing.agent-survives-invalid-json", "framing.survives-invalid-request", "framing.survives-batch"
)
@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{oops", -32700),
        (b"hello", -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"echo","params":{"a":NaN}}', -32700),
        (b"\xff\xfe\x00", -32700),
        (b"[" * 10_000 + b"]" * 10_000, -32700),
        (
            b'{"jsonrpc":"2.0","id":1,"method":"echo","params":' + b'{"a":' * 10_000 + b"1" + b"}" * 10_001,
            -32700,
        ),
        (b"1" + b"0" * 100_000, -32700),
        (b"null", -32600),
        (b"5", -32600),
        (b'"text"', -32600),
        (b"[]", -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"echo"}]', -32600),
        (b"{}", -32600),
        (b'{"jsonrpc":"2.0"}', -32600),
        (b'{"jsonrpc":"2.0","id":1}', -32600),
        (b'{"jsonrpc":"2.0","result":{}}', -32600),
        (b'{"jsonrpc":"2.0","id":{"a":1},"method":"echo"}', -32600),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"echo"}', -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"echo"}', -32600),
        (b'{"jsonrpc":"1.0","method":"echo"}', -32600),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_a_line_that_is_not_a_message_gets_an_error_response(line: bytes, code: int) -> None:
    pair = ConnectionPair(requests={"echo": echo})
    pair.peer.send(line)
    answer = await pair.peer.next()
    assert answer["error"]["code"] == code
    assert answer["error"]["message"] == {-32700: "Parse error", -32600: "Invalid request"}[code]
    assert answer["id"] is None
    await assert_still_serving(pair)


@pytest.mark.parametrize("bad", [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xc0\x80"])
async def test_invalid_utf8_anywhere_is_a_parse_error(bad: bytes) -> None:
    pair = ConnectionPair(
        requests={"echo": echo}, notifications={"note": lambda params: pytest.fail("handler was called")}
    )
    pair.peer.send(b'{"jsonrpc":"2.0","method":"note","params":{"a":"' + bad + b'"}}')
    assert (await pair.peer.next())["error"]["code"] == -32700
    pair.peer.send(b'{"jsonrpc":"2.0","id":1,"method":"echo","params":{},"other":"' + bad + b'"}')
    answer = await pair.peer.next()
    assert (answer["id"], answer["error"]["code"]) == (1, -32700)
    await assert_still_serving(pair)


@pytest.mark.parametrize("text", ["plain", "größer", "日本", "🙂"])
async def test_text_in_utf8_is_read(text: str) -> None:
    line = f'{{"jsonrpc":"2.0","id":1,"method":"echo","params":{{"text":"{text}"}}}}'.encode()
    pair = ConnectionPair(requests={"echo": echo})
    pair.peer.send(line)
    assert (await pair.peer.next())["result"] == {"text": text}
    assert parse_envelope(line).method == "echo"


@pytest.mark.parametrize("bad", [b"\xff", b"\xc3", b"\xed\xa0\x80"])
def test_an_envelope_of_invalid_utf8_is_refused_with_its_id(bad: bytes) -> None:
    line = b'{"jsonrpc":"2.0","id":7,"method":"echo","params":{"text":"' + bad + b'"}}'
    with pytest.raises(InvalidMessage, match="not UTF-8") as caught:
        parse_envelope(line)
    assert (caught.value.code, caught.value.id) == (-32700, 7)


@pytest.mark.parametrize("answer_invalid", [True, False], ids=["agent", "client"])
@pytest.mark.parametrize(
    "call",
    [
        '{"jsonrpc":"2.0","id":"x","method":7}',
        '{"jsonrpc":"1.0","id":"x","method":"echo"}',
        '{"jsonrpc":2,"id":"x","method":"echo"}',
    ],
)
async def test_a_malformed_request_is_refused_with_its_own_id(call: str, answer_invalid: bool) -> None:
    pair = ConnectionPair(requests={"echo": echo}, answer_invalid=answer_invalid)
    pair.peer.send(call)
    answer = await pair.peer.next()
    assert (answer["id"], answer["error"]["code"]) == ("x", -32600)
    await assert_still_serving(pair)


@pytest.mark.rule("framing.client-survives-invalid-json")
async def test_a_client_skips_and_reports_noise_without_answering() -> None:
    pair = ConnectionPair(requests={"echo": echo}, answer_invalid=False)
    for line in (b"Welcome to the agent!", b"null", b"42", b"[]", b"{}", b'{"level":"info","msg":"ready"}'):
        pair.peer.send(line)
    await assert_still_serving(pair)
    assert len(pair.peer.received) == 1
    assert [report.kind for report in pair.reports] == [
        "noise",
        "invalid",
        "invalid",
        "invalid",
        "invalid",
        "invalid",
    ]
    assert pair.reports[0].frame == b"Welcome to the agent!"


@pytest.mark.rule(
    "framing.agent-returns-id",
    "framing.client-returns-id",
    "framing.agent-one-answer",
    "framing.client-one-answer",
)
@pytest.mark.parametrize("id", [0, -7, "a-1", "", "0", 2**53 + 1, 2**63, 10**30, None, "\u00e9\n"])
async def test_ids_are_echoed_exactly(id: Any) -> None:
    pair = ConnectionPair(requests={"echo": echo})
    pair.peer.send({"jsonrpc": "2.0", "id": id, "method": "echo", "params": {}})
    answer = await pair.peer.next()
    assert answer["id"] == id
    assert type(answer["id"]) is type(id)
    assert ("result" in answer) != ("error" in answer)


@pytest.mark.rule(
    "framing.agent-silent-on-notification",
    "framing.client-silent-on-notification",
    "framing.agent-unknown-notification",
    "framing.client-unknown-notification",
    "cancel-request.agent-other-notification",
    "cancel-request.client-other-notification",
)
async def test_notifications_are_never_answered() -> None:
    pair = ConnectionPair(requests={"echo": echo}, notifications={"known": lambda params: None})
    for method in ("known", "unknown", "_vendor/x", "$/progress", "session/cancel"):
        pair.peer.notify(method, {"a": 1})
        pair.peer.notify(method, [])
    await assert_still_serving(pair)
    assert len(pair.peer.received) == 1


@pytest.mark.rule(
    "framing.agent-unknown-method",
    "framing.client-unknown-method",
    "framing.agent-unknown-extension",
    "framing.client-unknown-extension",
)
@pytest.mark.parametrize("method", ["nope/nope", "_test/x", ""])
async def test_an_unknown_request_is_answered_method_not_found(method: str) -> None:
    pair = ConnectionPair()
    answer = await pair.peer.answer_to(pair.peer.ask(method))
    assert answer["error"]["code"] == -32601


@pytest.mark.rule("framing.agent-error-members", "framing.client-error-members")
async def test_errors_have_an_integer_code_and_a_string_message() -> None:
    def fails(params: dict[str, Any], call: Any) -> Any:
        raise RuntimeError("secret detail")

    def refuses(params: dict[str, Any], call: Any) -> Any:
        raise NotFound("Session not found", {"sessionId": "x"})

    pair = ConnectionPair(requests={"fails": fails, "refuses": refuses, "echo": echo})
    failed = (await pair.peer.answer_to(pair.peer.ask("fails")))["error"]
    assert failed["code"] == -32603
    assert isinstance(failed["message"], str)
    assert "secret" not in json.dumps(failed)
    refused = (await pair.peer.answer_to(pair.peer.ask("refuses")))["error"]
    assert refused == {"code": -32002, "message": "Session not found", "data": {"sessionId": "x"}}
    positional = (await pair.peer.answer_to(pair.peer.ask("echo", [1])))["error"]
    assert positional["code"] == -32602


async def test_a_result_that_is_not_json_is_answered_with_an_error() -> None:
    pair = ConnectionPair(requests={"bad": lambda params, call: object()})
    assert (await pair.peer.answer_to(pair.peer.ask("bad")))["error"]["code"] == -32603


async def test_error_data_that_is_not_json_is_omitted() -> None:
    def bad(params: dict[str, Any], call: Any) -> Any:
        raise InvalidParams("no", object())

    pair = ConnectionPair(requests={"bad": bad})
    assert (await pair.peer.answer_to(pair.peer.ask("bad")))["error"] == {"code": -32602, "message": "no"}


@pytest.mark.rule("accord.agent-lone-surrogate", "accord.client-lone-surrogate")
async def test_a_lone_surrogate_becomes_a_replacement_character_and_the_message_is_kept() -> None:
    pair = ConnectionPair(requests={"echo": echo})
    pair.peer.send(
        r'{"jsonrpc":"2.0","id":1,"method":"echo","params":{"text":"a\ud83d","ok":"\ud83d\ude00"}}'
    )
    assert (await pair.peer.next())["result"] == {"text": "a\ufffd", "ok": "\U0001f600"}


async def test_a_missing_jsonrpc_member_is_accepted_unless_strict() -> None:
    tolerant, strict = (
        ConnectionPair(requests={"echo": echo}),
        ConnectionPair(requests={"echo": echo}, strict=True),
    )
    for pair in (tolerant, strict):
        pair.peer.send('{"id":1,"method":"echo"}')
    assert "result" in await tolerant.peer.next()
    assert (await strict.peer.next())["error"]["code"] == -32600


@pytest.mark.parametrize(
    "answer",
    [
        '{"jsonrpc":"2.0","id":{"a":1},"result":{}}',
        '{"jsonrpc":"2.0","id":99,"result":{}}',
        '{"jsonrpc":"2.0","id":"01x","result":{}}',
        '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}',
        '{"jsonrpc":"2.0","id":1.0,"result":{}}',
        '{"jsonrpc":"2.0","id":[1],"error":"x"}',
    ],
)
async def test_responses_with_unknown_ids_are_ignored(answer: str) -> None:
    pair = ConnectionPair(requests={"echo": echo}, answer_invalid=False)
    pending = asyncio.create_task(pair.request("ask"))
    request = await pair.peer.next("ask")
    pair.peer.send(answer)
    await assert_still_serving(pair)
    assert not pending.done()
    pair.peer.reply(request, "right")
    assert await pending == "right"


@pytest.mark.parametrize("strict", [False, True])
async def test_a_numeric_id_returned_as_a_string_is_matched_unless_strict(strict: bool) -> None:
    """It is reported in both cases: the peer changed the id."""
    pair = ConnectionPair(requests={"echo": echo}, strict=strict, answer_invalid=False)
    pending = asyncio.create_task(pair.request("ask"))
    request = await pair.peer.next("ask")
    pair.peer.send({"jsonrpc": "2.0", "id": str(request["id"]), "result": "right"})
    await assert_still_serving(pair)
    assert [report.kind for report in pair.reports] == ["unmatched" if strict else "invalid"]
    assert pending.done() is not strict
    if strict:
        pair.peer.reply(request, "right")
    assert await pending == "right"


async def test_a_second_response_to_the_same_request_is_reported_and_ignored() -> None:
    pair = ConnectionPair(requests={"echo": echo})
    pending = asyncio.create_task(pair.request("ask"))
    request = await pair.peer.next("ask")
    pair.peer.reply(request, "first")
    pair.peer.reply(request, "second")
    assert await pending == "first"
    await assert_still_serving(pair)
    assert [report.kind for report in pair.reports] == ["unmatched"]


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        ('"just text"', InternalError, "just text"),
        ('{"code":-32601,"message":"Method not found"}', MethodNotFound, "Method not found"),
        ('{"code":"x","message":5}', InternalError, "5"),
        ("7", InternalError, "malformed"),
        ('{"code":-32603,"message":" "}', InternalError, "^The peer gave no reason \\[-32603\\]$"),
        ('{"code":-32603,"message":{"a":1}}', InternalError, r"gave no reason \(a: 1\)"),
        ('{"code":12345,"message":"own","data":{"k":[1]}}', RpcError, "own"),
    ],
)
async def test_error_responses_of_any_shape_fail_the_request_with_their_text(
    error: str, kind: type, text: str
) -> None:
    pair = ConnectionPair()
    pending = asyncio.create_task(pair.request("ask"))
    request = await pair.peer.next("ask")
    pair.peer.send(f'{{"jsonrpc":"2.0","id":{request["id"]},"error":{error}}}')
    with pytest.raises(kind, match=text):
        await pending


async def test_a_response_with_neither_result_nor_error_fails_its_request() -> None:
    pair = ConnectionPair()
    pending = asyncio.create_task(pair.request("ask"))
    request = await pair.peer.next("ask")
    pair.peer.send({"jsonrpc": "2.0", "id": request["id"]})
    with pytest.raises(BadAnswer, match="neither result nor error"):
        await pending


async def test_a_null_error_next_to_a_result_is_a_success() -> None:
    pair = ConnectionPair()
    pending = asyncio.create_task(pair.request("ask"))
    request = await pair.peer.next("ask")
    pair.peer.send({"jsonrpc": "2.0", "id": request["id"], "result": 1, "error": None})
    assert await pending == 1


async def test_meta_keys_that_look_like_envelope_members_are_ignored() -> None:
    pair = ConnectionPair(requests={"echo": echo})
    params = {"_meta": {"id": 5, "method": "evil", "result": 1, "sessionId": "other", "params": {}}}
    assert await pair.peer.call("echo", params) == params


async def test_an_oversized_request_is_refused_with_its_id() -> None:
    pair = ConnectionPair(requests={"echo": echo})
    head = b'{"jsonrpc":"2.0","id":41,"method":"echo","params":{"text":"aaaa'
    pair.connection.frames([OversizedFrame(100_000_000, head, b'aaaa"}}')])
    answer = await pair.peer.next()
    assert (answer["id"], answer["error"]["code"]) == (41, -32600)
    assert "100000000" in answer["error"]["data"]
    await assert_still_serving(pair)


async def test_an_oversized_response_fails_its_request() -> None:
    pair = ConnectionPair()
    pending = asyncio.create_task(pair.request("ask"))
    request = await pair.peer.next("ask")
    head = b'{"jsonrpc":"2.0","id":%d,"result":{"id":7,"text":"aaaa' % request["id"]
    pair.connection.frames([OversizedFrame(100_000_000, head, b'aaaa"}}')])
    with pytest.raises(BadAnswer, match="100000000 bytes"):
        await pending


async def test_an_oversized_response_with_its_id_at_the_end_fails_its_request() -> None:
    pair = ConnectionPair()
    pending = asyncio.create_task(pair.request("ask"))
    request = await pair.peer.next("ask")
    tail = b'"id":7}},"jsonrpc":"2.0","id":%d}' % request["id"]
    pair.connection.frames([OversizedFrame(100_000_000, b'{"result":{"text":"aaaa', tail)])
    with pytest.raises(BadAnswer):
        await pending


async def test_exceptions_of_the_application_do_not_stop_the_connection() -> None:
    def boom(*anything: Any) -> Any:
        raise RuntimeError("boom")

    async def later(params: dict[str, Any], call: Any) -> Any:
        call.after_answer(boom)
        return params

    ours, theirs = memory_pair()
    broken = Route(boom, boom, boom)
    connection = Connection(
        ours,
        requests={"broken": broken, "later": route(later), "echo": route(echo)},
        notifications={"broken": broken, "fails": route(boom)},
        observer=boom,
    )
    peer = RawPeer(theirs)
    connection.start()
    peer.send("noise")
    peer.notify("broken", {})
    peer.notify("fails", {})
    peer.notify("unknown", {})
    assert (await peer.answer_to(peer.ask("broken")))["error"]["code"] == -32603
    assert await peer.call("later", {"a": 1}) == {"a": 1}
    assert await peer.call("echo", {"b": 1}) == {"b": 1}
    await connection.aclose()


async def test_an_exception_while_decoding_a_response_reaches_only_its_caller() -> None:
    ours, peer = raw_pair()
    connection = Connection(ours, requests={}, notifications={})
    connection.start()

    def broken(_raw: Any) -> Any:
        raise ZeroDivisionError

    failing = asyncio.create_task(connection.request("x", {}, read=broken))
    working = asyncio.create_task(connection.request("y", {}, read=bytes))
    first, second = await peer.next("x"), await peer.next("y")
    peer.reply(first, {})
    peer.reply(second, {})
    with pytest.raises(ZeroDivisionError):
        await failing
    assert await working == b"{}"
    await connection.aclose()
