"""The book that lets a dropped connection go on: what counts, what is kept, what is sent again."""

import json
from typing import Any

import pytest

from accord.wire.remote.ledger import ACK_FRAMES, MOST_BYTES, Gone, Ledger

HELLO = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}'


def welcome(resume: Any = {"version": 1}, id: Any = 0) -> bytes:  # noqa: B006 - not changed
    meta = {"accord": {"resume": resume}}
    return json.dumps({"jsonrpc": "2.0", "id": id, "result": {"agentCapabilities": {"_meta": meta}}}).encode()


def ack(received: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": "_accord/ack", "params": {"received": received}}).encode()


def answer(received: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": "accord-resume", "result": {"received": received}}).encode()


def agreed() -> Ledger:
    ledger = Ledger()
    ledger.sent(HELLO)
    assert ledger.heard([welcome()]) == [welcome()]
    assert ledger.resumable
    return ledger


@pytest.mark.parametrize(
    "told",
    [
        welcome({"version": 2}),
        welcome({"version": True}),
        welcome(None),
        welcome([]),
        b'{"jsonrpc":"2.0","id":0,"error":{"code":1,"message":"no"}}',
        b'{"jsonrpc":"2.0","id":0,"result":null}',
    ],
)
def test_without_the_announcement_nothing_is_kept(told: bytes):
    ledger = Ledger()
    ledger.sent(HELLO)
    ledger.heard([told])
    ledger.sent(b"x" * 1000)
    assert not ledger.resumable
    assert not ledger._kept
    assert ledger.heard([ack(1)]) == [ack(1)], "what a plain server says is the application's"
    assert ledger.confirmation() is None


def test_only_the_answer_to_initialize_announces():
    ledger = Ledger()
    ledger.sent(HELLO)
    ledger.heard([b"noise", welcome(id=1), b'{"jsonrpc":"2.0","id":0,"method":"x"}'])
    assert not ledger.resumable
    ledger.heard([welcome()])
    assert ledger.resumable


def test_a_connection_that_does_not_begin_with_initialize_is_never_resumable():
    ledger = Ledger()
    ledger.sent(b"[1]")
    ledger.sent(HELLO)
    ledger.heard([welcome()])
    assert not ledger.resumable


def test_confirmations_do_not_count_and_never_reach_the_application():
    ledger = agreed()
    assert ledger.heard([b"1", ack(1), b"2", ack("x"), ack(-1), ack(99)]) == [b"1", b"2"]
    assert ledger.received == 3
    request = json.loads(ledger.request("c1"))
    assert (request["id"], request["method"]) == ("accord-resume", "_accord/resume")
    assert request["params"] == {"connectionId": "c1", "received": 3}


def test_a_message_that_only_speaks_of_confirmations_is_the_applications():
    ledger = agreed()
    told = b'{"jsonrpc":"2.0","method":"_accord/other","params":"_accord/ack"}'
    asked = b'{"jsonrpc":"2.0","id":1,"method":"_accord/ack","params":{"received":1}}'
    assert ledger.heard([told, asked]) == [told, asked]


def test_what_the_server_missed_is_given_once_and_in_order():
    ledger = agreed()
    for frame in (b"1", b"2", b"3", b"4"):
        ledger.sent(frame)
    ledger.heard([ack(2)])
    assert ledger.missed(answer(3)) == [b"3", b"4"]
    assert ledger.missed(answer(5)) == []
    ledger.sent(b"5")
    assert ledger.missed(answer(5)) == [b"5"]


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (answer(99), "cannot say"),
        (answer(None), "cannot say"),
        (answer(1), "no longer here"),
        (
            b'{"jsonrpc":"2.0","id":"accord-resume","error":{"code":-32002,"message":"unknown\\u001b[2J"}}',
            "no longer has",
        ),
        (b'{"jsonrpc":"2.0","method":"session/update"}', "did not answer"),
        (b"nonsense", "did not answer"),
    ],
)
def test_an_answer_that_does_not_lead_back_says_why(told: bytes, why: str):
    ledger = agreed()
    ledger.sent(b"1")
    ledger.heard([ack(2)])
    with pytest.raises(Gone, match=why) as caught:
        ledger.missed(told)
    assert "\x1b" not in str(caught.value)


def test_what_arrives_is_confirmed_by_number_and_by_size():
    ledger = agreed()
    for number in range(ACK_FRAMES - 2):
        ledger.heard([b"%d" % number])
        assert ledger.confirmation() is None
    ledger.heard([b"last"])
    assert ledger.confirmation() == ack(ACK_FRAMES).replace(b" ", b"")
    assert ledger.confirmation() is None
    ledger.heard([b"x" * (1 << 20)])
    assert ledger.confirmation() == ack(ACK_FRAMES + 1).replace(b" ", b"")


def test_what_is_kept_is_bounded_and_the_way_back_ends_there():
    ledger = agreed()
    big = b"x" * (MOST_BYTES // 4)
    for _ in range(6):
        ledger.sent(big)
    assert ledger._kept_bytes <= MOST_BYTES
    with pytest.raises(Gone, match="3 messages that the server missed are no longer here"):
        ledger.missed(answer(0))
