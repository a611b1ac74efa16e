"""Several clients on one session: the same order for all, one answer to each question, and nobody in another's way."""

from pathlib import Path
from typing import Any

import pytest
from tests.gateway.core.house import Guest, House, house, open_session

from accord.gateway.access.audit import Audit
from accord.gateway.access.passes import Pass

OPTIONS = [
    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]
CALL = {"toolCallId": "c1", "title": "Run it", "kind": "execute"}


async def two(home: House, cwd: Path, **capabilities: Any) -> tuple[Guest, Guest]:
    """Two clients on one session; the second joined with its (empty) history."""
    first, second = await home.client(**capabilities), await home.client(**capabilities)
    session = await open_session(home, first, cwd)
    await second.load(session, str(cwd))
    return first, second


async def test_a_joining_client_gets_the_history_and_then_what_happens(audit: Audit, tmp_path: Path) -> None:
    async with house(audit=audit) as home:
        first = await home.client()
        modes = {"currentModeId": "a", "availableModes": [{"id": "a", "name": "A"}, {"id": "b", "name": "B"}]}
        await open_session(home, first, tmp_path, modes=modes)
        turn = first.prompt("s1", "hello")
        prompt = await home.agent.until_method("session/prompt")
        home.agent.say("s1", "one ")
        home.agent.say("s1", "two")
        home.agent.tell("s1", {"sessionUpdate": "current_mode_update", "currentModeId": "b"})
        for _ in range(3):
            await first.update()
        second = await home.client()
        updates, result = await second.load("s1", str(tmp_path))
        assert [(u["sessionUpdate"], u["content"]["text"]) for u in updates] == [
            ("user_message_chunk", "hello"),
            ("agent_message_chunk", "one two"),
        ]
        assert result["modes"]["currentModeId"] == "b"
        home.agent.say("s1", " three")
        home.agent.reply(prompt, {"stopReason": "end_turn"})
        assert (await second.update())["content"]["text"] == " three"
        updates, _ = await first.updates_until(turn)
        assert [u["content"]["text"] for u in updates] == [" three"]
        assert not [m for m in home.agent.heard if m.get("method") == "session/load"]


async def test_resuming_a_live_session_gives_no_history_but_how_things_stand(
    audit: Audit, tmp_path: Path
) -> None:
    async with house(audit=audit) as home:
        first = await home.client()
        await open_session(home, first, tmp_path)
        home.agent.say("s1", "old")
        commands = {"sessionUpdate": "available_commands_update", "availableCommands": []}
        home.agent.tell("s1", commands)
        await first.update()
        await first.update()
        second = await home.client()
        asked = second.ask("session/resume", {"sessionId": "s1", "cwd": str(tmp_path), "mcpServers": []})
        updates, _ = await second.updates_until(asked)
        assert updates == []
        assert await second.update() == commands


async def test_the_prompt_of_one_is_shown_to_the_others_and_so_is_its_end(
    audit: Audit, tmp_path: Path
) -> None:
    async with house(audit=audit) as home:
        first, second = await two(home, tmp_path, _meta={"accord": {"turn": True}})
        turn = first.prompt("s1", "question")
        prompt = await home.agent.until_method("session/prompt")
        assert (await second.update())["content"]["text"] == "question"
        started = await second.until_method("_accord/turn")
        assert started["params"] == {"sessionId": "s1", "state": "started"}
        home.agent.tell(
            "s1", {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "question"}}
        )  # an echo: everybody knows it
        home.agent.say("s1", "answer")
        home.agent.reply(prompt, {"stopReason": "end_turn"})
        assert (await second.update())["content"]["text"] == "answer"
        ended = await second.until_method("_accord/turn")
        assert ended["params"] == {"sessionId": "s1", "state": "ended", "stopReason": "end_turn"}
        updates, _ = await first.updates_until(turn)
        assert [update["content"]["text"] for update in updates] == ["answer"]
        assert "_accord/turn" not in [message.get("method") for message in first.heard]


@pytest.mark.parametrize("answer", ["yes", "no"])
async def test_a_permission_goes_to_all_and_the_first_answer_wins(
    audit: Audit, tmp_path: Path, answer: str
) -> None:
    async with house(audit=audit) as home:
        first, second = await two(home, tmp_path)
        asked = home.agent.ask(
            "session/request_permission", {"sessionId": "s1", "toolCall": CALL, "options": OPTIONS}
        )
        question = await first.until_method("session/request_permission")
        same = await second.until_method("session/request_permission")
        assert question["params"]["options"] == OPTIONS
        second.reply(same, {"outcome": {"outcome": "selected", "optionId": answer}, "_meta": {"why": "x"}})
        decided = await home.agent.answer_to(asked)
        assert decided["result"]["outcome"] == {"outcome": "selected", "optionId": answer}
        over = await first.until_method("$/cancel_request")
        assert over["params"]["requestId"] == question["id"]
        first.reply(question, {"outcome": {"outcome": "selected", "optionId": "yes"}})  # too late
        home.agent.say("s1", "on")
        await first.update()
        assert [m for m in home.agent.heard if m.get("id") == asked and "result" in m] == [decided]


@pytest.mark.parametrize(
    "answer",
    [
        {"outcome": {"outcome": "selected", "optionId": "other"}},
        {"outcome": {"outcome": "selected"}},
        {"outcome": True},
        {},
        "go on",
        None,
    ],
)
async def test_an_answer_that_cannot_be_read_is_a_no(audit: Audit, tmp_path: Path, answer: Any) -> None:
    async with house(audit=audit) as home:
        guest = await home.client()
        await open_session(home, guest, tmp_path)
        asked = home.agent.ask(
            "session/request_permission", {"sessionId": "s1", "toolCall": CALL, "options": OPTIONS}
        )
        guest.reply(await guest.until_method("session/request_permission"), answer)
        outcome = (await home.agent.answer_to(asked))["result"]["outcome"]
        assert outcome == {"outcome": "cancelled"}


async def test_an_error_of_one_client_leaves_the_question_to_the_others(audit: Audit, tmp_path: Path) -> None:
    async with house(audit=audit) as home:
        first, second = await two(home, tmp_path)
        asked = home.agent.ask(
            "session/request_permission", {"sessionId": "s1", "toolCall": CALL, "options": OPTIONS}
        )
        first.refuse(await first.until_method("session/request_permission"), -32601)
        second.reply(
            await second.until_method("session/request_permission"),
            {"outcome": {"outcome": "selected", "optionId": "no"}},
        )
        assert (await home.agent.answer_to(asked))["result"]["outcome"]["optionId"] == "no"


@pytest.mark.parametrize(
    "answer",
    [None, {}, True, {"outcome": {"outcome": "selected", "optionId": "other"}}, {"outcome": "selected"}],
)
async def test_an_answer_that_is_none_of_the_options_decides_nothing_for_the_others(
    audit: Audit, tmp_path: Path, answer: Any
) -> None:
    async with house(audit=audit) as home:
        first, second = await two(home, tmp_path)
        asking = home.agent.ask(
            "session/request_permission", {"sessionId": "s1", "toolCall": CALL, "options": OPTIONS}
        )
        asked = await first.until_method("session/request_permission")
        first.reply(asked, answer)
        error = await first.error("_accord/inbox/answer", {"id": str(asked["id"]), "result": answer})
        assert "none of the options" in error["message"]
        right = {"outcome": {"outcome": "selected", "optionId": "no"}}
        second.reply(await second.until_method("session/request_permission"), right)
        assert (await home.agent.answer_to(asking))["result"] == right


async def test_a_pending_permission_waits_for_whoever_comes_back(audit: Audit, tmp_path: Path) -> None:
    async with house(audit=audit) as home:
        guest = await home.client()
        await open_session(home, guest, tmp_path)
        turn = guest.prompt("s1")
        prompt = await home.agent.until_method("session/prompt")
        asked = home.agent.ask(
            "session/request_permission", {"sessionId": "s1", "toolCall": CALL, "options": OPTIONS}
        )
        await guest.until_method("session/request_permission")
        guest.line.end(1006, "the client vanished")
        back = await home.client()
        await back.load("s1", str(tmp_path))
        question = await back.until_method("session/request_permission")
        back.reply(question, {"outcome": {"outcome": "selected", "optionId": "yes"}})
        assert (await home.agent.answer_to(asked))["result"]["outcome"]["optionId"] == "yes"
        home.agent.say("s1", "done")
        home.agent.reply(prompt, {"stopReason": "end_turn"})
        assert (await back.update())["content"]["text"] == "done"
        assert turn not in [message.get("id") for message in back.heard]


async def test_anybody_can_cancel_and_what_waits_is_answered_so(audit: Audit, tmp_path: Path) -> None:
    async with house(audit=audit) as home:
        first, second = await two(home, tmp_path)
        turn = first.prompt("s1")
        prompt = await home.agent.until_method("session/prompt")
        asked = home.agent.ask(
            "session/request_permission", {"sessionId": "s1", "toolCall": CALL, "options": OPTIONS}
        )
        await first.until_method("session/request_permission")
        second.notify("session/cancel", {"sessionId": "s1"})
        await home.agent.until_method("session/cancel")
        assert (await home.agent.answer_to(asked))["result"]["outcome"] == {"outcome": "cancelled"}
        await first.until_method("$/cancel_request")
        home.agent.reply(prompt, {"stopReason": "cancelled"})
        assert (await first.answer_to(turn))["result"]["stopReason"] == "cancelled"


async def test_what_the_agent_takes_back_is_taken_back_from_all(audit: Audit, tmp_path: Path) -> None:
    async with house(audit=audit) as home:
        first, second = await two(home, tmp_path)
        asked = home.agent.ask(
            "session/request_permission", {"sessionId": "s1", "toolCall": CALL, "options": OPTIONS}
        )
        for guest in (first, second):
            await guest.until_method("session/request_permission")
        home.agent.notify("$/cancel_request", {"requestId": asked})
        for guest in (first, second):
            await guest.until_method("$/cancel_request")
        assert (await home.agent.answer_to(asked))["error"]["code"] == -32800


async def test_a_mode_set_by_one_is_shown_to_the_others(audit: Audit, tmp_path: Path) -> None:
    modes = {"currentModeId": "a", "availableModes": [{"id": "a", "name": "A"}, {"id": "b", "name": "B"}]}
    async with house(audit=audit) as home:
        first, second = await home.client(), await home.client()
        await open_session(home, first, tmp_path, modes=modes)
        await second.load("s1", str(tmp_path))
        asked = first.ask("session/set_mode", {"sessionId": "s1", "modeId": "b"})
        home.agent.reply(await home.agent.until_method("session/set_mode"), {})
        await first.answer_to(asked)
        assert await second.update() == {"sessionUpdate": "current_mode_update", "currentModeId": "b"}


async def test_forms_go_only_to_clients_that_show_them(audit: Audit, tmp_path: Path) -> None:
    form = {
        "mode": "form",
        "sessionId": "s1",
        "message": "Your name?",
        "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
    }
    async with house(audit=audit) as home:
        plain = await home.client()
        await open_session(home, plain, tmp_path)
        showing = await home.client(elicitation={"form": {}})
        await showing.load("s1", str(tmp_path))
        asked = home.agent.ask("elicitation/create", form)
        question = await showing.until_method("elicitation/create")
        showing.reply(question, {"action": "accept", "content": {"name": "x"}})
        answer = (await home.agent.answer_to(asked))["result"]
        assert answer == {"action": "accept", "content": {"name": "x"}}
        assert "elicitation/create" not in [message.get("method") for message in plain.heard]


async def test_the_inbox_lists_streams_and_answers_over_all_sessions(audit: Audit, tmp_path: Path) -> None:
    async with house(audit=audit) as home:
        worker, watcher = await home.client(), await home.client()
        await open_session(home, worker, tmp_path)
        assert await watcher.call("_accord/inbox", {"subscribe": True}) == {"items": []}
        asked = home.agent.ask(
            "session/request_permission", {"sessionId": "s1", "toolCall": CALL, "options": OPTIONS}
        )
        added = (await watcher.until_method("_accord/inbox"))["params"]["added"]
        assert added["method"] == "session/request_permission"
        assert (added["agent"], added["sessionId"], added["cwd"]) == ("hand", "s1", str(tmp_path))
        assert added["params"]["options"] == OPTIONS
        assert (await watcher.call("_accord/inbox"))["items"] == [added]
        choice = {"outcome": {"outcome": "selected", "optionId": "yes"}}
        assert await watcher.call("_accord/inbox/answer", {"id": added["id"], "result": choice}) == {}
        assert (await home.agent.answer_to(asked))["result"] == choice
        await worker.until_method("$/cancel_request")
        removed = [m["params"] for m in watcher.heard if m.get("method") == "_accord/inbox"][-1]
        assert removed["removed"]["id"] == added["id"]
        again = await watcher.error("_accord/inbox/answer", {"id": added["id"], "result": choice})
        assert again["code"] == -32002


async def test_the_inbox_of_a_token_ends_at_its_folders(audit: Audit, tmp_path: Path) -> None:
    async with house(audit=audit) as home:
        worker = await home.client()
        elsewhere = await home.client(Pass("t2", folders=(str(tmp_path / "else"),)))
        reader = await home.client(Pass("t3", read_only=True))
        await open_session(home, worker, tmp_path)
        home.agent.ask(
            "session/request_permission", {"sessionId": "s1", "toolCall": CALL, "options": OPTIONS}
        )
        question = await worker.until_method("session/request_permission")
        for other in (elsewhere, reader):
            assert (await other.call("_accord/inbox"))["items"] == []
        choice = {"outcome": {"outcome": "selected", "optionId": "yes"}}
        error = await elsewhere.error("_accord/inbox/answer", {"id": str(question["id"]), "result": choice})
        assert error["code"] == -32002
        assert (
            await elsewhere.error("session/load", {"sessionId": "s1", "cwd": str(tmp_path), "mcpServers": []})
        )["code"] == -32003


async def test_a_reader_watches_and_is_never_asked(audit: Audit, tmp_path: Path) -> None:
    async with house(audit=audit) as home:
        worker, reader = await home.client(), await home.client(Pass("t3", read_only=True))
        await open_session(home, worker, tmp_path)
        await reader.load("s1", str(tmp_path))
        home.agent.ask(
            "session/request_permission", {"sessionId": "s1", "toolCall": CALL, "options": OPTIONS}
        )
        await worker.until_method("session/request_permission")
        home.agent.say("s1", "seen")
        assert (await reader.update())["content"]["text"] == "seen"
        assert "session/request_permission" not in [message.get("method") for message in reader.heard]
        prompt = {"sessionId": "s1", "prompt": [{"type": "text", "text": "do"}]}
        assert (await reader.error("session/prompt", prompt))["code"] == -32003


async def test_the_overview_tells_who_runs_waits_and_idles(audit: Audit, tmp_path: Path) -> None:
    async with house(audit=audit) as home:
        worker, watcher = await home.client(), await home.client()
        await open_session(home, worker, tmp_path)
        listed = (await watcher.call("_accord/sessions", {"subscribe": True}))["sessions"]
        assert [(entry["sessionId"], entry["state"], entry["clients"]) for entry in listed] == [
            ("s1", "idle", 1)
        ]
        turn = worker.prompt("s1", "work")
        prompt = await home.agent.until_method("session/prompt")

        async def state() -> str:
            return (await watcher.until_method("_accord/sessions"))["params"]["changed"]["state"]

        assert await state() == "running"
        asked = home.agent.ask(
            "session/request_permission", {"sessionId": "s1", "toolCall": CALL, "options": OPTIONS}
        )
        while await state() != "waiting":
            pass
        question = await worker.until_method("session/request_permission")
        worker.reply(question, {"outcome": {"outcome": "selected", "optionId": "no"}})
        await home.agent.answer_to(asked)
        home.agent.reply(prompt, {"stopReason": "end_turn"})
        await worker.answer_to(turn)
        while await state() != "idle":
            pass


async def test_options_that_are_on_or_off_go_only_to_clients_that_take_them(
    audit: Audit, tmp_path: Path
) -> None:
    switch = {"type": "boolean", "id": "web", "name": "Web", "currentValue": True}
    choice = {
        "type": "select",
        "id": "model",
        "name": "Model",
        "currentValue": "a",
        "options": [{"value": "a", "name": "A"}],
    }
    async with house(audit=audit) as home:
        plain = await home.client()
        knowing = await home.client(session={"configOptions": {"boolean": {}}})
        asked = plain.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        await home.agent.opened("s1", configOptions=[switch, choice])
        assert (await plain.answer_to(asked))["result"]["configOptions"] == [choice]
        _, opened = await knowing.load("s1", str(tmp_path))
        assert opened["configOptions"] == [switch, choice]
        switch["currentValue"] = False
        home.agent.tell("s1", {"sessionUpdate": "config_option_update", "configOptions": [switch, choice]})
        assert (await plain.update())["configOptions"] == [choice]
        assert (await knowing.update())["configOptions"] == [switch, choice]


async def test_a_session_without_a_title_is_listed_by_its_first_prompt(audit: Audit, tmp_path: Path) -> None:
    async with house({}, audit=audit) as home:
        guest = await home.client()
        await open_session(home, guest, tmp_path)
        for asked in ("Mend the \x1b[31mparser\n please", "and the tests"):
            turn = guest.prompt("s1", asked)
            home.agent.reply(await home.agent.until_method("session/prompt"), {"stopReason": "end_turn"})
            await guest.answer_to(turn)

        async def title() -> str:
            return (await guest.call("_accord/sessions"))["sessions"][0]["title"]

        named = await title()
        assert named.startswith("Mend the")
        assert named.endswith("please")
        assert "\x1b" not in named
        assert (await guest.call("session/list"))["sessions"][0]["title"] == named
        home.agent.tell("s1", {"sessionUpdate": "session_info_update", "title": "The parser"})
        await guest.update()
        assert await title() == "The parser"
