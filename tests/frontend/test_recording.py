"""Recordings of the sessions that a client drove."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import accord
from accord.client.client_session import ClientSession
from accord.frontend.recording import RecordedSessions
from accord.session import SessionState
from accord.testing import AgentScript, say
from accord.testing.scripted_agent import ScriptedAgent


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RecordedSessions]:
    monkeypatch.setenv("ACCORD_HOME", str(tmp_path / "home"))
    records = RecordedSessions.open()
    yield records
    records.close()


async def record_turn(records: RecordedSessions, session: ClientSession, agent: str, text: str) -> list[str]:
    failures: list[str] = []
    recording = records.record(session, agent=agent, failed=failures.append)
    async for event in session.prompt(text):
        recording.append(event)
    recording.close()
    return failures


def texts(records: RecordedSessions, agent: str, session_id: str) -> list[str]:
    recorded = records.find(session_id, agent=agent)
    assert recorded is not None
    state = SessionState()
    for event in records.events(recorded):
        state.apply(event)
    return [message.text for message in state.messages]


async def test_recorded_turns_can_be_read_back(
    records: RecordedSessions, accord_agent: AgentScript, tmp_path: Path
) -> None:
    agent = accord_agent.turns([say("Hello", " you")], [say("Again")])
    async with accord.connect_transport(agent.transport()) as remote:
        session = await remote.new_session(tmp_path)
        assert await record_turn(records, session, "mine", "hi") == []
        assert await record_turn(records, session, "mine", "once more") == []
    assert texts(records, "mine", session.id) == ["hi", "Hello you", "once more", "Again"]
    newest = records.newest(str(tmp_path), agent="mine")
    assert newest is not None
    assert (newest.agent, newest.session_id) == ("mine", session.id)


async def test_sessions_of_two_agents_with_the_same_id_are_separate(
    records: RecordedSessions, tmp_path: Path
) -> None:
    for name in ("one", "an/other"):
        async with accord.connect_transport(_same_id().transport()) as remote:
            session = await remote.new_session(tmp_path)
            assert session.id == "session-1"
            await record_turn(records, session, name, f"I am {name}")
    assert texts(records, "one", "session-1") == ["I am one", "I am one"]
    assert texts(records, "an/other", "session-1") == ["I am an/other", "I am an/other"]
    assert [recorded.agent for recorded in records.list(str(tmp_path))] == ["an/other", "one"]
    assert records.newest(str(tmp_path / "elsewhere"), agent="one") is None


async def test_a_session_recorded_by_another_client_runs_and_reports_a_failure(
    records: RecordedSessions, accord_agent: AgentScript, tmp_path: Path
) -> None:
    other = RecordedSessions.open()
    async with accord.connect_transport(accord_agent(say("Done")).transport()) as remote:
        session = await remote.new_session(tmp_path)
        held = records.record(session, agent="mine", failed=pytest.fail)
        (failure,) = await record_turn(other, session, "mine", "hi")
        assert failure.startswith("this session is not recorded: ")
        held.close()
        assert await record_turn(other, session, "mine", "again") == []
    other.close()


def test_all_recordings_are_listed(records: RecordedSessions) -> None:
    ids = {f"s{number}" for number in range(120)}
    for id in ids:
        records.journal(id, agent="mine", cwd="/work").close()
    assert {recorded.session_id for recorded in records.list("/work")} == ids


async def test_a_recorded_session_can_be_deleted(
    records: RecordedSessions, accord_agent: AgentScript, tmp_path: Path
) -> None:
    async with accord.connect_transport(accord_agent(say("Done")).transport()) as remote:
        session = await remote.new_session(tmp_path)
        await record_turn(records, session, "mine", "hi")
    recorded = records.find(session.id, agent="mine")
    assert recorded is not None
    assert records.delete(recorded)
    assert records.find(session.id, agent="mine") is None


async def test_a_replayed_history_is_recorded_when_none_was_recorded(
    records: RecordedSessions, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "accord.cli", "agent", "--model", "rehearsal"]
    async with accord.connect(*command) as remote:
        session = await remote.new_session(tmp_path)
        await session.ask("think: a")
    async with accord.connect(*command) as remote:
        again = await remote.load_session(session.id, tmp_path)
        await record_turn(records, again, "accord", "think: b")
    recorded = texts(records, "accord", session.id)
    assert recorded[0] == "think: a"
    assert "think: b" in recorded


def _same_id() -> ScriptedAgent:
    app = accord.Agent("same", version="1")

    @app.new_session
    async def begin(session: accord.AgentSession) -> None:
        session.id = "session-1"

    return ScriptedAgent(agent=app)
