"""What a token covers, it covers everywhere: no way to a session leads around its folders."""

from pathlib import Path
from typing import Any

import pytest
from tests.gateway.core.house import ALL, Guest, House, house, open_session
from tests.gateway.core.test_sharing import CALL, OPTIONS

from accord.gateway.access.audit import Audit
from accord.gateway.access.passes import Pass
from accord.store import open_store


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    return folder


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


def bound(folder: Path, **more: Any) -> Pass:
    return Pass("t2", "guest", folders=(str(folder),), **more)


FORKING = {**ALL, "sessionCapabilities": {**ALL["sessionCapabilities"], "fork": {}}}


@pytest.mark.parametrize("method", ["session/load", "session/resume", "session/fork"])
async def test_a_session_of_the_agents_own_is_opened_only_where_the_agent_says_that_it_lies(
    audit: Audit, inside: Path, outside: Path, method: str
) -> None:
    async with house(FORKING, audit=audit) as home:
        guest = await home.client(bound(inside))
        listed = [{"sessionId": "theirs", "cwd": str(outside)}, {"sessionId": "ours", "cwd": str(inside)}]
        for session, fits in (("theirs", False), ("unheard", False), ("ours", True)):
            asked = guest.ask(method, {"sessionId": session, "cwd": str(inside), "mcpServers": []})
            home.agent.reply(await home.agent.until_method("session/list"), {"sessions": listed})
            if not fits:
                assert (await guest.answer_to(asked))["error"]["code"] == -32002, session
                continue
            opening = await home.agent.until_method(method)
            home.agent.reply(opening, {"sessionId": "new"} if method == "session/fork" else {})
            assert "result" in await guest.answer_to(asked)
        opened = [m["params"]["sessionId"] for m in home.agent.heard if m.get("method") == method]
        assert opened == ["ours"]


@pytest.mark.parametrize("method", ["session/load", "session/resume", "session/fork"])
async def test_a_session_of_another_folder_stays_closed_after_a_restart_of_the_gateway(
    audit: Audit, inside: Path, outside: Path, tmp_path: Path, method: str
) -> None:
    store = open_store(tmp_path / "log.db")
    async with house(FORKING, store=store, audit=audit) as home:
        await open_session(home, await home.client(), outside)
    async with house(FORKING, store=store, audit=audit) as home:
        guest = await home.client(bound(inside))
        error = await guest.error(method, {"sessionId": "s1", "cwd": str(inside), "mcpServers": []})
        assert error["code"] == -32003
        assert not [m for m in home.agent.heard if m.get("method") == method]
    store.close()


async def test_a_session_with_a_further_folder_is_only_for_tokens_that_cover_it(
    audit: Audit, inside: Path, outside: Path
) -> None:
    async with house(audit=audit) as home:
        owner, guest = await home.client(), await home.client(bound(inside))
        await guest.call("_accord/inbox", {"subscribe": True})
        await guest.call("_accord/sessions", {"subscribe": True})
        asked = owner.ask(
            "session/new", {"cwd": str(inside), "mcpServers": [], "additionalDirectories": [str(outside)]}
        )
        await home.agent.opened("s1")
        await owner.answer_to(asked)
        home.agent.ask(
            "session/request_permission", {"sessionId": "s1", "toolCall": CALL, "options": OPTIONS}
        )
        await owner.until_method("session/request_permission")
        for method in ("session/load", "session/resume"):
            error = await guest.error(method, {"sessionId": "s1", "cwd": str(inside), "mcpServers": []})
            assert error["code"] == -32003
        assert (await guest.call("_accord/sessions"))["sessions"] == []
        assert (await guest.call("_accord/inbox"))["items"] == []
        result = {"outcome": {"outcome": "selected", "optionId": "yes"}}
        (item,) = (await owner.call("_accord/inbox"))["items"]
        error = await guest.error("_accord/inbox/answer", {"id": item["id"], "result": result})
        assert error["code"] == -32002
        assert not [m for m in guest.heard if m.get("method", "").startswith("_accord/")]


async def lost(home: House, guest: Guest) -> None:
    """The agent dies, and everybody has seen it."""
    dead = home.agent
    await dead.aclose()
    await home.gateway.agents["hand"].ready()
    assert home.agent is not dead
    await guest.call("_accord/agents")


async def test_a_session_stays_in_its_folder_and_further_folders_send_away_who_may_not_see_them(
    audit: Audit, inside: Path, outside: Path
) -> None:
    async with house(audit=audit) as home:
        owner, guest = await home.client(), await home.client(bound(inside))
        await open_session(home, owner, inside)
        await guest.load("s1", str(inside))
        await lost(home, guest)
        asked = owner.ask(
            "session/load",
            {
                "sessionId": "s1",
                "cwd": str(outside),
                "mcpServers": [],
                "additionalDirectories": [str(outside)],
            },
        )
        load = await home.agent.until_method("session/load")
        assert load["params"]["cwd"] == str(inside)
        home.agent.reply(load, {})
        await owner.answer_to(asked)
        home.agent.say("s1", "from outside")
        await owner.update()
        prompt = {"sessionId": "s1", "prompt": [{"type": "text", "text": "x"}]}
        assert (await guest.error("session/prompt", prompt))["code"] == -32002
        assert not [m for m in guest.heard if m.get("method") == "session/update"]


async def test_a_token_cannot_widen_a_session_beyond_its_folders(
    audit: Audit, inside: Path, outside: Path
) -> None:
    async with house(audit=audit) as home:
        guest = await home.client(bound(inside))
        await open_session(home, guest, inside)
        await lost(home, guest)
        for method in ("session/load", "session/resume"):
            wide = {
                "sessionId": "s1",
                "cwd": str(inside),
                "mcpServers": [],
                "additionalDirectories": [str(outside)],
            }
            assert (await guest.error(method, wide))["code"] == -32003


async def test_a_path_that_two_readings_lead_to_two_places_is_covered_only_if_both_are(
    audit: Audit, inside: Path, outside: Path
) -> None:
    (inside / "a" / "b").mkdir(parents=True)
    (inside / "out").mkdir()
    (inside / "link").symlink_to(inside / "a" / "b")
    crooked = f"{inside}/link/../../out"  # the system: in/out; as a text: out beside in
    assert Path(crooked).resolve() == (inside / "out").resolve()
    async with house(audit=audit) as home:
        guest = await home.client(bound(inside))
        error = await guest.error("session/new", {"cwd": crooked, "mcpServers": []})
        assert error["code"] == -32003
        assert (await guest.error("_accord/folders", {"path": crooked}))["code"] == -32003


async def test_a_name_that_an_agent_uses_again_is_another_session(
    audit: Audit, inside: Path, outside: Path
) -> None:
    async with house(audit=audit) as home:
        owner, guest = await home.client(), await home.client(bound(inside))
        await open_session(home, owner, outside, "1")
        home.agent.say("1", "said outside")
        await owner.update()
        await lost(home, guest)
        await open_session(home, guest, inside, "1")
        home.agent.say("1", "said inside")
        assert (await guest.update())["content"]["text"] == "said inside"
        other = await home.client(bound(inside))
        updates, _ = await other.load("1", str(inside))
        assert [update["content"]["text"] for update in updates] == ["said inside"]
        prompt = {"sessionId": "1", "prompt": [{"type": "text", "text": "x"}]}
        assert (await owner.error("session/prompt", prompt))["code"] == -32002
        kept = (await owner.call("_accord/sessions"))["sessions"]
        (former,) = [entry for entry in kept if entry["cwd"] == str(outside)]
        asked = owner.ask(
            "session/load", {"sessionId": former["sessionId"], "cwd": str(outside), "mcpServers": []}
        )
        home.agent.refuse(await home.agent.until_method("session/load"), -32002, "no such session")
        updates, _ = await owner.updates_until(asked)
        assert [update["content"]["text"] for update in updates] == ["said outside"]
        assert [entry["cwd"] for entry in (await guest.call("_accord/sessions"))["sessions"]] == [str(inside)]


async def test_a_name_whose_log_another_gateway_writes_shows_nothing_of_it(
    audit: Audit, inside: Path, outside: Path, tmp_path: Path
) -> None:
    stores = [open_store(tmp_path / "log.db") for _ in range(2)]
    async with house(store=stores[0], audit=audit) as one, house(store=stores[1], audit=audit) as two:
        owner, guest = await one.client(), await two.client(bound(inside))
        await open_session(one, owner, outside, "1")
        one.agent.say("1", "said outside")
        await owner.update()
        await open_session(two, guest, inside, "1")
        two.agent.say("1", "said inside")
        await guest.update()
        other = await two.client(bound(inside))
        updates, _ = await other.load("1", str(inside))
        assert updates == []
        assert len(list(stores[1].list().heads)) == 1
        assert (await guest.call("_accord/sessions"))["sessions"] == []
        (entry,) = (await (await two.client()).call("_accord/sessions"))["sessions"]
        assert entry["cwd"] == str(outside)
    for store in stores:
        store.close()


async def test_what_an_agent_says_of_no_session_goes_only_to_who_may_see_all_of_its_sessions(
    audit: Audit, inside: Path, outside: Path
) -> None:
    async with house(audit=audit) as home:
        owner, guest = await home.client(), await home.client(bound(inside))
        home.agent.notify("_vendor/news", {"about": "nothing"})
        await guest.until_method("_vendor/news")
        await owner.until_method("_vendor/news")
        await open_session(home, owner, outside)
        home.agent.notify("_vendor/news", {"about": str(outside)})
        await owner.until_method("_vendor/news")
        await guest.call("_accord/agents")
        assert len([m for m in guest.heard if m.get("method") == "_vendor/news"]) == 1
