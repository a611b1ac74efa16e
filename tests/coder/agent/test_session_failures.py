"""Session failures: locked, full or newer logs, cancelled prompts, and turns that do not stop."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.coder.agent.harness import AgentHarness, ScriptedModel, use

from accord.coder.model_history import ThoughtPart, ToolUse, UserMessage, text_of
from accord.coder.models import ModelRequest
from accord.session import TurnEnded, TurnStarted
from accord.store import open_store
from accord.store.sqlite_store import SqliteStore
from accord.testing import FakeClock


def load_params(harness: AgentHarness, session: str) -> dict[str, Any]:
    return {"sessionId": session, "cwd": harness.cwd, "mcpServers": []}


async def closed_session(harness: AgentHarness, *prompts: str) -> str:
    """Run these prompts in a new session, close it and return its id."""
    async with harness.client(*(["Hello."] for _ in prompts)) as client:
        session = await client.new_session(harness.cwd)
        for prompt in prompts:
            await client.turn(session, prompt)
    return session


# -- logs ----------------------------------------------------------------------------------------------------


async def test_resume_of_a_session_open_in_another_process_starts_a_new_session(
    harness: AgentHarness, capsys: pytest.CaptureFixture[str]
):
    async with harness.client(["Hello."]) as one:
        held = await one.new_session(harness.cwd)
        await one.turn(held, "hi")
        async with harness.client(["Hello."], resume=True) as two:
            fresh = await two.new_session(harness.cwd)
            assert fresh != held
            _, result = await two.turn(fresh, "hi")
            assert result["stopReason"] == "end_turn"
    texts = capsys.readouterr().err
    assert f"--resume: session {held} is open" in texts
    assert "starting a new session" in texts


@pytest.mark.parametrize("method", ["session/load", "session/resume", "session/fork"])
async def test_opening_a_history_from_a_newer_version_names_the_version(harness: AgentHarness, method: str):
    session = await closed_session(harness, "hi")
    store = open_store()
    with store.journal(session) as journal:
        journal.record("model", {"type": "folded", "blob": "..."})
    store.close()
    async with harness.client(["x"]) as client:
        error = await client.error(method, load_params(harness, session))
        assert session in error["message"] or method == "session/fork"
        assert "newer Accord" in error["message"]
        other = open_store()
        assert other.writer(session) is None
        assert [head.session_id for head in other.list().sessions] == [session]  # no fork is left over
        other.close()


@pytest.mark.parametrize(
    ("kind", "value"),
    [("chosen", {"model": "openai:x", "effort": "boundless"}), ("servers", 5), ("spent", {"input": "a lot"})],
)
async def test_unknown_records_outside_the_history_do_not_prevent_loading(
    harness: AgentHarness, kind: str, value: Any
):
    session = await closed_session(harness, "hi")
    store = open_store()
    with store.journal(session) as journal:
        journal.record(kind, value)
    store.close()
    model = ScriptedModel()
    async with harness.client(model=model) as client:
        await client.call("session/load", load_params(harness, session))
        await client.turn(session, "more")
    assert model.prompts == ["hi", "Hello.", "more"]


async def test_full_disk_is_reported_and_session_continues_once_space_is_free(
    harness: AgentHarness, tmp_path: Path
):
    store = SqliteStore(tmp_path / "sessions.db")
    for name in "abc":
        (harness.project / name).write_text("words on a line\n" * 3000)

    def disk(pages: int) -> None:
        store._database.connection.execute(f"PRAGMA max_page_count = {pages}")

    def read_much(request: ModelRequest) -> list[Any]:
        disk(1)  # no pages beyond the existing ones
        return [use("read_file", path=name) for name in "abc"]

    model = ScriptedModel(read_much, ["Better."])
    async with harness.client(model=model, store=store) as client:
        session = await client.new_session(harness.cwd)
        for _ in range(2):
            error = await client.error(
                "session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "read"}]}
            )
            assert error["code"] == -32603
            assert "is full: free some space" in error["message"]
        disk(1_000_000)
        _, result = await client.turn(session, "again")
        assert result["stopReason"] == "end_turn"
        await client.call("session/load", load_params(harness, session))
    words = "\n".join(model.prompts)
    assert "Cancelled by the user" not in words  # the user did not cancel


# -- cancelled prompts ---------------------------------------------------------------------------------------


async def test_prompt_cancelled_at_trust_question_is_kept_and_question_is_repeated(
    harness: AgentHarness,
):
    (harness.project / ".accord").mkdir()
    (harness.project / ".accord" / "permissions.toml").write_text('deny = [{ tool = "write_file" }]\n')
    model = ScriptedModel([use("write_file", path="c", content="1")], ["Then not."])
    async with harness.client(model=model) as client:
        session = await client.new_session(harness.cwd)
        turn = client.prompt(session, "write c")
        await client.asked("session/request_permission")
        client.cancel(session)
        _, result = await client.turn_of(turn)
        assert result["stopReason"] == "cancelled"
        turn = client.prompt(session, "do it")
        permission_request = await client.asked("session/request_permission")
        assert permission_request["params"]["toolCall"]["title"].startswith("Trust")
        client.raw.reply(permission_request, {"outcome": {"outcome": "selected", "optionId": "trust"}})
        _, result = await client.turn_of(turn)
        assert result["stopReason"] == "end_turn"
    assert not (harness.project / "c").exists()
    texts = [text_of(message) for message in model.requests[0].messages]
    assert texts == ["write c", "The user cancelled the turn here.", "do it"]


async def test_cancelled_turn_reports_usage(harness: AgentHarness):
    async with harness.client([use("write_file", path="c", content="1")]) as client:
        session = await client.new_session(harness.cwd)
        turn = client.prompt(session)
        await client.asked("session/request_permission")
        client.cancel(session)
        _, result = await client.turn_of(turn)
    used = {"totalTokens": 110, "inputTokens": 100, "outputTokens": 10}
    assert result == {"stopReason": "cancelled", "usage": used}


async def test_cancel_is_answered_within_a_second_without_terminal_exit(harness: AgentHarness):
    (harness.home / "config").mkdir()
    (harness.home / "config" / "config.toml").write_text("[sandbox]\nenabled = false\n")
    clock = FakeClock()
    model = ScriptedModel([use("bash", command="make")])
    async with harness.client(model=model, clock=clock, capabilities={"terminal": True}) as client:
        session = await client.new_session(harness.cwd)
        await client.call("session/set_mode", {"sessionId": session, "modeId": "full-access"})
        turn = client.prompt(session)
        client.raw.reply(await client.asked("terminal/create"), {"terminalId": "t"})
        await client.asked("terminal/wait_for_exit")
        client.cancel(session)
        await client.asked("terminal/release")
        await clock.advance(0.9)
        _, result = await client.turn_of(turn)
        assert result["stopReason"] == "cancelled"


async def test_turn_that_ignores_cancel_is_answered_and_its_late_end_is_not_logged(harness: AgentHarness):
    clock, stuck, released = FakeClock(), asyncio.Event(), asyncio.Event()

    async def ignore_cancel(request: ModelRequest) -> list[Any]:
        while not released.is_set():
            stuck.set()
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue
        raise asyncio.CancelledError

    model = ScriptedModel(ignore_cancel, ["Next."])
    async with harness.client(model=model, clock=clock) as client:
        session = await client.new_session(harness.cwd)
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


# -- models --------------------------------------------------------------------------------------------------


async def test_model_set_by_extension_is_reported_once_as_config_option(harness: AgentHarness):
    async with harness.client(["hi"]) as client:
        session = await client.new_session(harness.cwd)
        for model in ("other", "other"):
            answer = await client.call("_agentao.cn/set_model", {"sessionId": session, "model": model})
            assert answer == {"model": "other"}
        await client.turn(session)
        (received,) = client.updates_of("config_option_update")
        values = {option["id"]: option["currentValue"] for option in received["configOptions"]}
        assert values["model"] == "openai:other"


async def test_lone_surrogates_from_a_model_do_not_fail_the_turn(harness: AgentHarness):
    strange = ToolUse("1", "read_file", {"path": "a\ud800"})
    model = ScriptedModel([ThoughtPart("\udfff"), "a\ud800b", strange, strange], ["ok"])
    async with harness.client(model=model) as client:
        session = await client.new_session(harness.cwd)
        _, result = await client.turn(session)
        assert result["stopReason"] == "end_turn"
    async with harness.client(model=model) as client:
        await client.call("session/load", load_params(harness, session))
        await client.turn(session, "more")
    assert isinstance(model.requests[-1].messages[-1], UserMessage)
