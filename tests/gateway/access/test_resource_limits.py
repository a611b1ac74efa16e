"""Limits: each error names its limit, per token and in total. A released resource is returned once."""

import msgspec
import pytest

from accord.errors import to_rpc_error
from accord.gateway.access.access_tokens import TokenRights
from accord.gateway.access.resource_limits import (
    LIMIT_REACHED,
    GatewayLimitReached,
    GatewayLimits,
    LimitCounter,
)
from accord.testing import FakeClock

A, B, C = TokenRights("a"), TokenRights("b"), TokenRights("c")


def limit_counter(**limits) -> LimitCounter:
    return LimitCounter(GatewayLimits(**limits), FakeClock())


@pytest.mark.parametrize("thing", ["connection", "session"])
def test_connections_and_sessions_are_limited_per_token_and_in_total(thing: str) -> None:
    counted = limit_counter(connections=2, total_connections=3, sessions=2, total_sessions=3)
    take = getattr(counted, f"lease_{thing}")
    first, _ = take(A), take(A)
    with pytest.raises(GatewayLimitReached, match="of this token") as reached:
        take(A)
    assert (reached.value.limit, reached.value.setting, reached.value.status) == (2, f"{thing}s", 429)
    take(B)
    with pytest.raises(GatewayLimitReached, match="whole gateway"):
        take(C)
    first.release()
    take(C)
    assert getattr(counted, f"{thing}s") == 3


def test_a_lease_is_released_once() -> None:
    counted = limit_counter(connections=2)
    first, second = counted.lease_connection(A), counted.lease_connection(A)
    first.release()
    first.release()
    assert counted.connections == 1
    with second:
        pass
    second.release()
    assert counted.connections == 0


def test_a_rejected_request_takes_no_lease() -> None:
    counted = limit_counter(connections=5, total_connections=1)
    rotated_files = counted.lease_connection(A)
    for _ in range(10):
        with pytest.raises(GatewayLimitReached):
            counted.lease_connection(B)
    rotated_files.release()
    assert counted.connections == 0
    for lease in [counted.lease_connection(B)]:
        lease.release()


def test_processes_are_counted_over_all_agents() -> None:
    counted = limit_counter(total_processes=2)
    one, _ = counted.lease_process("x"), counted.lease_process("y")
    with pytest.raises(GatewayLimitReached, match="running agents"):
        counted.lease_process("z")
    one.release()
    counted.lease_process("z")


def test_unread_bytes_are_limited_per_token_and_in_total() -> None:
    counted = limit_counter(buffered_bytes=2048, total_buffered_bytes=3072)
    one, other, third = counted.buffered_bytes(A), counted.buffered_bytes(A), counted.buffered_bytes(B)
    one.add(1500)
    with pytest.raises(GatewayLimitReached, match="unread bytes of this token"):
        other.add(600)
    other.add(500)
    with pytest.raises(GatewayLimitReached, match="whole gateway"):
        third.add(1100)
    one.remove(10_000)
    assert (one.size, counted.buffered) == (0, 500)
    third.add(1100)
    third.release()
    third.release()
    assert counted.buffered == 500


async def test_a_token_that_sends_too_fast_gets_a_retry_delay() -> None:
    clock = FakeClock()
    counted = LimitCounter(GatewayLimits(messages_per_second=10, message_burst=20), clock)
    for _ in range(20):
        counted.count_message(A)
    with pytest.raises(GatewayLimitReached) as reached:
        counted.count_message(A)
    assert reached.value.retry_after == pytest.approx(0.1)
    counted.count_message(B)
    await clock.advance(0.5)
    for _ in range(5):
        counted.count_message(A)
    with pytest.raises(GatewayLimitReached):
        counted.count_message(A)


def test_all_tokens_share_a_total_rate() -> None:
    counted = limit_counter(messages_per_second=5, message_burst=5, total_messages_per_second=10)
    for rights in (A, A, A, A, B, B, B, B, C, C):
        counted.count_message(rights)
    with pytest.raises(GatewayLimitReached, match="whole gateway"):
        counted.count_message(C)


def test_the_rpc_error_names_the_limit() -> None:
    error = to_rpc_error(GatewayLimitReached("open connections of this token", 256, "connections"))
    assert (error.code, error.data) == (LIMIT_REACHED, {"limit": "connections", "most": 256})
    assert "at most 256" in error.message


@pytest.mark.parametrize(
    "text", ['{"connections": 0}', '{"connection": 5}', '{"messageBytes": 1}', '{"messagesPerSecond": -1}']
)
def test_invalid_limits_are_rejected(text: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(text, type=GatewayLimits)
