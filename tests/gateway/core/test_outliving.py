"""Sessions that outlive clients, agents and the gateway itself."""

from pathlib import Path
from typing import Any

import pytest
from tests.gateway.core.house import Guest, House, house, open_session
from tests.gateway.core.test_sharing import CALL, OPTIONS

from accord.gateway.access.audit import Audit
from accord.gateway.access.limits import Limits
from accord.gateway.access.passes import Pass
from accord.store import open_store
from accord.testing import FakeClock


async def whole_turn(home: House, guest: Guest, asked: str, answer: str) -> None:
    turn = guest.prompt("s1", asked)
    prompt = await home.agent.until_method("session/prompt")
    home.agent.say("s1", answer)
    home.agent.reply(prompt, {"stopReason": "end_turn"})
    await guest.answer_to(turn)


def said(updates: list[Any]) -> list[tuple[str, str]]:
    return [(u["sessionUpdate"], u["content"]["text"]) for u in updates if "content" in u]


HISTORY = [("user_message_chunk", "hello"), ("agent_message_chunk", "hi")]


async def test_a_turn_goes_on_without_its_client_and_is_there_for_the_next(
    audit: Audit, tmp_path: Path
) -> None:
    async with house(audit=audit) as home:
        guest = await home.client()
        await open_session(home, guest, tmp_path)
        guest.prompt("s1", "hello")
        prompt = await home.agent.until_method("session/prompt")
        guest.line.end(1006, "the client vanished")
        home.agent.say("s1", "hi")
        home.agent.reply(prompt, {"stopReason": "end_turn"})
        back = await home.client()
        updates, _ = await back.load("s1", str(tmp_path))
        assert said(updates) == HISTORY


async def test_an_agent_that_dies_ends_the_turn_with_how_and_the_next_prompt_starts_it_again(
    audit: Audit, tmp_path: Path
) -> None:
    async with house(audit=audit) as home:
        guest = await home.client()
        await open_session(home, guest, tmp_path)
        await whole_turn(home, guest, "hello", "hi")
        turn = guest.prompt("s1", "again")
        await home.agent.until_method("session/prompt")
        home.agent.ask(
            "session/request_permission", {"sessionId": "s1", "toolCall": CALL, "options": OPTIONS}
        )
        await guest.until_method("session/request_permission")
        home.agent.tell("s1", {"sessionUpdate": "tool_call", **CALL, "status": "in_progress"})
        await home.agent.aclose()
        error = (await guest.answer_to(turn))["error"]
        assert error["code"] == -32603
        assert "was not answered" in error["message"]
        assert not home.gateway.asks
        closed = await guest.update()
        assert (closed["toolCallId"], closed["status"]) == ("c1", "failed"), "what it was at is over, too"

        turn = guest.prompt("s1", "once more")
        while len(home.agents) < 2:
            await home.gateway.agents["hand"].ready()
        resume = await home.agent.until_method("session/resume")
        assert resume["params"]["sessionId"] == "s1"
        assert resume["params"]["cwd"] == str(tmp_path)
        home.agent.reply(resume, {})
        prompt = await home.agent.until_method("session/prompt")
        home.agent.reply(prompt, {"stopReason": "end_turn"})
        assert (await guest.answer_to(turn))["result"]["stopReason"] == "end_turn"


async def test_an_agent_that_only_loads_is_revived_without_showing_anything_twice(
    audit: Audit, tmp_path: Path
) -> None:
    async with house({"loadSession": True}, audit=audit) as home:
        guest = await home.client()
        await open_session(home, guest, tmp_path)
        await whole_turn(home, guest, "hello", "hi")
        await home.agent.aclose()
        turn = guest.prompt("s1", "more")
        while len(home.agents) < 2:
            await home.gateway.agents["hand"].ready()
        load = await home.agent.until_method("session/load")
        home.agent.say("s1", "hi")  # its replay
        home.agent.reply(load, {})
        prompt = await home.agent.until_method("session/prompt")
        home.agent.say("s1", "yes")
        home.agent.reply(prompt, {"stopReason": "end_turn"})
        updates, _ = await guest.updates_until(turn)
        assert said(updates) == [("agent_message_chunk", "yes")]
        other = await home.client()
        updates, _ = await other.load("s1", str(tmp_path))
        assert said(updates) == [
            *HISTORY,
            ("user_message_chunk", "more"),
            ("agent_message_chunk", "yes"),
        ]


async def test_after_a_restart_of_the_gateway_a_session_loads_through_the_agent(
    audit: Audit, tmp_path: Path
) -> None:
    path = tmp_path / "log.db"
    async with house(audit=audit, store=(store := open_store(path))) as home:
        guest = await home.client()
        await open_session(home, guest, tmp_path)
        await whole_turn(home, guest, "hello", "hi")
    store.close()
    async with house(audit=audit, store=(store := open_store(path))) as home:
        guest = await home.client()
        listed = guest.ask("session/list")
        home.agent.reply(await home.agent.until_method("session/list"), {"sessions": []})
        sessions = (await guest.answer_to(listed))["result"]["sessions"]
        assert [(entry["sessionId"], entry["cwd"]) for entry in sessions] == [("s1", str(tmp_path))]
        loading = guest.ask("session/load", {"sessionId": "s1", "cwd": str(tmp_path), "mcpServers": []})
        load = await home.agent.until_method("session/load")
        home.agent.tell(
            "s1", {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "hello"}}
        )
        home.agent.say("s1", "hi, as the agent remembers it")
        home.agent.reply(load, {})
        updates, _ = await guest.updates_until(loading)
        seen = [("user_message_chunk", "hello"), ("agent_message_chunk", "hi, as the agent remembers it")]
        assert said(updates) == seen
        other = await home.client()
        updates, _ = await other.load("s1", str(tmp_path))
        assert said(updates) == seen
    store.close()


async def test_a_session_of_an_agent_that_cannot_load_is_read_from_the_gateways_log(
    audit: Audit, tmp_path: Path
) -> None:
    path = tmp_path / "log.db"
    async with house({}, audit=audit, store=(store := open_store(path))) as home:
        guest = await home.client()
        await open_session(home, guest, tmp_path)
        await whole_turn(home, guest, "hello", "hi")
    store.close()
    async with house({}, audit=audit, store=(store := open_store(path))) as home:
        guest = await home.client()
        sessions = (await guest.call("session/list"))["sessions"]
        assert [entry["sessionId"] for entry in sessions] == ["s1"]
        updates, _ = await guest.load("s1", str(tmp_path))
        assert said(updates) == HISTORY
        error = (await guest.answer_to(guest.prompt("s1", "and?")))["error"]
        assert "start a new one" in error["message"]
    store.close()


async def test_a_turn_cut_off_by_a_kill_of_the_gateway_is_closed_in_the_log(
    audit: Audit, tmp_path: Path
) -> None:
    path = tmp_path / "log.db"
    async with house({}, audit=audit, store=open_store(path)) as home:
        guest = await home.client()
        await open_session(home, guest, tmp_path)
        guest.prompt("s1", "hello")
        await home.agent.until_method("session/prompt")
        home.agent.tell(
            "s1", {"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "Work", "status": "in_progress"}
        )
        await guest.update()
        copy = tmp_path / "copy.db"  # what a kill at this moment would leave behind
        for suffix in ("", "-wal"):
            left = Path(f"{path}{suffix}")
            if left.exists():
                Path(f"{copy}{suffix}").write_bytes(left.read_bytes())
    async with house({}, audit=audit, store=(store := open_store(copy))) as home:
        guest = await home.client()
        updates, _ = await guest.load("s1", str(tmp_path))
        calls = [update for update in updates if update["sessionUpdate"] == "tool_call"]
        assert [call["status"] for call in calls] == ["failed"]
    store.close()


async def test_a_session_made_elsewhere_is_loaded_through_the_agent_and_then_shared(
    audit: Audit, tmp_path: Path
) -> None:
    async with house(audit=audit) as home:
        first = await home.client()
        loading = first.ask("session/load", {"sessionId": "old", "cwd": str(tmp_path), "mcpServers": []})
        load = await home.agent.until_method("session/load")
        home.agent.say("old", "from before")
        home.agent.reply(load, {})
        updates, _ = await first.updates_until(loading)
        assert said(updates) == [("agent_message_chunk", "from before")]
        second = await home.client()
        updates, _ = await second.load("old", str(tmp_path))
        assert said(updates) == [("agent_message_chunk", "from before")]


async def test_a_session_that_nobody_knows_is_not_found_and_leaves_no_trace(
    audit: Audit, tmp_path: Path
) -> None:
    async with house(audit=audit) as home:
        guest = await home.client()
        loading = guest.ask("session/load", {"sessionId": "none", "cwd": str(tmp_path), "mcpServers": []})
        home.agent.refuse(await home.agent.until_method("session/load"), -32002, "no such session")
        assert (await guest.answer_to(loading))["error"]["code"] == -32002
        assert (await guest.call("_accord/sessions"))["sessions"] == []
    async with house({}, audit=audit) as home:
        guest = await home.client()
        error = await guest.error(
            "session/load", {"sessionId": "none", "cwd": str(tmp_path), "mcpServers": []}
        )
        assert error["code"] == -32002


async def test_the_list_joins_the_agents_and_the_gateways_and_keeps_to_the_folders(
    audit: Audit, tmp_path: Path
) -> None:
    async with house(audit=audit) as home:
        guest = await home.client()
        await open_session(home, guest, tmp_path)

        async def listed(asker: Guest) -> list[str]:
            asked = asker.ask("session/list")
            theirs = [
                {
                    "sessionId": "s1",
                    "cwd": str(tmp_path),
                    "title": "Ours",
                    "updatedAt": "2031-01-01T00:00:00Z",
                },
                {"sessionId": "s2", "cwd": "/elsewhere", "updatedAt": "2001-01-01T00:00:00Z"},
            ]
            home.agent.reply(await home.agent.until_method("session/list"), {"sessions": theirs})
            return [entry["sessionId"] for entry in (await asker.answer_to(asked))["result"]["sessions"]]

        assert await listed(guest) == ["s1", "s2"]
        assert await listed(await home.client(Pass("t2", folders=(str(tmp_path),)))) == ["s1"]


async def test_the_last_one_to_close_closes_at_the_agent(audit: Audit, tmp_path: Path) -> None:
    async with house(audit=audit) as home:
        first, second = await home.client(), await home.client()
        await open_session(home, first, tmp_path)
        await second.load("s1", str(tmp_path))
        await first.call("session/close", {"sessionId": "s1"})
        assert not [m for m in home.agent.heard if m.get("method") == "session/close"]
        closing = second.ask("session/close", {"sessionId": "s1"})
        home.agent.reply(await home.agent.until_method("session/close"), {})
        assert (await second.answer_to(closing))["result"] == {}
        prompt = {"sessionId": "s1", "prompt": [{"type": "text", "text": "x"}]}
        assert (await second.error("session/prompt", prompt))["code"] == -32002


async def test_a_deleted_session_is_gone_for_all(audit: Audit, tmp_path: Path) -> None:
    async with house(audit=audit) as home:
        first, second = await home.client(), await home.client()
        await open_session(home, first, tmp_path)
        await second.call("_accord/sessions", {"subscribe": True})
        deleting = first.ask("session/delete", {"sessionId": "s1"})
        home.agent.reply(await home.agent.until_method("session/delete"), {})
        assert (await first.answer_to(deleting))["result"] == {}
        gone = await second.until(lambda m: "removed" in m.get("params", {}))
        assert gone["params"]["removed"] == {"agent": "hand", "sessionId": "s1"}
        assert (await second.call("_accord/sessions"))["sessions"] == []


async def test_an_idle_agent_is_ended_and_started_again_when_needed(audit: Audit, tmp_path: Path) -> None:
    clock = FakeClock()
    async with house(audit=audit, clock=clock, idle=600) as home:
        guest = await home.client()
        await open_session(home, guest, tmp_path)
        first = home.agent
        turn = guest.prompt("s1", "long work")
        prompt = await first.until_method("session/prompt")
        await clock.advance(3600)
        assert first.end is None, "a turn runs"
        first.reply(prompt, {"stopReason": "end_turn"})
        await guest.answer_to(turn)
        await clock.advance(3600)
        await first.wait_end()
        turn = guest.prompt("s1", "again")
        while len(home.agents) < 2:
            await home.gateway.agents["hand"].ready()
        home.agent.reply(await home.agent.until_method("session/resume"), {})
        home.agent.reply(await home.agent.until_method("session/prompt"), {"stopReason": "end_turn"})
        assert (await guest.answer_to(turn))["result"]["stopReason"] == "end_turn"


async def test_limits_refuse_clearly(audit: Audit, tmp_path: Path) -> None:
    async with house(audit=audit, limits=Limits(sessions=1)) as home:
        guest = await home.client()
        await open_session(home, guest, tmp_path)
        error = await guest.error("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        assert "live sessions" in error["message"]
        closing = guest.ask("session/close", {"sessionId": "s1"})
        home.agent.reply(await home.agent.until_method("session/close"), {})
        await guest.answer_to(closing)
        await open_session(home, guest, tmp_path, "s2")


@pytest.mark.parametrize("capabilities", [None, {}])
async def test_updates_while_a_client_joins_come_once_and_in_order(
    audit: Audit, tmp_path: Path, capabilities: dict[str, Any] | None
) -> None:
    async with house(capabilities, audit=audit) as home:
        first = await home.client()
        await open_session(home, first, tmp_path)
        for number in range(200):
            home.agent.tell(
                "s1",
                {"sessionUpdate": "tool_call", "toolCallId": f"c{number}", "title": "x" * 20_000},
            )
        joining: list[Guest] = []
        for number in range(200, 400):
            home.agent.tell("s1", {"sessionUpdate": "tool_call", "toolCallId": f"c{number}", "title": "y"})
            if number % 50 == 0:
                guest = await home.client()
                guest.ask(
                    "session/load", {"sessionId": "s1", "cwd": str(tmp_path), "mcpServers": []}, id="load"
                )
                joining.append(guest)
        wanted = [f"c{number}" for number in range(400)]
        for guest in joining:
            seen: list[str] = []
            while len(seen) < 400:
                seen.append((await guest.update())["toolCallId"])
            assert seen == wanted
