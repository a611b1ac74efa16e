"""The contract of the gateway's logs as checks that every implementation runs.

A `BookBackend` holds the logs. Each book that it opens behaves like a separate gateway.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

import pytest
from tests.patience import PATIENCE

from accord.errors import InvalidParams, InvalidRequest, StoreError
from accord.frontend.recording import RecordedSession
from accord.gateway.contracts import Book, LogReader, SessionLog, close_open_items
from accord.schema import AgentMessageChunk, TextContent, ToolCall
from accord.session import Event, SessionOpened, TurnEnded, TurnStarted, text_of


class BookBackend(Protocol):
    """Holds the logs that several books share."""

    async def open(self) -> Book:
        """A book of another gateway."""
        ...

    async def settle(self) -> None:
        """Return when every book lists what the others have committed."""
        ...


Check = Callable[[BookBackend], Awaitable[None]]
CHECKS: dict[str, Check] = {}


def check(function: Check) -> Check:
    CHECKS[function.__name__] = function
    return function


def chunk(text: str) -> AgentMessageChunk:
    return AgentMessageChunk(TextContent(text=text))


async def committed(book: Book, log: SessionLog) -> None:
    """Commit everything that was appended, and wait for it."""
    done: asyncio.Future[StoreError | None] = asyncio.get_running_loop().create_future()
    log.when(log.noted, done.set_result)
    book.commit()
    assert await asyncio.wait_for(done, PATIENCE) is None


def listed(book: Book, agent: str | None = None, cwd: str | None = None) -> list[RecordedSession]:
    """The sessions of all pages."""
    return [recorded for page in book.pages(agent, cwd) for recorded in page]


async def rest(reader: LogReader) -> list[Event]:
    events: list[Event] = []
    while page := await reader.page():
        assert len(page) <= 256
        events += page
    return events


async def new_log(book: Book, id: str = "s1") -> SessionLog:
    log = book.open_log("agent", id, "/work", new=True)
    log.append(SessionOpened(id, "/work"))
    await committed(book, log)
    return log


@check
async def records_are_numbered_and_committed_in_order(backend: BookBackend) -> None:
    book = await backend.open()
    log = await new_log(book)
    before = log.noted
    assert log.committed == before >= 1
    order: list[int] = []
    for number in range(1, 4):
        log.append_one(chunk(str(number)))
        assert log.noted == before + number
        log.when(log.noted, lambda error, number=number: order.append(number if error is None else -1))
    await committed(book, log)
    assert order == [1, 2, 3]
    assert log.committed == log.noted == before + 3
    log.when(log.noted, lambda error: order.append(4))
    assert order == [1, 2, 3, 4], "a committed record is reported at once"


@check
async def another_gateway_reads_what_was_committed(backend: BookBackend) -> None:
    book, other = await backend.open(), await backend.open()
    log = await new_log(book)
    log.append(TurnStarted([TextContent(text="hello")]), by="line-1")
    log.append(chunk("one "), chunk("two"))
    log.note("gateway.asked", {"id": "1"})
    log.append(TurnEnded("end_turn"))
    await committed(book, log)
    await backend.settle()
    recorded = other.find("agent", "s1")
    assert recorded is not None
    assert recorded.summary.cwd == "/work"
    assert [found.session_id for found in listed(other, "agent")] == ["s1"]
    assert other.find("agent", "s2") is None
    log.close()
    theirs = other.open_log("agent", "s1", "/work")
    assert await theirs.claim() == []
    assert [text_of(update) for update in await rest(theirs.reader())] == ["hello", "one two"]


@check
async def a_reader_gets_the_history_and_then_what_is_appended(backend: BookBackend) -> None:
    book = await backend.open()
    log = await new_log(book)
    log.append(*(chunk(f"{number} ") for number in range(1000)))
    await committed(book, log)
    reader = log.reader()
    history = await rest(reader)
    assert "".join(map(text_of, history)) == "".join(f"{number} " for number in range(1000))
    assert await reader.page() == []
    tail = log.reader(after=log.noted)
    log.append(*(chunk(str(number)) for number in range(300)))
    await committed(book, log)
    for other in (reader, tail):
        assert [text_of(update) for update in await rest(other)] == [str(number) for number in range(300)]


@check
async def a_claim_closes_what_was_left_open_once(backend: BookBackend) -> None:
    book = await backend.open()
    log = await new_log(book)
    log.append(TurnStarted([TextContent(text="go")]), ToolCall(tool_call_id="c1", title="run"))
    await committed(book, log)
    epoch = log.epoch
    log.close()
    await book.aclose()
    later = await backend.open()
    claimed = later.open_log("agent", "s1", "/work")
    before = claimed.noted
    closing: list[Event] = await claimed.claim()
    assert [type(event).__name__ for event in closing] == ["ToolCallChanged", "TurnEnded"]
    assert claimed.noted >= before + len(closing)
    assert claimed.epoch > epoch
    await committed(later, claimed)
    assert await close_open_items(claimed) == []
    reader = claimed.reader()
    await rest(reader)
    assert reader.state.turn == "idle"


@check
async def a_log_with_a_writer_is_refused_to_others(backend: BookBackend) -> None:
    book, other = await backend.open(), await backend.open()
    log = await new_log(book)
    with pytest.raises((InvalidRequest, StoreError)):
        await other.open_log("agent", "s1", "/work").claim()
    log.append(chunk("still the writer"))
    await committed(book, log)


@check
async def a_new_session_keeps_an_earlier_log_with_its_id(backend: BookBackend) -> None:
    book = await backend.open()
    earlier = await new_log(book)
    earlier.append(TurnStarted([TextContent(text="old")]), TurnEnded("end_turn"))
    await committed(book, earlier)
    earlier.close()
    log = await new_log(book)
    assert await rest(log.reader()) == []
    assert len(listed(book, "agent")) == 2


@check
async def sessions_are_listed_in_pages_from_a_time_on(backend: BookBackend) -> None:
    book = await backend.open()
    for number in range(60):
        log = await new_log(book, f"s{number}")
        log.close()
    await backend.settle()
    pages = list(book.pages())
    assert len(pages) > 1
    everything = [recorded for page in pages for recorded in page]
    assert [recorded.session_id for recorded in everything] == [f"s{number}" for number in range(59, -1, -1)]
    middle = everything[30].summary.updated
    later = [recorded for page in book.pages(before=middle) for recorded in page]
    assert later == [recorded for recorded in everything if recorded.summary.updated <= middle]


@check
async def a_deleted_session_is_gone(backend: BookBackend) -> None:
    book = await backend.open()
    log = await new_log(book)
    log.close()
    assert await book.delete("agent", "s1") is True
    assert await book.delete("agent", "s1") is False
    assert book.find("agent", "s1") is None


@check
async def reading_a_long_log_lets_other_tasks_run(backend: BookBackend) -> None:
    book = await backend.open()
    log = await new_log(book)
    log.append(*(ToolCall(tool_call_id=f"c{number}", title="x" * 200) for number in range(4000)))
    await committed(book, log)
    steps = 0

    async def count() -> None:
        nonlocal steps
        while True:
            steps += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    try:
        assert len(await rest(log.reader())) == 4000
    finally:
        counting.cancel()
    assert steps > 2, "the whole log was read in one step"


@check
async def the_users_title_stays_and_the_archive_is_a_mark_of_the_entry(backend: BookBackend) -> None:
    book = await backend.open()
    log = await new_log(book)
    log.change_entry(title="  Mine  ")
    log.change_entry(archived=True)
    log.append(TurnStarted([TextContent("do it")]), chunk("done"), TurnEnded("end_turn"))
    await committed(book, log)
    summary = listed(book)[0].summary
    assert (summary.title, summary.title_set, summary.archived) == ("Mine", True, True)
    log.change_entry(archived=False)
    await committed(book, log)
    assert listed(book)[0].summary.archived is False
    assert "done" in [text_of(update) for update in await rest(log.reader())]
    with pytest.raises(InvalidParams):
        log.change_entry(title=" \n ")
