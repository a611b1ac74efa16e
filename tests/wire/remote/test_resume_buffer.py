"""The resume buffer: which frames count, which are kept, and which are sent again."""

import json
from typing import Any

import pytest

from accord.wire.remote.resume_buffer import ACK_FRAMES, MAX_KEPT_BYTES, ResumeBuffer, ResumeFailed

INITIALIZE = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}'


def initialize_response(resume: Any = {"version": 1}, id: Any = 0) -> bytes:  # noqa: B006 - never modified
    meta = {"accord": {"resume": resume}}
    return json.dumps({"jsonrpc": "2.0", "id": id, "result": {"agentCapabilities": {"_meta": meta}}}).encode()


def ack(received: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": "_accord/ack", "params": {"received": received}}).encode()


def resume_response(received: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": "accord-resume", "result": {"received": received}}).encode()


def resumable_ledger() -> ResumeBuffer:
    buffer = ResumeBuffer()
    buffer.keep(INITIALIZE)
    assert buffer.receive([initialize_response()]) == [initialize_response()]
    assert buffer.resumable
    return buffer


@pytest.mark.parametrize(
    "frame",
    [
        initialize_response({"version": 2}),
        initialize_response({"version": True}),
        initialize_response(None),
        initialize_response([]),
        b'{"jsonrpc":"2.0","id":0,"error":{"code":1,"message":"no"}}',
        b'{"jsonrpc":"2.0","id":0,"result":null}',
    ],
)
def test_nothing_is_kept_when_the_server_does_not_announce_resume(frame: bytes):
    buffer = ResumeBuffer()
    buffer.keep(INITIALIZE)
    buffer.receive([frame])
    buffer.keep(b"x" * 1000)
    assert not buffer.resumable
    assert not buffer._kept
    assert buffer.receive([ack(1)]) == [ack(1)], "without resume support, acks go to the application"
    assert buffer.take_confirmation() is None


def test_only_the_initialize_response_can_announce_resume():
    buffer = ResumeBuffer()
    buffer.keep(INITIALIZE)
    buffer.receive([b"noise", initialize_response(id=1), b'{"jsonrpc":"2.0","id":0,"method":"x"}'])
    assert not buffer.resumable
    buffer.receive([initialize_response()])
    assert buffer.resumable


def test_a_connection_that_does_not_start_with_initialize_is_never_resumable():
    buffer = ResumeBuffer()
    buffer.keep(b"[1]")
    buffer.keep(INITIALIZE)
    buffer.receive([initialize_response()])
    assert not buffer.resumable


def test_acks_are_not_counted_and_never_reach_the_application():
    buffer = resumable_ledger()
    assert buffer.receive([b"1", ack(1), b"2", ack("x"), ack(-1), ack(99)]) == [b"1", b"2"]
    assert buffer.received == 3
    request = json.loads(buffer.resume_request("c1"))
    assert (request["id"], request["method"]) == ("accord-resume", "_accord/resume")
    assert request["params"] == {"connectionId": "c1", "received": 3}


def test_a_message_that_only_mentions_acks_reaches_the_application():
    buffer = resumable_ledger()
    frame = b'{"jsonrpc":"2.0","method":"_accord/other","params":"_accord/ack"}'
    request = b'{"jsonrpc":"2.0","id":1,"method":"_accord/ack","params":{"received":1}}'
    assert buffer.receive([frame, request]) == [frame, request]


def test_missed_frames_are_returned_in_order():
    buffer = resumable_ledger()
    for frame in (b"1", b"2", b"3", b"4"):
        buffer.keep(frame)
    buffer.receive([ack(2)])
    assert buffer.frames_to_resend(resume_response(3)) == [b"3", b"4"]
    assert buffer.frames_to_resend(resume_response(5)) == []
    buffer.keep(b"5")
    assert buffer.frames_to_resend(resume_response(5)) == [b"5"]


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (resume_response(99), "invalid count"),
        (resume_response(None), "invalid count"),
        (resume_response(1), "no longer kept"),
        (
            b'{"jsonrpc":"2.0","id":"accord-resume","error":{"code":-32002,"message":"unknown\\u001b[2J"}}',
            "no longer has",
        ),
        (b'{"jsonrpc":"2.0","method":"session/update"}', "did not answer"),
        (b"nonsense", "did not answer"),
    ],
)
def test_a_resume_response_that_cannot_be_used_raises_a_reason(frame: bytes, why: str):
    buffer = resumable_ledger()
    buffer.keep(b"1")
    buffer.receive([ack(2)])
    with pytest.raises(ResumeFailed, match=why) as caught:
        buffer.frames_to_resend(frame)
    assert "\x1b" not in str(caught.value)


def test_received_frames_are_acked_by_count_and_by_size():
    buffer = resumable_ledger()
    for number in range(ACK_FRAMES - 2):
        buffer.receive([b"%d" % number])
        assert buffer.take_confirmation() is None
    buffer.receive([b"last"])
    assert buffer.take_confirmation() == ack(ACK_FRAMES).replace(b" ", b"")
    assert buffer.take_confirmation() is None
    buffer.receive([b"x" * (1 << 20)])
    assert buffer.take_confirmation() == ack(ACK_FRAMES + 1).replace(b" ", b"")


def test_kept_frames_are_bounded_and_resume_fails_beyond_the_bound():
    buffer = resumable_ledger()
    big = b"x" * (MAX_KEPT_BYTES // 4)
    for _ in range(6):
        buffer.keep(big)
    assert buffer._kept_bytes <= MAX_KEPT_BYTES
    with pytest.raises(ResumeFailed, match="3 messages that the server missed are no longer kept"):
        buffer.frames_to_resend(resume_response(0))
