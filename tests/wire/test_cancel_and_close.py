"""Single requests can be given up, each still answered once; the end of a connection settles everything."""

import asyncio
from typing import Any

import pytest
from tests.wire.talk import Talk, small

from accord.errors import ConnectionClosed, RequestCancelled, UsageError
from accord.testing.clock import FakeClock
from accord.wire.transport import End


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


@pytest.mark.rule(50, 51, 54, 55)
async def test_a_cancelled_request_is_answered_once_with_request_cancelled() -> None:
    busy = Busy()
    talk = Talk(requests={"busy": busy, "echo": lambda params, call: params})
    id = talk.peer.ask("busy")
    await talk.peer.call("echo")
    talk.peer.notify("$/cancel_request", {"requestId": id})
    assert (await talk.peer.answer_to(id))["error"]["code"] == -32800
    await talk.peer.call("echo")
    assert [message.get("id") for message in talk.peer.heard].count(id) == 1


@pytest.mark.rule(50, 51)
async def test_a_handler_may_answer_a_cancelled_request_with_a_result() -> None:
    talk = Talk(requests={"busy": Busy({"stopReason": "cancelled"})})
    id = talk.peer.ask("busy")
    await settle()
    talk.peer.notify("$/cancel_request", {"requestId": id})
    assert (await talk.peer.answer_to(id))["result"] == {"stopReason": "cancelled"}


async def test_a_request_cancelled_before_its_first_step_is_answered_and_never_runs() -> None:
    busy = Busy()
    talk = Talk(requests={"busy": busy})
    id = talk.peer.ask("busy")
    talk.peer.notify("$/cancel_request", {"requestId": id})
    assert (await talk.peer.answer_to(id))["error"]["code"] == -32800
    assert busy.started == 0


async def test_a_handler_that_gives_a_task_is_cancelled_like_any_other_before_its_first_step() -> None:
    work = asyncio.create_task(asyncio.Event().wait())
    talk = Talk(requests={"busy": lambda params, call: work})
    id = talk.peer.ask("busy")
    talk.peer.notify("$/cancel_request", {"requestId": id})
    assert (await talk.peer.answer_to(id))["error"]["code"] == -32800
    await settle()
    assert work.cancelled()


async def test_a_request_cancelled_while_it_waits_in_its_lane_never_starts() -> None:
    gate = asyncio.Event()
    busy = Busy()
    talk = Talk(requests={"busy": busy}, notifications={"slow": lambda params: gate.wait()})
    talk.peer.notify("slow", {"sessionId": "s"})
    id = talk.peer.ask("busy", {"sessionId": "s"})
    talk.peer.notify("$/cancel_request", {"requestId": id})
    await settle()
    gate.set()
    assert (await talk.peer.answer_to(id))["error"]["code"] == -32800
    assert busy.started == 0


@pytest.mark.rule(52, 53)
@pytest.mark.parametrize(
    "params", [{"requestId": 9999}, {"requestId": None}, {}, None, {"requestId": {"a": 1}}, [], "x"]
)
async def test_cancelling_something_unknown_has_no_effect(params: Any) -> None:
    talk = Talk(requests={"echo": lambda params, call: params})
    await talk.peer.call("echo", {"n": 1})
    talk.peer.notify("$/cancel_request", params)
    talk.peer.notify("$/cancel_request", {"requestId": "raw-1"})
    assert await talk.peer.call("echo", {"n": 2}) == {"n": 2}
    assert len(talk.peer.heard) == 2


async def test_giving_up_on_a_call_tells_the_peer_and_drops_the_late_answer() -> None:
    talk = Talk(requests={"echo": lambda params, call: params})
    asking = asyncio.create_task(talk.request("slow"))
    asked = await talk.peer.next("slow")
    asking.cancel()
    cancel = await talk.peer.next("$/cancel_request")
    assert cancel["params"] == {"requestId": asked["id"]}
    talk.peer.refuse(asked, -32800)
    await talk.peer.call("echo")
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_a_peers_request_cancelled_answer_raises_request_cancelled() -> None:
    talk = Talk()
    asking = asyncio.create_task(talk.request("slow"))
    talk.peer.refuse(await talk.peer.next("slow"), -32800, "Request cancelled")
    with pytest.raises(RequestCancelled):
        await asking


@pytest.mark.rule(37)
async def test_the_end_fails_every_open_call_with_the_reason() -> None:
    talk = Talk()
    asking = [asyncio.create_task(talk.request(f"ask{n}", key=n % 2 or None)) for n in range(3)]
    await talk.peer.next("ask0")
    await talk.peer.aclose()
    for task in asking:
        with pytest.raises(ConnectionClosed, match="was not answered"):
            await task
    with pytest.raises(ConnectionClosed):
        await talk.request("later")
    await talk.connection.wait_ended()


async def test_the_error_of_the_end_carries_exit_and_last_words() -> None:
    talk = Talk()
    asking = asyncio.create_task(talk.request("ask"))
    await talk.peer.next("ask")
    talk.connection.ended(End("agent exited with code 3", exit_code=3, stderr="boom\n"))
    with pytest.raises(ConnectionClosed) as caught:
        await asking
    assert caught.value.exit_code == 3
    assert str(caught.value).endswith("boom")
    assert "code 3" in str(caught.value)


async def test_what_arrived_before_the_end_is_handled_before_calls_fail() -> None:
    log: list[str] = []

    async def on_update(params: dict[str, Any]) -> None:
        await asyncio.sleep(0)
        log.append(f"update {params['n']}")

    talk = Talk(notifications={"update": on_update})
    asking = asyncio.create_task(talk.request("prompt", key="s"))
    await talk.peer.next("prompt")
    for n in range(3):
        talk.peer.notify("update", {"sessionId": "s", "n": n})
    await talk.peer.aclose()
    with pytest.raises(ConnectionClosed):
        await asking
    assert log == ["update 0", "update 1", "update 2"]


async def test_a_stuck_handler_delays_the_news_of_the_end_only_for_the_grace() -> None:
    clock = FakeClock()
    talk = Talk(
        notifications={"stuck": lambda params: asyncio.Event().wait()}, clock=clock, limits=small(grace=5.0)
    )
    asking = asyncio.create_task(talk.request("prompt", key="s"))
    await talk.peer.next("prompt")
    talk.peer.notify("stuck", {"sessionId": "s"})
    await talk.peer.aclose()
    await settle()
    assert not asking.done()
    await clock.advance(5.0)
    with pytest.raises(ConnectionClosed):
        await asking
    closing = asyncio.create_task(talk.connection.aclose())
    await clock.advance(5.0)
    await closing


async def test_a_handler_that_was_cancelled_by_closing_is_followed_by_no_other() -> None:
    clock = FakeClock()
    started: list[int] = []

    async def stuck(params: dict[str, Any]) -> None:
        started.append(params["n"])
        await asyncio.Event().wait()

    talk = Talk(notifications={"stuck": stuck}, clock=clock, limits=small(grace=5.0))
    for n in range(3):
        talk.peer.notify("stuck", {"sessionId": "s", "n": n})
    await settle()
    closing = asyncio.create_task(talk.connection.aclose())
    await clock.advance(10.0)
    await closing
    assert started == [0]
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_closing_cancels_what_is_served_and_answers_it() -> None:
    busy = Busy()
    talk = Talk(requests={"busy": busy})
    id = talk.peer.ask("busy")
    await settle()
    await talk.connection.aclose()
    assert (await talk.peer.answer_to(id))["error"]["code"] == -32800
    assert busy.cancelled == 1
    await talk.connection.aclose()


async def test_closing_also_ends_requests_that_share_an_id() -> None:
    busy = Busy()
    talk = Talk(requests={"busy": busy}, clock=FakeClock())
    talk.peer.ask("busy", id=7)
    talk.peer.ask("busy", id=7)
    await settle()
    await talk.connection.aclose()
    assert (busy.started, busy.cancelled) == (2, 2)


async def test_a_request_that_arrives_while_closing_is_answered_and_never_starts() -> None:
    busy = Busy()
    talk = Talk(requests={"busy": busy}, clock=FakeClock())
    talk.peer.ask("busy")
    await talk.connection.aclose()
    assert busy.started == 0


async def test_a_handler_may_close_its_own_connection() -> None:
    async def leave(params: dict[str, Any], call: Any) -> None:
        await talk.connection.aclose()

    talk = Talk(requests={"leave": leave}, clock=FakeClock())
    talk.peer.ask("leave")
    await talk.peer.wait_end()


async def test_what_is_not_json_is_refused_before_anything_is_sent_and_leaves_no_call_open() -> None:
    talk = Talk()
    endless: list[Any] = []
    endless.append(endless)
    for params in ({"a": object()}, {"a": endless}, {("a", 1): 2}):
        with pytest.raises(UsageError, match=r"_x/ask cannot be sent, its parameters are not JSON: "):
            await talk.request("_x/ask", params)
        with pytest.raises(UsageError, match=r"_x/tell cannot be sent, its parameters are not JSON: "):
            talk.connection.notify("_x/tell", params)
    asking = asyncio.create_task(talk.request("_x/ask", {"a": 1}))
    assert (await talk.peer.next())["params"] == {"a": 1}
    await talk.connection.aclose()  # settles every open call: one that nobody awaits would complain
    with pytest.raises(ConnectionClosed):
        await asking


async def test_what_waits_behind_a_request_that_has_just_started_is_not_left_running() -> None:
    finished: list[str] = []
    closing: list[asyncio.Task[None]] = []

    async def quick(params: dict[str, Any], call: Any) -> None:
        finished.append("request")

    async def late(params: dict[str, Any]) -> None:
        await settle()
        finished.append("notification")

    def close(end: End) -> None:
        closing.append(asyncio.create_task(talk.connection.aclose()))

    talk = Talk(requests={"quick": quick}, notifications={"late": late}, on_end=close)
    talk.peer.ask("quick", {"sessionId": "s"})
    talk.peer.notify("late", {"sessionId": "s"})
    await talk.peer.aclose()
    await settle()
    await closing[0]
    assert finished == ["request", "notification"]
