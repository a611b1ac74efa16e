"""Cases: list, close, delete and archive sessions; their status and title."""

from pathlib import Path
from typing import Any, Final

from accord.check.agent.agent_fixture import TURN_ENDED, AgentCases, AgentFixture, substitute
from accord.check.agent.agent_turn_rules import is_absolute
from accord.check.agent.agent_under_test import AgentUnderTest
from accord.check.checked_connection import CallAnswer
from accord.check.findings import CaseUnavailable
from accord.trace.trace_steps import at, listed

case: Final = AgentCases()


_LIST_CAPABILITY: Final = "sessionCapabilities.list"
_SESSION_COUNT: Final = 60
_MAX_ENTRIES: Final = 10_000


async def list_sessions(agent: AgentUnderTest, **params: Any) -> tuple[list[Any], CallAnswer]:
    """The entries of all pages, and the last answer."""
    entries: list[Any] = []
    cursor: Any = None
    while True:
        more = {} if cursor is None else {"cursor": cursor}
        answer = await agent.call("session/list", {**params, **more})
        entries += listed(answer.result, "sessions")
        cursor = at(answer.result, "nextCursor")
        if cursor is None or len(entries) > _MAX_ENTRIES:
            return entries, answer


def session_ids(entries: list[Any]) -> list[str]:
    """The session ids of entries, in order."""
    return [str(at(one, "sessionId")) for one in entries]


def own_session_ids(fixture: AgentFixture, entries: list[Any]) -> list[str]:
    """The sessions in this case's folders: other cases and users may change the rest of the list."""
    return session_ids([one for one in entries if Path(str(at(one, "cwd"))).is_relative_to(fixture.root)])


@case(
    "session.list-first-page session.list-empty session.list-cwd-filter session.list-entry-members "
    "session.list-changes-nothing",
    _LIST_CAPABILITY,
)
async def list_filters(fixture: AgentFixture) -> None:
    """Session list: sessions in two folders, the folder filter, a second list."""
    agent, session = await fixture.open_session()
    other = await fixture.new_session(agent, cwd=str(fixture.extra))
    if fixture.has_action("talk"):  # some agents do not list sessions without a turn
        for id in (session, other):
            await fixture.run_action(agent, id, "talk")
    entries, answer = await list_sessions(agent)
    first = next(line for line in agent.lines if line.method == "session/list")
    page = (await agent.wait_for_answer(first)).result
    failure = f"session/list gave {answer.summary}"
    reason = "it returned a list"
    fixture.judge("session.list-first-page", isinstance(at(page, "sessions"), list), reason, failure, answer)
    for entry in entries:
        passed = isinstance(at(entry, "sessionId"), str) and is_absolute(at(entry, "cwd"))
        failure = f"invalid entry: {str(entry)[:100]}"
        fixture.judge(
            "session.list-entry-members", passed, "entries have an id and an absolute folder", failure, answer
        )
    no_entries, answer = await list_sessions(agent, cwd="/nonexistent/check")
    failure = f"a folder without sessions gave {answer.summary}"
    fixture.judge(
        "session.list-empty", answer.ok and no_entries == [], "it returned an empty list", failure, answer
    )
    filtered, answer = await list_sessions(agent, cwd=fixture.cwd)
    other_folders = [one for one in filtered if at(one, "cwd") != fixture.cwd]
    failure = (
        "the filter lets sessions of other folders through"
        if other_folders
        else "the session of this folder is missing"
    )
    if {session, other} <= set(session_ids(entries)):
        passed = not other_folders and session in session_ids(filtered)
        fixture.judge("session.list-cwd-filter", passed, "only sessions of the folder", failure, answer)
    second, answer = await list_sessions(agent)
    failure = "a second list is different"
    passed = own_session_ids(fixture, second) == own_session_ids(fixture, entries)
    fixture.judge("session.list-changes-nothing", passed, "listing changes nothing", failure, answer)


@case("session.list-invalid-cursor session.list-page-size", _LIST_CAPABILITY)
async def list_pages(fixture: AgentFixture) -> None:
    """Session list pages: an invalid cursor, 60 sessions."""
    rule = "session.list-page-size"
    agent = await fixture.start_agent()
    answer = await agent.call("session/list", {"cursor": "garbage"})
    failure = f"the cursor `garbage` gave {answer.summary}"
    fixture.judge("session.list-invalid-cursor", not answer.ok, "a wrong cursor is refused", failure, answer)
    for _ in range(_SESSION_COUNT):
        await fixture.new_session(agent)
    answer = await agent.call("session/list", {})
    count = len(listed(answer.result, "sessions"))
    if at(answer.result, "nextCursor") is not None:
        fixture.add_pass(rule, f"pages of {count}", answer.request)
    elif count < _SESSION_COUNT:
        fixture.add_not_shown(rule, f"{count} of {_SESSION_COUNT} empty sessions are listed")
    else:
        fixture.add_not_shown(rule, f"{count} sessions are on one page; the limit may be higher")


_CLOSE_CAPABILITY: Final = "sessionCapabilities.close"
_DELETE_CAPABILITY: Final = "sessionCapabilities.delete"
_PROMPT: Final = [{"type": "text", "text": "hi"}]
_UNKNOWN_SESSION_CALLS: Final[tuple[tuple[str, dict[str, Any], str], ...]] = (
    ("session/prompt", {"sessionId": "nope", "prompt": _PROMPT}, ""),
    ("session/load", {"sessionId": "nope", "cwd": "$cwd", "mcpServers": []}, "loadSession"),
    ("session/resume", {"sessionId": "nope", "cwd": "$cwd"}, "sessionCapabilities.resume"),
    ("session/close", {"sessionId": "nope"}, _CLOSE_CAPABILITY),
    ("session/set_mode", {"sessionId": "nope", "modeId": "x"}, ""),
    ("session/set_config_option", {"sessionId": "nope", "configId": "x", "value": "y"}, ""),
)


def _names_session(answer: CallAnswer, session: str) -> bool:
    return answer.code == -32002 and at(answer.line.message, "error", "data", "sessionId") == session


def _check_not_found(fixture: AgentFixture, answer: CallAnswer, session: str) -> None:
    passed = _names_session(answer, session) if fixture.script.ours else not answer.ok
    failure = f"{answer.request.method} gave {answer.summary}; expected -32002 with the sessionId in its data"
    fixture.judge(
        "accord.agent-unknown-session", passed, f"{answer.code} for an unknown session", failure, answer
    )


@case(
    "framing.agent-empty-results session.close-cancels-turn session.closed-refuses-prompts "
    "accord.agent-unknown-session",
    _CLOSE_CAPABILITY,
)
async def close_session(fixture: AgentFixture) -> None:
    """Closing a session: session/close in the middle of a turn."""
    rule = "session.close-cancels-turn"
    agent, session = await fixture.open_session()
    request = await fixture.start_busy_turn(agent, session)
    closed = agent.send_request("session/close", {"sessionId": session})
    turn = await agent.finish_turn(request, rule=rule, timeout=fixture.timeouts.soon)
    answer = await agent.wait_for_answer(closed, rule=rule, timeout=fixture.timeouts.soon)
    if await fixture.was_stopped(turn, closed):
        passed = turn.stop_reason == "cancelled" and answer.ok
        failure = f"closed in a turn: the prompt gave {turn.answer.summary}, the close {answer.summary}"
        fixture.judge(rule, passed, "the turn is canceled first", failure, turn.answer, answer)
    else:
        fixture.add_not_shown(rule, TURN_ENDED)
    after = await agent.call("session/prompt", {"sessionId": session, "prompt": _PROMPT})
    failure = f"a prompt in a closed session gave {after.summary}"
    if fixture.judge(
        "session.closed-refuses-prompts", not after.ok, "a closed session refuses prompts", failure, after
    ):
        _check_not_found(fixture, after, session)


@case("prompt.unknown-session-refused accord.agent-unknown-session")
async def unknown_sessions(fixture: AgentFixture) -> None:
    """Unknown sessions: every method with the session `nope`."""
    agent = await fixture.start_agent()
    for method, params, capability in _UNKNOWN_SESSION_CALLS:
        if capability and not agent.advertises(capability):
            continue
        answer = await agent.call(method, substitute(params, {"cwd": fixture.cwd}))
        if method == "session/prompt":
            failure = f"a prompt in the session `nope` gave {answer.summary}"
            reason = "an unknown session is refused"
            fixture.judge("prompt.unknown-session-refused", not answer.ok, reason, failure, answer)
        missing = answer.code == -32601 and not capability
        if not answer.ok and not missing:
            _check_not_found(fixture, answer, "nope")


@case(
    "framing.agent-empty-results session.delete-leaves-list session.delete-missing-succeeds",
    _DELETE_CAPABILITY,
)
async def delete_session(fixture: AgentFixture) -> None:
    """Deleting a session: delete, list, delete again."""
    rule = "session.delete-leaves-list"
    agent, session = await fixture.open_session()
    if fixture.has_action("talk"):
        await fixture.run_action(agent, session, "talk")
    if agent.advertises(_CLOSE_CAPABILITY):
        await agent.call("session/close", {"sessionId": session})
    before = session_ids((await list_sessions(agent))[0]) if agent.advertises(_LIST_CAPABILITY) else []
    first = await agent.call("session/delete", {"sessionId": session})
    if session in before:
        after, answer = await list_sessions(agent)
        failure = "the deleted session is still listed"
        fixture.judge(rule, session not in session_ids(after), "it is not listed any more", failure, answer)
    else:
        fixture.add_not_shown(rule, f"the session was not listed before; delete gave {first.summary}")
    for id in (session, "nope"):
        answer = await agent.call("session/delete", {"sessionId": id})
        failure = f"deleting {'again' if id == session else 'an unknown session'} gave {answer.summary}"
        reason = "deleting a missing session succeeds"
        fixture.judge("session.delete-missing-succeeds", answer.ok, reason, failure, answer)


_ARCHIVE_CAPABILITY: Final = "sessionCapabilities.archive"


async def _listed_ids(agent: AgentUnderTest, **params: Any) -> set[str]:
    return set(session_ids((await list_sessions(agent, **params))[0]))


@case(
    "archive.needs-list archive.hides archive.idempotent archive.unarchive-opens-nothing archive.filter "
    "archive.filter-invalid-refused archive.member-in-list",
    _ARCHIVE_CAPABILITY,
)
async def archive_session(fixture: AgentFixture) -> None:
    """Archiving a session: archive, list with every filter, unarchive."""
    rule = "archive.idempotent"
    agent, session = await fixture.open_session()
    other = await fixture.new_session(agent)
    for id in (session, other):
        await fixture.run_action(agent, id, "talk")
    for _ in range(2):
        answer = await agent.call("session/archive", {"sessionId": session})
        fixture.judge(rule, answer.ok, "repeating it succeeds", f"archive gave {answer.summary}", answer)
    default_ids, archived_ids, all_ids = (
        await _listed_ids(agent),
        await _listed_ids(agent, archived="only"),
        await _listed_ids(agent, archived="include"),
    )
    failure = "an archived session is in the default list"
    fixture.judge("archive.hides", session not in default_ids, "it is hidden", failure)
    passed = (
        session in archived_ids
        and other not in archived_ids
        and {session, other} <= all_ids
        and other in default_ids
    )
    failure = "the filter `archived` shows the wrong sessions"
    fixture.judge("archive.filter", passed, "the filter `archived` works", failure)
    filtered = await _listed_ids(agent, archived="only", cwd=str(fixture.extra))
    fixture.judge(
        "archive.filter", not filtered, "the filters work together", "the filters do not work together"
    )
    for filter_value in ("zzz", 5):
        answer = await agent.call("session/list", {"archived": filter_value})
        failure = f"archived: {filter_value!r} gave {answer.summary}; expected -32602"
        reason = "wrong filters are refused"
        fixture.judge("archive.filter-invalid-refused", answer.code == -32602, reason, failure, answer)
    await _check_unarchive(fixture, agent, session)
    for method in ("session/archive", "session/unarchive"):
        answer = await agent.call(method, {"sessionId": "nope"})
        failure = f"{method} of `nope` gave {answer.summary}; expected -32002"
        fixture.judge(rule, answer.code == -32002, "unknown sessions are refused", failure, answer)


async def _check_unarchive(fixture: AgentFixture, agent: AgentUnderTest, session: str) -> None:
    for _ in range(2):
        answer = await agent.call("session/unarchive", {"sessionId": session})
        failure = f"unarchive gave {answer.summary}"
        fixture.judge("archive.idempotent", answer.ok, "repeating it succeeds", failure, answer)
    is_listed = session in await _listed_ids(agent)
    fixture.judge(
        "archive.hides", is_listed, "it is listed again", "an unarchived session is not in the list"
    )
    after = await agent.call("session/prompt", {"sessionId": session, "prompt": _PROMPT})
    failure = f"a prompt right after unarchive gave {after.summary}"
    fixture.judge("archive.unarchive-opens-nothing", not after.ok, "unarchive opens nothing", failure, after)
    if agent.advertises("loadSession"):
        answer = await agent.call(
            "session/load", {"sessionId": session, "cwd": fixture.cwd, "mcpServers": []}
        )
        failure = f"after unarchive, load gave {answer.summary}"
        fixture.judge("archive.hides", answer.ok, "and can be loaded", failure, answer)


@case("archive.cancels-turn", _ARCHIVE_CAPABILITY)
async def archive_busy_session(fixture: AgentFixture) -> None:
    """Archiving a busy session: archive in the middle of a turn."""
    rule = "archive.cancels-turn"
    agent, session = await fixture.open_session()
    request = await fixture.start_busy_turn(agent, session)
    archived = agent.send_request("session/archive", {"sessionId": session})
    turn = await agent.finish_turn(request, rule=rule, timeout=fixture.timeouts.soon)
    answer = await agent.wait_for_answer(archived, rule=rule, timeout=fixture.timeouts.soon)
    if not await fixture.was_stopped(turn, archived):
        raise CaseUnavailable(TURN_ENDED)
    failure = f"archived in a turn: the prompt gave {turn.answer.summary}, archive {answer.summary}"
    passed = turn.stop_reason == "cancelled" and answer.ok
    fixture.judge(rule, passed, "the turn is canceled first", failure, turn.answer, answer)


_STATUS_CAPABILITY: Final = "sessionCapabilities.status"
_TITLE_CAPABILITY: Final = "sessionCapabilities.title"
_NEW_TITLE: Final = "Title set by the check"


async def _listed_title(agent: AgentUnderTest, session: str) -> Any:
    entries, _ = await list_sessions(agent)
    return next((at(one, "title") for one in entries if at(one, "sessionId") == session), None)


@case("status.changes-nothing status.open-or-saved status.unknown-session", _STATUS_CAPABILITY)
async def session_status(fixture: AgentFixture) -> None:
    """Session status: an open, a closed and an unknown session."""
    rule = "status.open-or-saved"
    agent, session = await fixture.open_session()
    first = await agent.call("session/status", {"sessionId": session})
    reported = at(first.result, "status")
    fixture.judge(rule, reported == "open", "open in memory", f"an open session is {reported!r}", first)
    if agent.advertises(_CLOSE_CAPABILITY):
        await agent.call("session/close", {"sessionId": session})
        closed = await agent.call("session/status", {"sessionId": session})
        reported = at(closed.result, "status")
        fixture.judge(
            rule, reported == "saved", "saved once closed", f"a closed session is {reported!r}", closed
        )
        second = await agent.call("session/status", {"sessionId": session})
        after = await agent.call("session/prompt", {"sessionId": session, "prompt": _PROMPT})
        passed = second.result == closed.result and not after.ok
        failure = (
            "session/status opened the session" if after.ok else f"it says {second.summary} the second time"
        )
        fixture.judge("status.changes-nothing", passed, "it changes nothing", failure, second, after.line)
    answer = await agent.call("session/status", {"sessionId": "nope"})
    failure = f"the status of `nope` gave {answer.summary}; expected -32002 with the sessionId in its data"
    reason = "unknown sessions are refused"
    fixture.judge("status.unknown-session", _names_session(answer, "nope"), reason, failure, answer)


@case("title.stored title.invalid-refused title.not-overwritten", _TITLE_CAPABILITY)
async def session_titles(fixture: AgentFixture) -> None:
    """Session titles: set, list, run a turn, set invalid titles."""
    rule = "title.invalid-refused"
    agent, session = await fixture.open_session()
    answer = await agent.call("session/set_title", {"sessionId": session, "title": _NEW_TITLE})
    stored = at(answer.result, "title")
    failure = f"session/set_title gave {answer.summary}"
    if fixture.judge("title.stored", stored == _NEW_TITLE, "it gives the stored title", failure, answer):
        title = await _listed_title(agent, session)
        fixture.judge(
            "title.stored", title == stored, "the list shows it", f"the list shows {title!r}", answer
        )
    for member in ({}, {"title": None}, {"title": "   "}):
        answer = await agent.call("session/set_title", {"sessionId": session, **member})
        failure = f"the title {member} gave {answer.summary}; expected -32602"
        fixture.judge(rule, answer.code == -32602, "empty titles are refused", failure, answer)
    answer = await agent.call("session/set_title", {"sessionId": "nope", "title": "x"})
    failure = f"the title of `nope` gave {answer.summary}; expected -32002"
    fixture.judge(rule, answer.code == -32002, "unknown sessions are refused", failure, answer)
    await fixture.run_action(agent, session, "talk")
    title = await _listed_title(agent, session)
    failure = f"after a turn the title is {title!r}"
    if all(note.outcome == "pass" for note in fixture.notes.for_rule("title.stored")):
        fixture.judge("title.not-overwritten", title == _NEW_TITLE, "a set title stays", failure)
