"""The ordering guarantee of a connection, and that no handler can deadlock its own connection."""

import asyncio
from typing import Any

import msgspec
import pytest
from tests.wire.connection_pair import ConnectionPair


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_notifications_are_handled_in_wire_order_even_when_handlers_await() -> None:
    handled: list[int] = []

    async def on_update(params: dict[str, Any]) -> None:
        for _ in range(params["n"] % 4):
            await asyncio.sleep(0)
        handled.append(params["n"])

    pair = ConnectionPair(notifications={"update": on_update})
    pending = asyncio.create_task(pair.request("prompt", key="s"))
    prompt = await pair.peer.next("prompt")
    for n in range(200):
        pair.peer.notify("update", {"sessionId": "s", "n": n})
    pair.peer.reply(prompt, {})
    await pending
    assert handled == list(range(200))


async def test_a_response_waits_for_the_handlers_of_earlier_notifications() -> None:
    gate = asyncio.Event()
    finished: list[str] = []

    async def on_update(params: dict[str, Any]) -> None:
        await gate.wait()
        finished.append("update")

    pair = ConnectionPair(notifications={"update": on_update})
    pending = asyncio.create_task(pair.request("prompt", key="s"))
    prompt = await pair.peer.next("prompt")
    pair.peer.notify("update", {"sessionId": "s"})
    pair.peer.reply(prompt, {})
    await settle()
    assert not pending.done()
    gate.set()
    await pending
    assert finished == ["update"]


async def test_a_response_without_a_session_waits_for_every_session() -> None:
    gate = asyncio.Event()
    pair = ConnectionPair(notifications={"update": lambda params: gate.wait()})
    pending = asyncio.create_task(pair.request("session/new"))
    new = await pair.peer.next("session/new")
    pair.peer.notify("update", {"sessionId": "s"})
    pair.peer.reply(new, {"sessionId": "s"})
    await settle()
    assert not pending.done()
    gate.set()
    assert await pending == {"sessionId": "s"}


async def test_a_slow_session_does_not_delay_another() -> None:
    gate = asyncio.Event()

    def on_update(params: dict[str, Any]) -> Any:
        return gate.wait() if params["sessionId"] == "slow" else None

    pair = ConnectionPair(notifications={"update": on_update})
    pending = asyncio.create_task(pair.request("prompt", key="quick"))
    prompt = await pair.peer.next("prompt")
    pair.peer.notify("update", {"sessionId": "slow"})
    pair.peer.notify("update", {"sessionId": "quick"})
    pair.peer.reply(prompt, {"ok": True})
    assert await pending == {"ok": True}
    gate.set()


async def test_a_response_waits_for_earlier_requests_to_start_but_not_to_finish() -> None:
    dialog = asyncio.Event()
    log: list[str] = []

    async def permission(params: dict[str, Any], call: Any) -> dict[str, Any]:
        log.append("asked")
        await dialog.wait()
        return {}

    pair = ConnectionPair(requests={"permission": permission})
    pending = asyncio.create_task(pair.request("prompt", key="s"))
    prompt = await pair.peer.next("prompt")
    permission_id = pair.peer.ask("permission", {"sessionId": "s"})
    pair.peer.reply(prompt, {})
    await pending
    assert log == ["asked"]
    dialog.set()
    await pair.peer.answer_to(permission_id)


async def test_a_notification_right_after_a_request_finds_it_started() -> None:
    running: set[str] = set()
    log: list[str] = []

    async def prompt(params: dict[str, Any], call: Any) -> dict[str, Any]:
        running.add(params["sessionId"])
        await asyncio.Event().wait()
        return {}

    def cancel(params: dict[str, Any]) -> None:
        log.append("found it" if params["sessionId"] in running else "lost")

    pair = ConnectionPair(requests={"prompt": prompt}, notifications={"cancel": cancel}, urgent=("cancel",))
    pair.peer.ask("prompt", {"sessionId": "s"})
    pair.peer.notify("cancel", {"sessionId": "s"})
    await settle()
    assert log == ["found it"]
    await pair.connection.aclose()


async def test_an_urgent_notification_runs_before_a_slow_handler_ends() -> None:
    gate = asyncio.Event()
    log: list[str] = []
    pair = ConnectionPair(
        notifications={"slow": lambda params: gate.wait(), "cancel": lambda params: log.append("cancel")},
        urgent=("cancel",),
    )
    pair.peer.notify("slow", {"sessionId": "s"})
    pair.peer.notify("cancel", {"sessionId": "s"})
    await settle()
    assert log == ["cancel"]
    gate.set()


async def test_requests_start_in_wire_order() -> None:
    started: list[int] = []

    async def work(params: dict[str, Any], call: Any) -> dict[str, Any]:
        started.append(params["n"])
        await asyncio.sleep(0)
        return {}

    pair = ConnectionPair(requests={"work": work})
    ids = [pair.peer.ask("work", {"sessionId": "s", "n": n}) for n in range(50)]
    await pair.peer.answer_to(ids[-1])
    assert started == list(range(50))


@pytest.mark.rule("prompt.client-serves-during-turn")
async def test_a_request_handler_may_call_the_peer_while_other_requests_are_served() -> None:
    async def outer(params: dict[str, Any], call: Any) -> dict[str, Any]:
        return {"inner": await pair.request("ask", key="s")}

    async def inner(params: dict[str, Any], call: Any) -> dict[str, Any]:
        return {"deep": True}

    pair = ConnectionPair(requests={"outer": outer, "inner": inner})
    outer_id = pair.peer.ask("outer", {"sessionId": "s"})
    request = await pair.peer.next("ask")
    assert await pair.peer.call("inner", {"sessionId": "s"}) == {"deep": True}
    pair.peer.reply(request, 7)
    assert (await pair.peer.answer_to(outer_id))["result"] == {"inner": 7}


async def test_a_notification_handler_may_await_a_call() -> None:
    got: list[Any] = []

    async def on_update(params: dict[str, Any]) -> None:
        got.append(await pair.request("set_mode", key="s"))

    pair = ConnectionPair(notifications={"update": on_update})
    pair.peer.notify("update", {"sessionId": "s"})
    pair.peer.reply(await pair.peer.next("set_mode"), "done")
    await settle()
    assert got == ["done"]


async def test_a_notification_handler_may_await_a_call_that_causes_an_incoming_request() -> None:
    got: list[Any] = []

    async def on_update(params: dict[str, Any]) -> None:
        got.append(await pair.request("set_mode", key="s"))

    async def permission(params: dict[str, Any], call: Any) -> str:
        return "allowed"

    pair = ConnectionPair(notifications={"update": on_update}, requests={"permission": permission})
    pair.peer.notify("update", {"sessionId": "s"})
    set_mode = await pair.peer.next("set_mode")
    assert await pair.peer.call("permission", {"sessionId": "s"}) == "allowed"
    pair.peer.reply(set_mode, "done")
    await settle()
    assert got == ["done"]


async def test_updates_before_a_response_are_handled_before_an_awaiting_handler_resumes() -> None:
    log: list[str] = []

    async def on_update(params: dict[str, Any]) -> None:
        if params["n"] == 0:
            await pair.request("load", key="s")
            log.append("loaded")
        else:
            await asyncio.sleep(0)
            log.append(f"update {params['n']}")

    pair = ConnectionPair(notifications={"update": on_update})
    pair.peer.notify("update", {"sessionId": "s", "n": 0})
    load = await pair.peer.next("load")
    for n in (1, 2, 3):
        pair.peer.notify("update", {"sessionId": "s", "n": n})
    pair.peer.reply(load, {})
    await settle()
    assert log == ["update 1", "update 2", "update 3", "loaded"]


async def test_a_response_waits_for_a_handler_that_awaited_a_call() -> None:
    gate = asyncio.Event()
    log: list[str] = []

    async def on_update(params: dict[str, Any]) -> None:
        await pair.request("inner", key="s")
        await gate.wait()
        log.append("handler")

    pair = ConnectionPair(notifications={"update": on_update})
    pending = asyncio.create_task(pair.request("prompt", key="s"))
    prompt = await pair.peer.next("prompt")
    pair.peer.notify("update", {"sessionId": "s"})
    inner = await pair.peer.next("inner")
    pair.peer.reply(inner, {})
    pair.peer.reply(prompt, {})
    await settle()
    assert not pending.done()
    gate.set()
    await pending
    assert log == ["handler"]


async def test_a_response_waits_for_a_handler_that_is_still_awaiting_a_call() -> None:
    log: list[str] = []

    async def on_update(params: dict[str, Any]) -> None:
        await pair.request("inner", key="s")
        log.append("handler")

    pair = ConnectionPair(notifications={"update": on_update})
    pending = asyncio.create_task(pair.request("prompt", key="s"))
    prompt = await pair.peer.next("prompt")
    pair.peer.notify("update", {"sessionId": "s"})
    inner = await pair.peer.next("inner")
    pair.peer.reply(prompt, {})
    await settle()
    assert not pending.done()
    pair.peer.reply(inner, {})
    await pending
    assert log == ["handler"]


async def test_a_request_caused_by_a_handlers_call_may_call_the_peer_itself() -> None:
    got: list[Any] = []

    async def on_update(params: dict[str, Any]) -> None:
        got.append(await pair.request("set_mode", key="s"))

    async def permission(params: dict[str, Any], call: Any) -> Any:
        return await pair.request("details", key="s")

    pair = ConnectionPair(notifications={"update": on_update}, requests={"permission": permission})
    pair.peer.notify("update", {"sessionId": "s"})
    set_mode = await pair.peer.next("set_mode")
    permission_id = pair.peer.ask("permission", {"sessionId": "s"})
    pair.peer.reply(await pair.peer.next("details"), "all of them")
    assert (await pair.peer.answer_to(permission_id))["result"] == "all of them"
    pair.peer.reply(set_mode, "done")
    await settle()
    assert got == ["done"]


async def test_a_notification_handler_may_await_several_calls_at_once() -> None:
    got: list[Any] = []

    async def on_update(params: dict[str, Any]) -> None:
        got.extend(await asyncio.gather(*(pair.request("ask", {"n": n}, key="s") for n in range(3))))

    pair = ConnectionPair(notifications={"update": on_update})
    pair.peer.notify("update", {"sessionId": "s"})
    requests = [await pair.peer.next("ask") for _ in range(3)]
    for message in reversed(requests):
        pair.peer.reply(message, message["params"]["n"])
    await settle()
    assert got == [0, 1, 2]


async def test_several_handlers_of_a_session_may_await_calls_at_once() -> None:
    got: list[Any] = []

    async def on_update(params: dict[str, Any]) -> None:
        got.append(await pair.request("ask", key="s"))

    pair = ConnectionPair(notifications={"update": on_update})
    for _ in range(2):
        pair.peer.notify("update", {"sessionId": "s"})
    for number, message in enumerate([await pair.peer.next("ask") for _ in range(2)]):
        pair.peer.reply(message, number)
    await settle()
    assert got == [0, 1]


async def test_handlers_of_two_sessions_may_call_into_each_others_sessions() -> None:
    got: list[str] = []

    async def on_update(params: dict[str, Any]) -> None:
        other = "b" if params["sessionId"] == "a" else "a"
        got.append(await pair.request("ask", {"for": other}, key=other))

    pair = ConnectionPair(notifications={"update": on_update})
    pair.peer.notify("update", {"sessionId": "a"})
    pair.peer.notify("update", {"sessionId": "b"})
    requests = [await pair.peer.next("ask") for _ in range(2)]
    for message in requests:
        pair.peer.reply(message, message["params"]["for"])
    await settle()
    assert sorted(got) == ["a", "b"]


async def test_after_answer_sends_right_after_the_response() -> None:
    async def new(params: dict[str, Any], call: Any) -> dict[str, Any]:
        call.after_answer(lambda: pair.connection.notify("commands", {}))
        await asyncio.sleep(0)
        return {"sessionId": "s"}

    pair = ConnectionPair(requests={"session/new": new})
    pair.peer.ask("session/new")
    assert (await pair.peer.next())["result"] == {"sessionId": "s"}
    await pair.peer.next("commands")


async def test_a_failing_notification_handler_is_reported_and_the_next_one_runs() -> None:
    handled: list[int] = []

    async def on_update(params: dict[str, Any]) -> None:
        if params["n"] == 0:
            raise RuntimeError("broken")
        handled.append(params["n"])

    pair = ConnectionPair(notifications={"update": on_update})
    pair.peer.notify("update", {"sessionId": "s", "n": 0})
    pair.peer.notify("update", {"sessionId": "s", "n": 1})
    await pair.wait_settled()
    await settle()
    assert handled == [1]
    assert [report.kind for report in pair.reports] == ["failed"]


async def test_a_request_that_is_answered_at_once_still_waits_for_its_session() -> None:
    gate = asyncio.Event()
    log: list[str] = []

    def read_now(params: dict[str, Any]) -> dict[str, Any] | None:
        log.append("now")
        return {"n": params["n"]} if params["n"] else None

    async def read(params: dict[str, Any], call: Any) -> dict[str, Any]:
        log.append("task")
        return {"n": params["n"]}

    pair = ConnectionPair(
        requests={"read": read},
        notifications={"update": lambda params: gate.wait()},
        run_now={"read": read_now},
    )
    assert await pair.peer.call("read", {"sessionId": "s", "n": 1}) == {"n": 1}
    assert await pair.peer.call("read", {"sessionId": "s", "n": 0}) == {"n": 0}
    assert log == ["now", "now", "task"]
    pair.peer.notify("update", {"sessionId": "s"})
    waiting = pair.peer.ask("read", {"sessionId": "s", "n": 2})
    await settle()
    assert len(log) == 3, "the request waits for the notification before it"
    gate.set()
    assert (await pair.peer.answer_to(waiting))["result"] == {"n": 2}
    assert log[3:] == ["task"]


async def test_an_error_of_a_request_that_is_answered_at_once_is_its_answer() -> None:
    def fail(params: dict[str, Any]) -> None:
        raise KeyError("no such file")

    pair = ConnectionPair(requests={"read": lambda params, call: {}}, run_now={"read": fail})
    answer = await pair.peer.answer_to(pair.peer.ask("read", {"sessionId": "s"}))
    assert answer["error"]["code"] == -32603
    assert "KeyError" in pair.reports[0].detail


async def test_callers_continue_in_order_at_the_end_of_the_read_that_brings_their_responses() -> None:
    log: list[str] = []
    pair = ConnectionPair(notifications={"update": lambda params: log.append("update")})

    async def call(number: int) -> None:
        assert await pair.request("next", {"n": number}) == number
        log.append(f"continued {number}")

    calls = [asyncio.create_task(call(1)), asyncio.create_task(call(2))]
    responses = [
        {"jsonrpc": "2.0", "id": (await pair.peer.next("next"))["id"], "result": number} for number in (1, 2)
    ]

    def read() -> None:
        update = {"jsonrpc": "2.0", "method": "update", "params": {}}
        pair.connection.frames([msgspec.json.encode(message) for message in (*responses, update)])
        log.append("read")

    asyncio.get_running_loop().call_soon(read)
    await asyncio.wait(calls)
    assert log == ["update", "continued 1", "continued 2", "read"]


async def test_callers_continue_after_a_read_that_a_task_does() -> None:
    pair = ConnectionPair()
    call = asyncio.create_task(pair.request("next"))
    response = {"jsonrpc": "2.0", "id": (await pair.peer.next("next"))["id"], "result": 1}
    pair.connection.frames([msgspec.json.encode(response)])
    assert not call.done()
    assert await call == 1
