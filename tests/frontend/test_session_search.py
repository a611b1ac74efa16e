"""Full-text search over recorded sessions."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from accord.errors import StoreError, UsageError
from accord.frontend.session_search import (
    INDEX_NAME,
    SessionSearch,
    forget_session,
    search_sessions,
)
from accord.schema import AgentMessageChunk, TextContent, ToolCallUpdate
from accord.session import ToolCallChanged, TurnEnded, TurnStarted
from accord.store import Store, open_store, store_path


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("ACCORD_HOME", str(tmp_path / "home"))
    with open_store(store_path("client")) as store:
        yield store


def _turn(store: Store, agent: str, session_id: str, prompt: str, *answer: str) -> None:
    key = f"{agent}/{session_id}"
    if key not in {summary.session_id for summary in store.list(archived="include").sessions}:
        store.create(key, "/project", agent=agent)
    journal = store.journal(key)
    journal.append(TurnStarted([TextContent(prompt)]))
    journal.append(*(AgentMessageChunk(TextContent(text)) for text in answer))
    journal.append(TurnEnded("end_turn"))
    journal.close()


def _found(query: str, **options: str) -> list[str]:
    return [hit.session_id for hit in search_sessions(query, **options)]  # type: ignore[arg-type]


def test_sessions_with_all_words_are_found_with_the_passages(store: Store) -> None:
    _turn(store, "claude", "s1", "Why is the parser slow?", "It par", "ses twice. ", "Cache the grammar.")
    _turn(store, "claude", "s2", "Write a party invitation", "Done.")
    (hit,) = search_sessions("grammar slow")
    assert (hit.agent, hit.session_id, hit.cwd) == ("claude", "s1", "/project")
    assert {match.role: match.text for match in hit.matches} == {
        "user": "Why is the parser slow?",
        "agent": "It parses twice. Cache the grammar.",
        "title": "Why is the parser slow?",
    }
    (agent,) = (match for match in hit.matches if match.role == "agent")
    assert [agent.text[start:end] for start, end in agent.marked] == ["grammar"]
    assert _found("art") == []  # a part of a word, as in "party", is no match
    assert _found("par") == ["s2", "s1"] or _found("par") == ["s1", "s2"]  # the beginning of a word is
    assert _found('"cache the grammar"') == ["s1"]
    assert _found('"grammar cache"') == []
    assert _found("PARSER", agent="gemini") == []
    assert _found("parser", cwd="/elsewhere") == []


def test_later_turns_are_added_and_deleted_sessions_are_forgotten(store: Store) -> None:
    _turn(store, "claude", "s1", "first", "apple")
    assert _found("banana") == []
    _turn(store, "claude", "s1", "second", "banana")
    _turn(store, "claude", "s2", "third", "banana")
    assert sorted(_found("banana")) == ["s1", "s2"]
    assert _found("apple") == ["s1"]
    store.set_title("claude/s1", "Fruit salad")
    assert _found("salad") == ["s1"]
    store.delete("claude/s1")
    forget_session("claude", "s1")
    with SessionSearch()._connection as connection:  # pyright: ignore[reportPrivateUsage]
        assert connection.execute("SELECT count(*) FROM sources").fetchone() == (1,)
    store.delete("claude/s2")
    assert _found("banana") == []


def test_a_session_of_the_coding_agent_that_was_also_recorded_is_found_once(store: Store) -> None:
    _turn(store, "accord", "s1", "an orange", "yes")
    with open_store() as own:
        own.create("s1", "/project")
        journal = own.journal("s1")
        journal.append(TurnStarted([TextContent("an orange")]))
        journal.append(ToolCallChanged(ToolCallUpdate("c1", title="Run pytest -x"), announce=True))
        journal.close()
    assert _found("orange") == ["s1"]
    assert _found("pytest") == ["s1"]


def test_scripts_without_spaces_are_found_by_their_characters(store: Store) -> None:
    _turn(store, "claude", "s1", "測試為什麼失敗", "因為時區")
    (hit,) = search_sessions("失敗")
    assert hit.matches[0].text == "測試為什麼失敗"
    assert _found("敗失") == []


def test_an_empty_query_and_a_newer_index_are_refused(store: Store, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="at least one word"):
        search_sessions(' "" -- ')
    _turn(store, "claude", "s1", "x(y) AND NOT -z* NEAR", "ok")
    assert _found("x(y) AND NOT -z* NEAR") == ["s1"]  # words, not operators
    connection = sqlite3.connect(tmp_path / "home" / "data" / INDEX_NAME)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StoreError, match="written by a newer Accord"):
        search_sessions("x")
