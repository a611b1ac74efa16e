"""The order promise: what reaches the application when, and that no handler can deadlock its own connection."""

import asyncio
from typing import Any

import pytest
from tests.wire.talk import Talk


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_notifications_arrive_in_wire_order_even_when_handlers_await() -> None:
    seen: list[int] = []

    async def on_update(params: dict[str, Any]) -> None:
        for _ in range(params["n"] % 4):
            await asyncio.sleep(0)
        seen.append(params["n"])

    talk = Talk(notifications={"update": on_update})
    asking = asyncio.create_task(talk.request("prompt", key="s"))
    prompt = await talk.peer.next("prompt")
    for n in range(200):
        talk.peer.notify("update", {"sessionId": "s", "n": n})
    talk.peer.reply(prompt, {})
    await asking
    assert seen == list(range(200))


async def test_an_answer_waits_for_the_handlers_of_earlier_notifications() -> None:
    gate = asyncio.Event()
    finished: list[str] = []

    async def on_update(params: dict[str, Any]) -> None:
        await gate.wait()
        finished.append("update")

    talk = Talk(notifications={"update": on_update})
    asking = asyncio.create_task(talk.request("prompt", key="s"))
    prompt = await talk.peer.next("prompt")
    talk.peer.notify("update", {"sessionId": "s"})
    talk.peer.reply(prompt, {})
    await settle()
    assert not asking.done()
    gate.set()
    await asking
    assert finished == ["update"]


async def test_an_answer_without_a_session_waits_for_every_session() -> None:
    gate = asyncio.Event()
    talk = Talk(notifications={"update": lambda params: gate.wait()})
    asking = asyncio.create_task(talk.request("session/new"))
    new = await talk.peer.next("session/new")
    talk.peer.notify("update", {"sessionId": "s"})
    talk.peer.reply(new, {"sessionId": "s"})
    await settle()
    assert not asking.done()
    gate.set()
    assert await asking == {"sessionId": "s"}


async def test_a_slow_session_does_not_hold_up_another() -> None:
    gate = asyncio.Event()

    def on_update(params: dict[str, Any]) -> Any:
        return gate.wait() if params["sessionId"] == "slow" else None

    talk = Talk(notifications={"update": on_update})
    asking = asyncio.create_task(talk.request("prompt", key="quick"))
    prompt = await talk.peer.next("prompt")
    talk.peer.notify("update", {"sessionId": "slow"})
    talk.peer.notify("update", {"sessionId": "quick"})
    talk.peer.reply(prompt, {"ok": True})
    assert await asking == {"ok": True}
    gate.set()


async def test_an_answer_waits_for_earlier_requests_to_start_but_not_to_finish() -> None:
    dialog = asyncio.Event()
    log: list[str] = []

    async def permission(params: dict[str, Any], call: Any) -> dict[str, Any]:
        log.append("asked")
        await dialog.wait()
        return {}

    talk = Talk(requests={"permission": permission})
    asking = asyncio.create_task(talk.request("prompt", key="s"))
    prompt = await talk.peer.next("prompt")
    permission_id = talk.peer.ask("permission", {"sessionId": "s"})
    talk.peer.reply(prompt, {})
    await asking
    assert log == ["asked"]
    dialog.set()
    await talk.peer.answer_to(permission_id)


async def test_a_notification_right_behind_a_request_finds_it_started() -> None:
    running: set[str] = set()
    log: list[str] = []

    async def prompt(params: dict[str, Any], call: Any) -> dict[str, Any]:
        running.add(params["sessionId"])
        await asyncio.Event().wait()
        return {}

    def cancel(params: dict[str, Any]) -> None:
        log.append("found it" if params["sessionId"] in running else "lost")

    talk = Talk(requests={"prompt": prompt}, notifications={"cancel": cancel}, urgent=("cancel",))
    talk.peer.ask("prompt", {"sessionId": "s"})
    talk.peer.notify("cancel", {"sessionId": "s"})
    await settle()
    assert log == ["found it"]
    await talk.connection.aclose()


async def test_an_urgent_notification_overtakes_a_slow_handler() -> None:
    gate = asyncio.Event()
    log: list[str] = []
    talk = Talk(
        notifications={"slow": lambda params: gate.wait(), "cancel": lambda params: log.append("cancel")},
        urgent=("cancel",),
    )
    talk.peer.notify("slow", {"sessionId": "s"})
    talk.peer.notify("cancel", {"sessionId": "s"})
    await settle()
    assert log == ["cancel"]
    gate.set()


async def test_requests_start_in_wire_order() -> None:
    started: list[int] = []

    async def work(params: dict[str, Any], call: Any) -> dict[str, Any]:
        started.append(params["n"])
        await asyncio.sleep(0)
        return {}

    talk = Talk(requests={"work": work})
    ids = [talk.peer.ask("work", {"sessionId": "s", "n": n}) for n in range(50)]
    await talk.peer.answer_to(ids[-1])
    assert started == list(range(50))


@pytest.mark.rule(158)
async def test_a_request_handler_may_call_back_and_be_called_while_it_waits() -> None:
    async def outer(params: dict[str, Any], call: Any) -> dict[str, Any]:
        return {"inner": await talk.request("ask", key="s")}

    async def inner(params: dict[str, Any], call: Any) -> dict[str, Any]:
        return {"deep": True}

    talk = Talk(requests={"outer": outer, "inner": inner})
    outer_id = talk.peer.ask("outer", {"sessionId": "s"})
    asked = await talk.peer.next("ask")
    assert await talk.peer.call("inner", {"sessionId": "s"}) == {"deep": True}
    talk.peer.reply(asked, 7)
    assert (await talk.peer.answer_to(outer_id))["result"] == {"inner": 7}


async def test_a_notification_handler_may_await_a_call() -> None:
    got: list[Any] = []

    async def on_update(params: dict[str, Any]) -> None:
        got.append(await talk.request("set_mode", key="s"))

    talk = Talk(notifications={"update": on_update})
    talk.peer.notify("update", {"sessionId": "s"})
    talk.peer.reply(await talk.peer.next("set_mode"), "done")
    await settle()
    assert got == ["done"]


async def test_a_notification_handler_may_await_a_call_that_needs_us_to_serve_one() -> None:
    got: list[Any] = []

    async def on_update(params: dict[str, Any]) -> None:
        got.append(await talk.request("set_mode", key="s"))

    async def permission(params: dict[str, Any], call: Any) -> str:
        return "allowed"

    talk = Talk(notifications={"update": on_update}, requests={"permission": permission})
    talk.peer.notify("update", {"sessionId": "s"})
    set_mode = await talk.peer.next("set_mode")
    assert await talk.peer.call("permission", {"sessionId": "s"}) == "allowed"
    talk.peer.reply(set_mode, "done")
    await settle()
    assert got == ["done"]


async def test_updates_sent_before_an_answer_reach_a_waiting_handlers_session_first() -> None:
    log: list[str] = []

    async def on_update(params: dict[str, Any]) -> None:
        if params["n"] == 0:
            await talk.request("load", key="s")
            log.append("loaded")
        else:
            await asyncio.sleep(0)
            log.append(f"update {params['n']}")

    talk = Talk(notifications={"update": on_update})
    talk.peer.notify("update", {"sessionId": "s", "n": 0})
    load = await talk.peer.next("load")
    for n in (1, 2, 3):
        talk.peer.notify("update", {"sessionId": "s", "n": n})
    talk.peer.reply(load, {})
    await settle()
    assert log == ["update 1", "update 2", "update 3", "loaded"]


async def test_an_answer_waits_for_a_handler_that_had_awaited_a_call_of_its_own() -> None:
    gate = asyncio.Event()
    log: list[str] = []

    async def on_update(params: dict[str, Any]) -> None:
        await talk.request("inner", key="s")
        await gate.wait()
        log.append("handler")

    talk = Talk(notifications={"update": on_update})
    asking = asyncio.create_task(talk.request("prompt", key="s"))
    prompt = await talk.peer.next("prompt")
    talk.peer.notify("update", {"sessionId": "s"})
    inner = await talk.peer.next("inner")
    talk.peer.reply(inner, {})
    talk.peer.reply(prompt, {})
    await settle()
    assert not asking.done()
    gate.set()
    await asking
    assert log == ["handler"]


async def test_an_answer_waits_for_a_handler_that_is_still_awaiting_a_call() -> None:
    log: list[str] = []

    async def on_update(params: dict[str, Any]) -> None:
        await talk.request("inner", key="s")
        log.append("handler")

    talk = Talk(notifications={"update": on_update})
    asking = asyncio.create_task(talk.request("prompt", key="s"))
    prompt = await talk.peer.next("prompt")
    talk.peer.notify("update", {"sessionId": "s"})
    inner = await talk.peer.next("inner")
    talk.peer.reply(prompt, {})
    await settle()
    assert not asking.done()
    talk.peer.reply(inner, {})
    await asking
    assert log == ["handler"]


async def test_a_handlers_call_may_need_us_to_serve_a_request_that_calls_back_itself() -> None:
    got: list[Any] = []

    async def on_update(params: dict[str, Any]) -> None:
        got.append(await talk.request("set_mode", key="s"))

    async def permission(params: dict[str, Any], call: Any) -> Any:
        return await talk.request("details", key="s")

    talk = Talk(notifications={"update": on_update}, requests={"permission": permission})
    talk.peer.notify("update", {"sessionId": "s"})
    set_mode = await talk.peer.next("set_mode")
    permission_id = talk.peer.ask("permission", {"sessionId": "s"})
    talk.peer.reply(await talk.peer.next("details"), "all of them")
    assert (await talk.peer.answer_to(permission_id))["result"] == "all of them"
    talk.peer.reply(set_mode, "done")
    await settle()
    assert got == ["done"]


async def test_a_notification_handler_may_await_several_calls_at_once() -> None:
    got: list[Any] = []

    async def on_update(params: dict[str, Any]) -> None:
        got.extend(await asyncio.gather(*(talk.request("ask", {"n": n}, key="s") for n in range(3))))

    talk = Talk(notifications={"update": on_update})
    talk.peer.notify("update", {"sessionId": "s"})
    asked = [await talk.peer.next("ask") for _ in range(3)]
    for message in reversed(asked):
        talk.peer.reply(message, message["params"]["n"])
    await settle()
    assert got == [0, 1, 2]


async def test_handlers_of_two_sessions_may_wait_for_each_others_sessions() -> None:
    got: list[str] = []

    async def on_update(params: dict[str, Any]) -> None:
        other = "b" if params["sessionId"] == "a" else "a"
        got.append(await talk.request("ask", {"for": other}, key=other))

    talk = Talk(notifications={"update": on_update})
    talk.peer.notify("update", {"sessionId": "a"})
    talk.peer.notify("update", {"sessionId": "b"})
    asked = [await talk.peer.next("ask") for _ in range(2)]
    for message in asked:
        talk.peer.reply(message, message["params"]["for"])
    await settle()
    assert sorted(got) == ["a", "b"]


async def test_what_follows_an_answer_goes_out_right_behind_it() -> None:
    async def new(params: dict[str, Any], call: Any) -> dict[str, Any]:
        call.after_answer(lambda: talk.connection.notify("commands", {}))
        await asyncio.sleep(0)
        return {"sessionId": "s"}

    talk = Talk(requests={"session/new": new})
    talk.peer.ask("session/new")
    assert (await talk.peer.next())["result"] == {"sessionId": "s"}
    await talk.peer.next("commands")


async def test_a_failing_notification_handler_is_reported_and_the_next_one_runs() -> None:
    seen: list[int] = []

    async def on_update(params: dict[str, Any]) -> None:
        if params["n"] == 0:
            raise RuntimeError("broken")
        seen.append(params["n"])

    talk = Talk(notifications={"update": on_update})
    talk.peer.notify("update", {"sessionId": "s", "n": 0})
    talk.peer.notify("update", {"sessionId": "s", "n": 1})
    await talk.settled()
    await settle()
    assert seen == [1]
    assert [report.kind for report in talk.reports] == ["failed"]
