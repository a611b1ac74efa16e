"""Cancelled requests are answered exactly once, and the end of a connection settles every call."""

import asyncio
from typing import Any

import pytest
from tests.wire.connection_pair import ConnectionPair, make_limits

from accord.errors import ConnectionClosed, RequestCancelled, UsageError
from accord.testing.fake_clock import FakeClock
from accord.testing.raw_peer import RawPeer
from accord.wire.connection import Connection
from accord.wire.memory_transport import memory_pair
from accord.wire.transport import TransportEnd


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


class Busy:
    """A request handler that runs until it is cancelled."""

    def __init__(self, on_cancel: Any = None) -> None:
        self.started = 0
        self.cancelled = 0
        self.on_cancel = on_cancel

    async def __call__(self, params: dict[str, Any], call: Any) -> Any:
        self.started += 1
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            if self.on_cancel is not None:
                return self.on_cancel
            raise


@pytest.mark.rule(
    "cancel-request.agent-still-answered",
    "cancel-request.client-still-answered",
    "cancel-request.agent-own-abort",
    "cancel-request.client-own-abort",
)
async def test_a_cancelled_request_is_answered_once_with_request_cancelled() -> None:
    busy = Busy()
    pair = ConnectionPair(requests={"busy": busy, "echo": lambda params, call: params})
    id = pair.peer.ask("busy")
    await pair.peer.call("echo")
    pair.peer.notify("$/cancel_request", {"requestId": id})
    assert (await pair.peer.answer_to(id))["error"]["code"] == -32800
    await pair.peer.call("echo")
    assert [message.get("id") for message in pair.peer.received].count(id) == 1


@pytest.mark.rule("cancel-request.agent-still-answered", "cancel-request.client-still-answered")
async def test_a_handler_may_answer_a_cancelled_request_with_a_result() -> None:
    pair = ConnectionPair(requests={"busy": Busy({"stopReason": "cancelled"})})
    id = pair.peer.ask("busy")
    await settle()
    pair.peer.notify("$/cancel_request", {"requestId": id})
    assert (await pair.peer.answer_to(id))["result"] == {"stopReason": "cancelled"}


async def test_a_request_cancelled_before_its_first_step_is_answered_and_never_runs() -> None:
    busy = Busy()
    pair = ConnectionPair(requests={"busy": busy})
    id = pair.peer.ask("busy")
    pair.peer.notify("$/cancel_request", {"requestId": id})
    assert (await pair.peer.answer_to(id))["error"]["code"] == -32800
    assert busy.started == 0


async def test_a_task_returned_by_a_handler_is_cancelled_with_its_request() -> None:
    work = asyncio.create_task(asyncio.Event().wait())
    pair = ConnectionPair(requests={"busy": lambda params, call: work})
    id = pair.peer.ask("busy")
    pair.peer.notify("$/cancel_request", {"requestId": id})
    assert (await pair.peer.answer_to(id))["error"]["code"] == -32800
    await settle()
    assert work.cancelled()


async def test_a_request_cancelled_while_queued_never_starts() -> None:
    gate = asyncio.Event()
    busy = Busy()
    pair = ConnectionPair(requests={"busy": busy}, notifications={"slow": lambda params: gate.wait()})
    pair.peer.notify("slow", {"sessionId": "s"})
    id = pair.peer.ask("busy", {"sessionId": "s"})
    pair.peer.notify("$/cancel_request", {"requestId": id})
    await settle()
    gate.set()
    assert (await pair.peer.answer_to(id))["error"]["code"] == -32800
    assert busy.started == 0


@pytest.mark.rule("cancel-request.agent-unknown-id", "cancel-request.client-unknown-id")
@pytest.mark.parametrize(
    "params", [{"requestId": 9999}, {"requestId": None}, {}, None, {"requestId": {"a": 1}}, [], "x"]
)
async def test_cancelling_an_unknown_request_has_no_effect(params: Any) -> None:
    pair = ConnectionPair(requests={"echo": lambda params, call: params})
    await pair.peer.call("echo", {"n": 1})
    pair.peer.notify("$/cancel_request", params)
    pair.peer.notify("$/cancel_request", {"requestId": "raw-1"})
    assert await pair.peer.call("echo", {"n": 2}) == {"n": 2}
    assert len(pair.peer.received) == 2


async def test_cancelling_a_call_notifies_the_peer_and_ignores_the_late_response() -> None:
    pair = ConnectionPair(requests={"echo": lambda params, call: params})
    pending = asyncio.create_task(pair.request("slow"))
    request = await pair.peer.next("slow")
    pending.cancel()
    cancel = await pair.peer.next("$/cancel_request")
    assert cancel["params"] == {"requestId": request["id"]}
    pair.peer.refuse(request, -32800)
    await pair.peer.call("echo")
    with pytest.raises(asyncio.CancelledError):
        await pending


async def test_a_request_cancelled_response_raises_request_cancelled() -> None:
    pair = ConnectionPair()
    pending = asyncio.create_task(pair.request("slow"))
    pair.peer.refuse(await pair.peer.next("slow"), -32800, "Request cancelled")
    with pytest.raises(RequestCancelled):
        await pending


@pytest.mark.rule("framing.agent-dies")
async def test_the_end_of_the_connection_fails_every_open_call() -> None:
    pair = ConnectionPair()
    pending = [asyncio.create_task(pair.request(f"ask{n}", key=n % 2 or None)) for n in range(3)]
    await pair.peer.next("ask0")
    await pair.peer.aclose()
    for task in pending:
        with pytest.raises(ConnectionClosed, match="was not answered"):
            await task
    with pytest.raises(ConnectionClosed):
        await pair.request("later")
    await pair.connection.wait_ended()


async def test_connection_closed_carries_exit_code_and_stderr() -> None:
    pair = ConnectionPair()
    pending = asyncio.create_task(pair.request("ask"))
    await pair.peer.next("ask")
    pair.connection.ended(TransportEnd("agent exited with code 3", exit_code=3, stderr="boom\n"))
    with pytest.raises(ConnectionClosed) as caught:
        await pending
    assert caught.value.exit_code == 3
    assert str(caught.value).endswith("boom")
    assert "code 3" in str(caught.value)


async def test_notifications_before_the_end_are_handled_before_calls_fail() -> None:
    log: list[str] = []

    async def on_update(params: dict[str, Any]) -> None:
        await asyncio.sleep(0)
        log.append(f"update {params['n']}")

    pair = ConnectionPair(notifications={"update": on_update})
    pending = asyncio.create_task(pair.request("prompt", key="s"))
    await pair.peer.next("prompt")
    for n in range(3):
        pair.peer.notify("update", {"sessionId": "s", "n": n})
    await pair.peer.aclose()
    with pytest.raises(ConnectionClosed):
        await pending
    assert log == ["update 0", "update 1", "update 2"]


async def test_a_stuck_handler_delays_the_end_only_for_the_grace_period() -> None:
    clock = FakeClock()
    pair = ConnectionPair(
        notifications={"stuck": lambda params: asyncio.Event().wait()},
        clock=clock,
        limits=make_limits(grace=5.0),
    )
    pending = asyncio.create_task(pair.request("prompt", key="s"))
    await pair.peer.next("prompt")
    pair.peer.notify("stuck", {"sessionId": "s"})
    await pair.peer.aclose()
    await settle()
    assert not pending.done()
    await clock.advance(5.0)
    with pytest.raises(ConnectionClosed):
        await pending
    closing = asyncio.create_task(pair.connection.aclose())
    await clock.advance(5.0)
    await closing


async def test_no_queued_handler_starts_after_closing_cancelled_one() -> None:
    clock = FakeClock()
    started: list[int] = []

    async def stuck(params: dict[str, Any]) -> None:
        started.append(params["n"])
        await asyncio.Event().wait()

    pair = ConnectionPair(notifications={"stuck": stuck}, clock=clock, limits=make_limits(grace=5.0))
    for n in range(3):
        pair.peer.notify("stuck", {"sessionId": "s", "n": n})
    await settle()
    closing = asyncio.create_task(pair.connection.aclose())
    await clock.advance(10.0)
    await closing
    assert started == [0]
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_closing_cancels_running_requests_and_answers_them() -> None:
    busy = Busy()
    pair = ConnectionPair(requests={"busy": busy})
    id = pair.peer.ask("busy")
    await settle()
    await pair.connection.aclose()
    assert (await pair.peer.answer_to(id))["error"]["code"] == -32800
    assert busy.cancelled == 1
    await pair.connection.aclose()


async def test_closing_also_cancels_requests_that_share_an_id() -> None:
    busy = Busy()
    pair = ConnectionPair(requests={"busy": busy}, clock=FakeClock())
    pair.peer.ask("busy", id=7)
    pair.peer.ask("busy", id=7)
    await settle()
    await pair.connection.aclose()
    assert (busy.started, busy.cancelled) == (2, 2)


async def test_a_request_that_arrives_while_closing_never_starts() -> None:
    busy = Busy()
    pair = ConnectionPair(requests={"busy": busy}, clock=FakeClock())
    pair.peer.ask("busy")
    await pair.connection.aclose()
    assert busy.started == 0


async def test_a_connection_can_be_closed_before_it_was_started() -> None:
    ours, theirs = memory_pair()
    peer = RawPeer(theirs)
    await Connection(ours, requests={}, notifications={}).aclose()
    await peer.wait_end()


async def test_a_handler_may_close_its_own_connection() -> None:
    async def leave(params: dict[str, Any], call: Any) -> None:
        await pair.connection.aclose()

    pair = ConnectionPair(requests={"leave": leave}, clock=FakeClock())
    pair.peer.ask("leave")
    await pair.peer.wait_end()


async def test_parameters_that_are_not_json_are_refused_before_sending() -> None:
    pair = ConnectionPair()
    endless: list[Any] = []
    endless.append(endless)
    for params in ({"a": object()}, {"a": endless}, {("a", 1): 2}):
        with pytest.raises(UsageError, match=r"_x/ask cannot be sent: its parameters are not JSON "):
            await pair.request("_x/ask", params)
        with pytest.raises(UsageError, match=r"_x/tell cannot be sent: its parameters are not JSON "):
            pair.connection.notify("_x/tell", params)
    pending = asyncio.create_task(pair.request("_x/ask", {"a": 1}))
    assert (await pair.peer.next())["params"] == {"a": 1}
    await pair.connection.aclose()  # settles open calls; asyncio would report one that is never awaited
    with pytest.raises(ConnectionClosed):
        await pending


async def test_closing_waits_for_a_notification_queued_behind_a_request() -> None:
    finished: list[str] = []
    closing: list[asyncio.Task[None]] = []

    async def quick(params: dict[str, Any], call: Any) -> None:
        finished.append("request")

    async def late(params: dict[str, Any]) -> None:
        await settle()
        finished.append("notification")

    def close(end: TransportEnd) -> None:
        closing.append(asyncio.create_task(pair.connection.aclose()))

    pair = ConnectionPair(requests={"quick": quick}, notifications={"late": late}, on_end=close)
    pair.peer.ask("quick", {"sessionId": "s"})
    pair.peer.notify("late", {"sessionId": "s"})
    await pair.peer.aclose()
    await settle()
    await closing[0]
    assert finished == ["request", "notification"]
