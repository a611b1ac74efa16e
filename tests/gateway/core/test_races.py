"""Things that happen at once: clients that leave, agents that die, questions taken back, while somebody waits for them."""

import asyncio
from pathlib import Path
from typing import Any

from tests.gateway.core.house import ALL, Guest, House, house, open_session
from tests.gateway.core.test_consent import lost
from tests.gateway.core.test_outliving import said
from tests.gateway.core.test_sharing import CALL, OPTIONS

from accord.gateway.access.audit import Audit
from accord.gateway.access.limits import Limits
from accord.gateway.access.passes import Pass
from accord.gateway.line import Outgoing
from accord.testing import FakeClock

LOADING: dict[str, Any] = {"loadSession": True, "sessionCapabilities": {"close": {}}}


def load_of(session: str, cwd: Path) -> dict[str, Any]:
    return {"sessionId": session, "cwd": str(cwd), "mcpServers": []}


async def leave(home: House, guest: Guest) -> None:
    """The client goes, and the gateway knows."""
    visitor = guest.line.client
    guest.line.end(1000, "bye")
    assert visitor not in home.gateway.visitors
    await asyncio.sleep(0)


async def test_a_session_whose_client_left_before_it_was_named_is_there_for_the_next(
    audit: Audit, tmp_path: Path
) -> None:
    async with house(audit=audit) as home:
        first, second = await home.client(), await home.client()
        first.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        asked = await home.agent.until_method("session/new")
        await leave(home, first)
        home.agent.reply(asked, {"sessionId": "s1"})
        home.agent.say("s1", "hello")
        home.agent.notify("_done", {})
        await second.until_method("_done")
        (entry,) = (await second.call("_accord/sessions"))["sessions"]
        assert (entry["sessionId"], entry["clients"], entry["live"]) == ("s1", 0, True)
        updates, _ = await second.load("s1", str(tmp_path))
        assert said(updates) == [("agent_message_chunk", "hello")]


async def test_two_clients_that_load_at_once_open_it_once_at_the_agent(audit: Audit, tmp_path: Path) -> None:
    async with house(audit=audit) as home:
        first, second = await home.client(), await home.client()
        one = first.ask("session/load", load_of("old", tmp_path))
        two = second.ask("session/load", load_of("old", tmp_path))
        load = await home.agent.until_method("session/load")
        home.agent.say("old", "before")
        home.agent.reply(load, {})
        assert said((await first.updates_until(one))[0]) == [("agent_message_chunk", "before")]
        assert said((await second.updates_until(two))[0]) == [("agent_message_chunk", "before")]
        assert len([m for m in home.agent.heard if m.get("method") == "session/load"]) == 1


async def test_a_load_goes_on_without_its_client_and_the_next_one_gets_the_history_once(
    audit: Audit, tmp_path: Path
) -> None:
    async with house(audit=audit) as home:
        first, second = await home.client(), await home.client()
        first.ask("session/load", load_of("old", tmp_path))
        load = await home.agent.until_method("session/load")
        home.agent.say("old", "one ")
        assert (await first.update())["content"]["text"] == "one "
        await leave(home, first)
        two = second.ask("session/load", load_of("old", tmp_path))
        home.agent.say("old", "two")
        home.agent.reply(load, {})
        assert said((await second.updates_until(two))[0]) == [("agent_message_chunk", "one two")]
        assert len([m for m in home.agent.heard if m.get("method") == "session/load"]) == 1
        (entry,) = (await second.call("_accord/sessions"))["sessions"]
        assert entry["clients"] == 1


async def test_an_agent_that_dies_while_it_loads_is_told_of_and_the_next_load_is_whole(
    audit: Audit, tmp_path: Path
) -> None:
    async with house(audit=audit) as home:
        guest = await home.client()
        await open_session(home, guest, tmp_path)
        home.agent.say("s1", "logged")
        await guest.update()
        await lost(home, guest)
        asked = guest.ask("session/load", load_of("s1", tmp_path))
        await home.agent.until_method("session/load")
        home.agent.say("s1", "lo")
        await guest.update()
        dead = home.agent
        await dead.aclose()
        assert "session/load" in (await guest.answer_to(asked))["error"]["message"]
        again = guest.ask("session/load", load_of("s1", tmp_path))
        await home.gateway.agents["hand"].ready()
        load = await home.agent.until_method("session/load")
        home.agent.say("s1", "logged")
        home.agent.reply(load, {})
        assert said((await guest.updates_until(again))[0]) == [("agent_message_chunk", "logged")]


async def test_a_prompt_and_its_cancellation_wait_for_the_session_to_be_there_again(
    audit: Audit, tmp_path: Path
) -> None:
    async with house(audit=audit) as home:
        guest = await home.client()
        await open_session(home, guest, tmp_path)
        await lost(home, guest)
        turn = guest.prompt("s1", "go")
        resume = await home.agent.until_method("session/resume")
        guest.notify("session/cancel", {"sessionId": "s1"})
        home.agent.reply(resume, {})
        prompt = await home.agent.until_method("session/prompt")
        await home.agent.until_method("session/cancel")
        home.agent.reply(prompt, {"stopReason": "cancelled"})
        assert (await guest.answer_to(turn))["result"]["stopReason"] == "cancelled"


async def test_a_prompt_runs_although_its_client_left_while_the_agent_was_being_started(
    audit: Audit, tmp_path: Path
) -> None:
    async with house(audit=audit) as home:
        guest, other = await home.client(), await home.client()
        await open_session(home, guest, tmp_path)
        await lost(home, guest)
        guest.prompt("s1", "go")
        resume = await home.agent.until_method("session/resume")
        await leave(home, guest)
        home.agent.reply(resume, {})
        prompt = await home.agent.until_method("session/prompt")
        home.agent.say("s1", "done")
        home.agent.reply(prompt, {"stopReason": "end_turn"})
        home.agent.notify("_done", {})
        await other.until_method("_done")
        updates, _ = await other.load("s1", str(tmp_path))
        assert said(updates) == [("user_message_chunk", "go"), ("agent_message_chunk", "done")]
        assert not home.gateway.busy


async def test_a_request_is_taken_back_while_the_agent_is_not_there(audit: Audit, tmp_path: Path) -> None:
    async with house(audit=audit) as home:
        guest = await home.client()
        await open_session(home, guest, tmp_path)
        await lost(home, guest)
        turn = guest.prompt("s1", "go")
        resume = await home.agent.until_method("session/resume")
        guest.notify("$/cancel_request", {"requestId": turn})
        assert (await guest.answer_to(turn))["error"]["code"] == -32800
        home.agent.reply(resume, {})
        again = guest.prompt("s1", "something else")
        prompt = await home.agent.until_method("session/prompt")
        assert prompt["params"]["prompt"][0]["text"] == "something else"
        home.agent.reply(prompt, {"stopReason": "end_turn"})
        assert (await guest.answer_to(again))["result"]["stopReason"] == "end_turn"


async def test_a_resumed_session_gets_the_servers_of_who_resumes_it(audit: Audit, tmp_path: Path) -> None:
    async with house(audit=audit) as home:
        guest = await home.client()
        await open_session(home, guest, tmp_path)
        await lost(home, guest)
        servers = [{"name": "mine", "command": "/bin/mine", "args": [], "env": []}]
        guest.ask("session/resume", {**load_of("s1", tmp_path), "mcpServers": servers})
        resume = await home.agent.until_method("session/resume")
        assert resume["params"]["mcpServers"] == servers
        home.agent.reply(resume, {})


async def test_sessions_of_an_agent_that_ended_no_longer_count(audit: Audit, tmp_path: Path) -> None:
    async with house({}, audit=audit, limits=Limits(sessions=1)) as home:
        guest = await home.client()
        for number in range(3):
            await open_session(home, guest, tmp_path, f"s{number}")
            assert home.gateway.meter.sessions == 1
            await lost(home, guest)
            assert home.gateway.meter.sessions == 0


async def test_a_name_given_twice_counts_once(audit: Audit, tmp_path: Path) -> None:
    async with house(audit=audit) as home:
        guest = await home.client()
        await open_session(home, guest, tmp_path)
        await open_session(home, guest, tmp_path)
        assert home.gateway.meter.sessions == 1


async def test_loaded_and_forked_sessions_count_and_failed_ones_do_not(audit: Audit, tmp_path: Path) -> None:
    forking = {**ALL, "sessionCapabilities": {**ALL["sessionCapabilities"], "fork": {}}}
    async with house(forking, audit=audit, limits=Limits(sessions=2)) as home:
        guest = await home.client()
        asked = guest.ask("session/load", load_of("old", tmp_path))
        home.agent.refuse(await home.agent.until_method("session/load"), -32002)
        await guest.answer_to(asked)
        assert home.gateway.meter.sessions == 0
        asked = guest.ask("session/load", load_of("old", tmp_path))
        home.agent.reply(await home.agent.until_method("session/load"), {})
        await guest.answer_to(asked)
        asked = guest.ask("session/fork", load_of("old", tmp_path))
        home.agent.reply(await home.agent.until_method("session/fork"), {"sessionId": "forked"})
        await guest.answer_to(asked)
        assert home.gateway.meter.sessions == 2
        error = await guest.error("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        assert "live sessions" in error["message"]


async def test_a_session_that_nobody_uses_makes_room_for_a_new_one(audit: Audit, tmp_path: Path) -> None:
    async with house(audit=audit, limits=Limits(sessions=1)) as home:
        first = await home.client()
        await open_session(home, first, tmp_path)
        await leave(home, first)
        second = await home.client()
        asked = second.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        closing = await home.agent.until_method("session/close")
        assert closing["params"]["sessionId"] == "s1"
        home.agent.reply(closing, {})
        await home.agent.opened("s2")
        assert (await second.answer_to(asked))["result"]["sessionId"] == "s2"


async def test_a_client_that_does_not_read_keeps_nobody_from_joining(audit: Audit, tmp_path: Path) -> None:
    async with house(audit=audit) as home:
        first = await home.client()
        await open_session(home, first, tmp_path)
        for number in range(40):
            home.agent.tell(
                "s1", {"sessionUpdate": "tool_call", "toolCallId": f"c{number}", "title": "x" * 100_000}
            )
        for _ in range(40):
            await first.update()
        stalled = await home.client()
        stalled.line.pause()
        stalled.ask("session/load", load_of("s1", tmp_path))
        await asyncio.sleep(0)
        joining = await home.client()
        updates, _ = await joining.load("s1", str(tmp_path))
        assert len(updates) == 40
        assert stalled.line.unsent < 4 << 20, "a joining client is sent no more than it reads"
        assert not stalled.line.client.sessions
        await leave(home, stalled)


async def test_a_history_that_the_agent_sends_faster_than_it_is_read_waits_and_comes_once_and_whole(
    audit: Audit, tmp_path: Path
) -> None:
    async with house(audit=audit) as home:
        guest, other = await home.client(), await home.client()
        asked = guest.ask("session/load", load_of("old", tmp_path))
        load = await home.agent.until_method("session/load")
        guest.line.pause()
        for number in range(100):
            home.agent.tell(
                "old", {"sessionUpdate": "tool_call", "toolCallId": f"c{number}", "title": "x" * 100_000}
            )
        home.agent.notify("_sent", {})
        await other.until_method("_sent")
        assert guest.line.unsent < 4 << 20
        home.agent.reply(load, {})
        home.agent.tell("old", {"sessionUpdate": "tool_call", "toolCallId": "after", "title": "live"})
        home.agent.notify("_sent", {})
        await other.until_method("_sent")
        guest.line.go_on()
        updates, _ = await guest.updates_until(asked)
        home.agent.tell("old", {"sessionUpdate": "tool_call", "toolCallId": "last", "title": "live"})
        seen = [update["toolCallId"] for update in updates]
        seen.append((await guest.update())["toolCallId"])
        assert seen == [*(f"c{number}" for number in range(100)), "after", "last"]


async def test_a_question_taken_back_is_answered_by_nobody(audit: Audit, tmp_path: Path) -> None:
    async with house(audit=audit) as home:
        guest = await home.client()
        await open_session(home, guest, tmp_path)
        asking = home.agent.ask(
            "session/request_permission", {"sessionId": "s1", "toolCall": CALL, "options": OPTIONS}
        )
        asked = await guest.until_method("session/request_permission")
        home.agent.notify("$/cancel_request", {"requestId": asking})
        await guest.until_method("$/cancel_request")
        result = {"outcome": {"outcome": "selected", "optionId": "yes"}}
        guest.reply(asked, result)
        error = await guest.error("_accord/inbox/answer", {"id": str(asked["id"]), "result": result})
        assert error["code"] == -32002
        answers = [m for m in home.agent.heard if m.get("id") == asking and "method" not in m]
        assert [m["error"]["code"] for m in answers] == [-32800]


async def test_two_answers_at_once_are_one(audit: Audit, tmp_path: Path) -> None:
    async with house(audit=audit) as home:
        first, second = await home.client(), await home.client()
        await open_session(home, first, tmp_path)
        await second.load("s1", str(tmp_path))
        asking = home.agent.ask(
            "session/request_permission", {"sessionId": "s1", "toolCall": CALL, "options": OPTIONS}
        )
        one = await first.until_method("session/request_permission")
        two = await second.until_method("session/request_permission")
        first.reply(one, {"outcome": {"outcome": "selected", "optionId": "no"}})
        second.reply(two, {"outcome": {"outcome": "selected", "optionId": "yes"}})
        error = await second.error(
            "_accord/inbox/answer",
            {"id": str(two["id"]), "result": {"outcome": {"outcome": "selected", "optionId": "yes"}}},
        )
        assert error["code"] == -32002
        answers = [m for m in home.agent.heard if m.get("id") == asking and "method" not in m]
        assert [m["result"]["outcome"].get("optionId") for m in answers] == ["no"]


async def test_an_answer_given_twice_by_the_agent_is_given_once(audit: Audit, tmp_path: Path) -> None:
    async with house(audit=audit) as home:
        guest = await home.client()
        await open_session(home, guest, tmp_path)
        turn = guest.prompt("s1")
        prompt = await home.agent.until_method("session/prompt")
        home.agent.reply(prompt, {"stopReason": "end_turn"})
        home.agent.reply(prompt, {"stopReason": "refusal"})
        home.agent.send({"jsonrpc": "2.0", "id": "9" * 5000, "result": {}})
        home.agent.notify("_done", {"sessionId": "s1"})
        await guest.until_method("_done")
        answers = [m for m in guest.heard if m.get("id") == turn and "method" not in m]
        assert [m["result"]["stopReason"] for m in answers] == ["end_turn"]


async def test_a_deleted_session_goes_in_the_middle_of_its_turn(audit: Audit, tmp_path: Path) -> None:
    async with house(audit=audit) as home:
        first, second = await home.client(), await home.client()
        await open_session(home, first, tmp_path)
        turn = first.prompt("s1")
        prompt = await home.agent.until_method("session/prompt")
        deleting = second.ask("session/delete", {"sessionId": "s1"})
        await home.agent.until_method("session/cancel")
        home.agent.reply(await home.agent.until_method("session/delete"), {})
        await second.answer_to(deleting)
        for number in range(300):
            home.agent.say("s1", f"late {number}")
        home.agent.reply(prompt, {"stopReason": "cancelled"})
        assert (await first.answer_to(turn))["result"]["stopReason"] == "cancelled"
        assert not home.gateway.busy
        asked = second.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        naming = await home.agent.until_method("session/new")
        home.agent.say("s2", "early")
        home.agent.reply(naming, {"sessionId": "s2"})
        await second.answer_to(asked)
        assert (await second.update())["content"]["text"] == "early"


async def test_a_prompt_that_meets_an_agent_being_ended_for_idleness_starts_it_again(
    audit: Audit, tmp_path: Path
) -> None:
    clock = FakeClock()
    async with house(audit=audit, clock=clock, idle=600) as home:
        guest = await home.client()
        await open_session(home, guest, tmp_path)
        stopping = asyncio.ensure_future(home.gateway.agents["hand"].stop())
        await asyncio.sleep(0)
        turn = guest.prompt("s1", "again")
        await stopping
        while len(home.agents) < 2:
            await home.gateway.agents["hand"].ready()
        home.agent.reply(await home.agent.until_method("session/resume"), {})
        home.agent.reply(await home.agent.until_method("session/prompt"), {"stopReason": "end_turn"})
        assert (await guest.answer_to(turn))["result"]["stopReason"] == "end_turn"


async def test_an_answer_in_the_inbox_waits_for_no_list(audit: Audit, tmp_path: Path) -> None:
    async with house(audit=audit) as home:
        guest = await home.client()
        await open_session(home, guest, tmp_path)
        asking = home.agent.ask(
            "session/request_permission", {"sessionId": "s1", "toolCall": CALL, "options": OPTIONS}
        )
        asked = await guest.until_method("session/request_permission")
        listing = guest.ask("session/list")
        theirs = await home.agent.until_method("session/list")
        result = {"outcome": {"outcome": "selected", "optionId": "yes"}}
        assert await guest.call("_accord/inbox/answer", {"id": str(asked["id"]), "result": result}) == {}
        assert (await home.agent.answer_to(asking))["result"] == result
        home.agent.reply(theirs, {"sessions": []})
        await guest.answer_to(listing)


async def test_a_form_for_a_request_whose_client_shows_none_is_answered_and_not_kept(
    audit: Audit, tmp_path: Path
) -> None:
    async with house(audit=audit) as home:
        plain, showing = await home.client(), await home.client(elicitation={"form": {}})
        for guest in (plain, showing):
            guest.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
            naming = await home.agent.until_method("session/new")
            form = {
                "mode": "form",
                "requestId": naming["id"],
                "message": "Which?",
                "requestedSchema": {"type": "object", "properties": {}},
            }
            asking = home.agent.ask("elicitation/create", form)
            if guest is showing:
                await showing.until_method("elicitation/create")
                await leave(home, showing)
            answer = await home.agent.answer_to(asking)
            assert answer.get("result", {}).get("action") == "cancel" or "error" in answer
            assert len(home.gateway.asks) == 0


async def test_the_same_id_as_a_number_and_as_a_text_are_two_requests(audit: Audit, tmp_path: Path) -> None:
    async with house(audit=audit) as home:
        guest = await home.client()
        for id in (7, "7"):
            guest.send({"jsonrpc": "2.0", "id": id, "method": "_vendor/slow", "params": {}})
        one = await home.agent.until_method("_vendor/slow")
        two = await home.agent.until_method("_vendor/slow")
        home.agent.reply(two, {"was": "second"})
        home.agent.reply(one, {"was": "first"})
        answers = {repr(m["id"]): m["result"]["was"] for m in [await guest.next(), await guest.next()]}
        assert answers == {"7": "first", "'7'": "second"}


async def test_sessions_that_nobody_uses_are_forgotten_and_come_back(audit: Audit, tmp_path: Path) -> None:
    clock = FakeClock()
    async with house(audit=audit, clock=clock) as home:
        guest = await home.client()
        await open_session(home, guest, tmp_path)
        await leave(home, guest)
        other = await home.client(Pass("t9"))
        await lost(home, other)
        await clock.advance(60)
        assert len(home.gateway.sessions) == 0
        asked = other.ask("session/load", load_of("s1", tmp_path))
        home.agent.reply(await home.agent.until_method("session/load"), {})
        await other.answer_to(asked)


async def test_a_list_that_the_agent_never_gives_is_the_gateways_own(audit: Audit, tmp_path: Path) -> None:
    clock = FakeClock()
    async with house(audit=audit, clock=clock) as home:
        guest = await home.client()
        await open_session(home, guest, tmp_path)
        listing = guest.ask("session/list")
        await home.agent.until_method("session/list")
        await clock.advance(20)
        listed = (await guest.answer_to(listing))["result"]["sessions"]
        assert [entry["sessionId"] for entry in listed] == ["s1"]


async def test_notifications_in_no_right_shape_are_not_handed_on(audit: Audit, tmp_path: Path) -> None:
    async with house(audit=audit) as home:
        guest = await home.client()
        await open_session(home, guest, tmp_path)
        home.agent.notify("elicitation/complete", {"nothing": 1})
        home.agent.notify("elicitation/complete", {"elicitationId": "e1"})
        told = await guest.until_method("elicitation/complete")
        assert told["params"] == {"elicitationId": "e1"}


def test_a_line_break_between_members_ends_no_event() -> None:
    frame = Outgoing(b'{"jsonrpc":"2.0",\r"method":"session/update"}')
    assert frame.event == b'data: {"jsonrpc":"2.0", "method":"session/update"}\n\n'
