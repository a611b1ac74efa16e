"""What goes wrong around a session: logs that are held, full or of another time, prompts that are given up, turns that do not stop."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.coder.agent.desk import Desk, ScriptedModel, use

from accord.coder.messages import ThoughtPart, ToolUse, UserMessage, text_of
from accord.coder.models import ModelRequest
from accord.session import TurnEnded, TurnStarted
from accord.store import open_store
from accord.store.sqlite import SqliteStore
from accord.testing import FakeClock


def opening(desk: Desk, session: str) -> dict[str, Any]:
    return {"sessionId": session, "cwd": desk.cwd, "mcpServers": []}


async def a_session(desk: Desk, *prompts: str) -> str:
    """A closed session of some turns."""
    async with desk.client(*(["Hello."] for _ in prompts)) as client:
        session = await client.new_session(desk.cwd)
        for prompt in prompts:
            await client.turn(session, prompt)
    return session


# -- logs -------------------------------------------------------------------------------------------------------


async def test_a_session_to_resume_that_another_process_holds_begins_afresh_and_says_so(
    desk: Desk, capsys: pytest.CaptureFixture[str]
):
    async with desk.client(["Hello."]) as one:
        held = await one.new_session(desk.cwd)
        await one.turn(held, "hi")
        async with desk.client(["Hello."], resume=True) as two:
            fresh = await two.new_session(desk.cwd)
            assert fresh != held
            _, result = await two.turn(fresh, "hi")
            assert result["stopReason"] == "end_turn"
    said = capsys.readouterr().err
    assert f"--resume: session {held} is open" in said
    assert "a new session begins" in said


@pytest.mark.parametrize("method", ["session/load", "session/resume", "session/fork"])
async def test_a_history_of_a_newer_accord_is_refused_in_so_many_words(desk: Desk, method: str):
    session = await a_session(desk, "hi")
    store = open_store()
    with store.journal(session) as journal:
        journal.record("model", {"type": "folded", "blob": "..."})
    store.close()
    async with desk.client(["x"]) as client:
        error = await client.error(method, opening(desk, session))
        assert session in error["message"] or method == "session/fork"
        assert "newer Accord" in error["message"]
        other = open_store()
        assert other.writer(session) is None
        assert [head.session_id for head in other.list().heads] == [session]  # no fork is left over
        other.close()


@pytest.mark.parametrize(
    ("kind", "value"),
    [("chosen", {"model": "openai:x", "effort": "boundless"}), ("servers", 5), ("spent", {"input": "a lot"})],
)
async def test_what_is_not_the_history_may_be_of_a_newer_accord(desk: Desk, kind: str, value: Any):
    session = await a_session(desk, "hi")
    store = open_store()
    with store.journal(session) as journal:
        journal.record(kind, value)
    store.close()
    model = ScriptedModel()
    async with desk.client(model=model) as client:
        await client.call("session/load", opening(desk, session))
        await client.turn(session, "more")
    assert model.prompts == ["hi", "Hello.", "more"]


async def test_a_full_disk_is_named_and_the_session_goes_on_once_there_is_space(desk: Desk, tmp_path: Path):
    store = SqliteStore(tmp_path / "sessions.db")
    for name in "abc":
        (desk.project / name).write_text("words on a line\n" * 3000)

    def disk(pages: int) -> None:
        store._file.connection.execute(f"PRAGMA max_page_count = {pages}")  # pyright: ignore[reportPrivateUsage]

    def read_much(request: ModelRequest) -> list[Any]:
        disk(1)  # no more than there are
        return [use("read_file", path=name) for name in "abc"]

    model = ScriptedModel(read_much, ["Better."])
    async with desk.client(model=model, store=store) as client:
        session = await client.new_session(desk.cwd)
        for _ in range(2):
            error = await client.error(
                "session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "read"}]}
            )
            assert error["code"] == -32603
            assert "is full: free some space" in error["message"]
        disk(1_000_000)
        _, result = await client.turn(session, "again")
        assert result["stopReason"] == "end_turn"
        await client.call("session/load", opening(desk, session))
    words = "\n".join(model.prompts)
    assert "Cancelled by the user" not in words  # nobody did


# -- prompts that are given up ----------------------------------------------------------------------------------


async def test_a_prompt_that_is_cancelled_at_the_question_of_trust_is_remembered_and_the_question_asked_again(
    desk: Desk,
):
    (desk.project / ".accord").mkdir()
    (desk.project / ".accord" / "permissions.toml").write_text('deny = [{ tool = "write_file" }]\n')
    model = ScriptedModel([use("write_file", path="c", content="1")], ["Then not."])
    async with desk.client(model=model) as client:
        session = await client.new_session(desk.cwd)
        turn = client.prompt(session, "write c")
        await client.asked("session/request_permission")
        client.cancel(session)
        _, result = await client.turn_of(turn)
        assert result["stopReason"] == "cancelled"
        turn = client.prompt(session, "do it")
        asked = await client.asked("session/request_permission")
        assert asked["params"]["toolCall"]["title"].startswith("Trust")
        client.raw.reply(asked, {"outcome": {"outcome": "selected", "optionId": "trust"}})
        _, result = await client.turn_of(turn)
        assert result["stopReason"] == "end_turn"
    assert not (desk.project / "c").exists()
    said = [text_of(message) for message in model.requests[0].messages]
    assert said == ["write c", "The user cancelled the turn here.", "do it"]


async def test_a_cancelled_turn_says_what_it_has_used_until_then(desk: Desk):
    async with desk.client([use("write_file", path="c", content="1")]) as client:
        session = await client.new_session(desk.cwd)
        turn = client.prompt(session)
        await client.asked("session/request_permission")
        client.cancel(session)
        _, result = await client.turn_of(turn)
    used = {"totalTokens": 110, "inputTokens": 100, "outputTokens": 10}
    assert result == {"stopReason": "cancelled", "usage": used}


async def test_a_client_that_never_confirms_the_end_of_a_terminal_has_its_answer_within_a_second(desk: Desk):
    (desk.home / "config").mkdir()
    (desk.home / "config" / "config.toml").write_text("[sandbox]\nenabled = false\n")
    clock = FakeClock()
    model = ScriptedModel([use("bash", command="make")])
    async with desk.client(model=model, clock=clock, capabilities={"terminal": True}) as client:
        session = await client.new_session(desk.cwd)
        await client.call("session/set_mode", {"sessionId": session, "modeId": "full-access"})
        turn = client.prompt(session)
        client.raw.reply(await client.asked("terminal/create"), {"terminalId": "t"})
        await client.asked("terminal/wait_for_exit")
        client.cancel(session)
        await client.asked("terminal/release")
        await clock.advance(0.9)
        _, result = await client.turn_of(turn)
        assert result["stopReason"] == "cancelled"


async def test_a_turn_that_does_not_stop_is_answered_and_its_late_end_disturbs_no_log(desk: Desk):
    clock, stuck, released = FakeClock(), asyncio.Event(), asyncio.Event()

    async def never_mind(request: ModelRequest) -> list[Any]:
        while not released.is_set():
            stuck.set()
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue
        raise asyncio.CancelledError

    model = ScriptedModel(never_mind, ["Next."])
    async with desk.client(model=model, clock=clock) as client:
        session = await client.new_session(desk.cwd)
        turn = client.prompt(session, "go")
        await stuck.wait()
        client.cancel(session)
        await clock.advance(5)
        _, result = await client.turn_of(turn)
        assert result["stopReason"] == "cancelled"
        _, result = await client.turn(session, "and now?")
        assert result["stopReason"] == "end_turn"
        released.set()
    store = open_store()
    frame = [type(event) for event in store.events(session) if isinstance(event, TurnStarted | TurnEnded)]
    store.close()
    assert frame == [TurnStarted, TurnEnded] * 2


# -- models -----------------------------------------------------------------------------------------------------


async def test_a_model_named_by_the_extension_is_told_to_the_client_as_an_option(desk: Desk):
    async with desk.client(["hi"]) as client:
        session = await client.new_session(desk.cwd)
        for model in ("other", "other"):
            answer = await client.call("_agentao.cn/set_model", {"sessionId": session, "model": model})
            assert answer == {"model": "other"}
        await client.turn(session)
        (told,) = client.said("config_option_update")
        values = {option["id"]: option["currentValue"] for option in told["configOptions"]}
        assert values["model"] == "openai:other"


async def test_half_characters_of_a_model_end_no_turn(desk: Desk):
    strange = ToolUse("1", "read_file", {"path": "a\ud800"})
    model = ScriptedModel([ThoughtPart("\udfff"), "a\ud800b", strange, strange], ["ok"])
    async with desk.client(model=model) as client:
        session = await client.new_session(desk.cwd)
        _, result = await client.turn(session)
        assert result["stopReason"] == "end_turn"
    async with desk.client(model=model) as client:
        await client.call("session/load", opening(desk, session))
        await client.turn(session, "more")
    assert isinstance(model.requests[-1].messages[-1], UserMessage)
