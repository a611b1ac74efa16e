"""Full-text search over everything said in the recorded sessions.

The index is a SQLite file beside the session logs. It is derived: each search first adds what the logs have
got since the last one. Blocking: call it in a thread of its own.
"""

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

from accord.errors import NotFound, StoreError, UsageError
from accord.file_format import newer_format
from accord.frontend.known_agents import BUILT_IN
from accord.frontend.recording import NAME as RECORDINGS
from accord.frontend.session_choice import same_directory
from accord.paths import data_dir
from accord.private_files import create_private_file, private_folder
from accord.safe_text import clean_text
from accord.schema import AgentMessageChunk, TextContent, UserMessageChunk
from accord.session import Event, MessageChanged, ToolCallChanged, TurnStarted
from accord.store import EVENT, LogRecord, SessionSummary, Store, iso_time, open_store, store_path

INDEX_NAME: Final = "search.db"
VERSION: Final = 1
"""The format of the index, in `user_version` of the database."""
GATEWAY_STORE: Final = "gateway"
MAX_HITS: Final = 50
_MAX_MATCHES: Final = 3
_PIECE_CHARS: Final = 8_000
_SNIPPET_WORDS: Final = 16

Role: TypeAlias = Literal["title", "user", "agent", "tool"]

_TABLES: Final = """
CREATE TABLE sources (
    id INTEGER PRIMARY KEY, store TEXT NOT NULL, session TEXT NOT NULL,
    agent TEXT NOT NULL, agent_id TEXT NOT NULL, cwd TEXT NOT NULL, title TEXT,
    updated INTEGER NOT NULL, archived INTEGER NOT NULL, last INTEGER NOT NULL,
    UNIQUE (store, session)
);
CREATE TABLE pieces (id INTEGER PRIMARY KEY, source INTEGER NOT NULL, role TEXT NOT NULL);
CREATE INDEX pieces_by_source ON pieces (source);
CREATE VIRTUAL TABLE said USING fts5(text, tokenize = "unicode61 remove_diacritics 2");
"""
_START, _END = "\x02", "\x03"
_QUERY_PART: Final = re.compile(r'"([^"]+)"|(\S+)')
# Scripts without spaces between words: each character is indexed as a word.
_UNSPACED: Final = re.compile(r"([\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff])")
_UNSPACED_CHAR: Final = _UNSPACED.pattern.strip("()")
_ADDED_SPACE: Final = re.compile(
    rf"({_UNSPACED_CHAR}[{_START}{_END}]?) +(?=[{_START}{_END}]?{_UNSPACED_CHAR})"
)


class SearchMatch(NamedTuple):
    """A passage of a session with words of the query."""

    role: Role
    text: str
    """One line, shortened, without terminal escapes."""
    marked: tuple[tuple[int, int], ...]
    """Where the words are in `text`."""


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A session that has all words of the query. Clean its folder and title before you show them."""

    agent: str
    session_id: str
    cwd: str
    title: str | None
    updated: str
    """The time in the format of the protocol."""
    archived: bool
    matches: tuple[SearchMatch, ...]
    """The best passages, the best first."""


class LogSource(NamedTuple):
    """One store of session logs to index."""

    name: str
    store: Store
    agent: str | None = None
    """The agent of all its sessions; None if each entry names its own."""


class SessionSearch:
    """The index. Use it in one thread. Every method can raise StoreError."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = data_dir() / INDEX_NAME if path is None else path
        try:
            private_folder(self._path.parent)
            create_private_file(self._path)
            self._connection = sqlite3.connect(self._path, timeout=10, isolation_level=None)
            self._prepare()
        except (OSError, sqlite3.Error) as error:
            raise _failed(self._path, error) from None

    @staticmethod
    def exists() -> bool:
        """Whether sessions were indexed before."""
        return (data_dir() / INDEX_NAME).exists()

    def update(self, sources: Iterable[LogSource], stopped: Callable[[], bool] = lambda: False) -> None:
        """Index what the logs have got since the last update, and forget deleted sessions.

        Stops after the current session when `stopped` says so; the next update goes on there.
        """
        seen: set[tuple[str, str]] = set()
        for source in sources:
            known = self._known(source.name)
            for summary in _summaries(source.store):
                agent = source.agent if source.agent is not None else summary.agent
                agent_id = summary.session_id.removeprefix(f"{summary.agent}/")
                if (agent, agent_id) in seen or not summary.is_used:
                    continue  # the log of the agent itself has more than the recording
                seen.add((agent, agent_id))
                before = known.pop(summary.session_id, None)
                if before is None or before[1:] != (summary.updated, summary.title, summary.archived):
                    self._index(source, summary, agent, agent_id)
                if stopped():
                    return
            for gone in known.values():
                self._forget(gone[0])

    def search(
        self, query: str, *, cwd: str | None = None, agent: str | None = None, limit: int = MAX_HITS
    ) -> list[SearchHit]:
        """The sessions in which every word occurs, the best first.

        A word also finds longer words that begin with it. `"two words"` finds exactly these.

        Raises UsageError.
        """
        terms = query_terms(query)
        try:
            return self._search(terms, cwd, agent, limit)
        except sqlite3.Error as error:
            raise _failed(self._path, error) from None

    def forget(self, agent: str, session_id: str) -> None:
        """Forget a deleted session."""
        with self._errors():
            rows = self._connection.execute(
                "SELECT id FROM sources WHERE agent = ? AND agent_id = ?", (agent, session_id)
            ).fetchall()
            for (source,) in rows:
                self._forget(source)

    def close(self) -> None:
        self._connection.close()

    # -- internals -------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        connection = self._connection
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA secure_delete = ON")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            connection.close()
            raise StoreError(newer_format(self._path, version, VERSION))
        if version == VERSION:
            return
        try:
            connection.executescript(f"BEGIN IMMEDIATE; {_TABLES} PRAGMA user_version = {VERSION}; COMMIT;")
        except sqlite3.OperationalError as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if "fts5" in str(error):
                raise StoreError("cannot search: the SQLite of this Python has no FTS5") from None
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version != VERSION:  # else another process was faster
                raise

    def _known(self, store: str) -> dict[str, tuple[int, int, str | None, bool]]:
        with self._errors():
            rows = self._connection.execute(
                "SELECT session, id, updated, title, archived FROM sources WHERE store = ?", (store,)
            ).fetchall()
        return {
            session: (id, updated, title, bool(archived)) for session, id, updated, title, archived in rows
        }

    def _index(self, source: LogSource, summary: SessionSummary, agent: str, agent_id: str) -> None:
        """Add the new records of one session, in one transaction."""
        connection = self._connection
        with self._errors():
            connection.execute("BEGIN IMMEDIATE")
            try:
                row = connection.execute(
                    "SELECT id, last, title FROM sources WHERE store = ? AND session = ?",
                    (source.name, summary.session_id),
                ).fetchone()
                number, last, title = row or (self._add_source(source, summary, agent, agent_id), 0, None)
                pieces = _Pieces()
                with suppress(NotFound, StoreError):  # it was deleted meanwhile, or cannot be read
                    for record in source.store.read(summary.session_id, after=last):
                        pieces.add(record)
                        last = record.seq
                if summary.title != title:
                    self._drop_title(number)
                    if summary.title:
                        pieces.found.append(("title", summary.title))
                for role, text in pieces.done():
                    piece = connection.execute(
                        "INSERT INTO pieces (source, role) VALUES (?, ?)", (number, role)
                    ).lastrowid
                    connection.execute("INSERT INTO said (rowid, text) VALUES (?, ?)", (piece, _spaced(text)))
                connection.execute(
                    "UPDATE sources SET title = ?, updated = ?, archived = ?, last = ? WHERE id = ?",
                    (summary.title, summary.updated, summary.archived, last, number),
                )
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def _add_source(self, source: LogSource, summary: SessionSummary, agent: str, agent_id: str) -> int:
        values = (source.name, summary.session_id, agent, agent_id, summary.cwd, None, 0, False, 0)
        cursor = self._connection.execute(
            "INSERT INTO sources (store, session, agent, agent_id, cwd, title, updated, archived, last) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            values,
        )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def _drop_title(self, source: int) -> None:
        for table, column in (("said", "rowid"), ("pieces", "id")):
            self._connection.execute(
                f"DELETE FROM {table} WHERE {column} IN "
                "(SELECT id FROM pieces WHERE source = ? AND role = 'title')",
                (source,),
            )

    def _forget(self, source: int) -> None:
        with self._errors():
            connection = self._connection
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(
                "DELETE FROM said WHERE rowid IN (SELECT id FROM pieces WHERE source = ?)", (source,)
            )
            connection.execute("DELETE FROM pieces WHERE source = ?", (source,))
            connection.execute("DELETE FROM sources WHERE id = ?", (source,))
            connection.execute("COMMIT")

    def _search(self, terms: list[str], cwd: str | None, agent: str | None, limit: int) -> list[SearchHit]:
        connection = self._connection
        found: set[int] | None = None
        for term in terms:
            rows = connection.execute(
                "SELECT DISTINCT source FROM said JOIN pieces ON pieces.id = said.rowid WHERE said MATCH ?",
                (term,),
            )
            sources = {source for (source,) in rows}
            found = sources if found is None else found & sources
        if not found:
            return []
        passages: dict[int, list[SearchMatch]] = {}
        rows = connection.execute(
            "SELECT source, role, snippet(said, 0, ?, ?, '…', ?) FROM said "
            "JOIN pieces ON pieces.id = said.rowid WHERE said MATCH ? ORDER BY rank",
            (_START, _END, _SNIPPET_WORDS, " OR ".join(terms)),
        )
        for source, role, snippet in rows:
            matches = passages.setdefault(source, []) if source in found else None
            if matches is not None and len(matches) < _MAX_MATCHES:
                matches.append(_match(role, snippet))
        hits: list[SearchHit] = []
        for source, matches in passages.items():  # in the order of their best passage
            (name, session_id, folder, title, updated, archived) = connection.execute(
                "SELECT agent, agent_id, cwd, title, updated, archived FROM sources WHERE id = ?", (source,)
            ).fetchone()
            if agent in (None, name) and (cwd is None or same_directory(folder, cwd)):
                shown = tuple(matches)
                hits.append(
                    SearchHit(name, session_id, folder, title, iso_time(updated), bool(archived), shown)
                )
            if len(hits) == limit:
                break
        return hits

    def _errors(self) -> "_Errors":
        return _Errors(self._path)


class _Errors:
    """Raises errors of the file as StoreError."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, sqlite3.Error):
            raise _failed(self._path, error) from None


@dataclass(slots=True)
class _Pieces:
    """Joins the records of a session to pieces of text by one speaker."""

    found: list[tuple[Role, str]] = field(default_factory=list[tuple[Role, str]])
    _role: Role = "agent"
    _texts: list[str] = field(default_factory=list[str])
    _size: int = 0

    def add(self, record: LogRecord) -> None:
        if record.kind != EVENT:
            return
        with suppress(StoreError, UsageError):
            said = _said(record.event)
            if said is None:
                return
            role, text, is_part = said
            if role != self._role or not is_part or self._size > _PIECE_CHARS:
                self._end()
            self._role = role
            self._texts.append(text)
            self._size += len(text)

    def done(self) -> list[tuple[Role, str]]:
        self._end()
        return self.found

    def _end(self) -> None:
        text = clean_text("".join(self._texts)).strip()
        if text:
            self.found.append((self._role, text))
        self._texts, self._size = [], 0


def _said(event: Event) -> tuple[Role, str, bool] | None:
    """Who said what, and whether it continues what was said before; None for everything else."""
    match event:
        case TurnStarted():
            return ("user", event.text, False)
        case UserMessageChunk(content=TextContent(text=text)):
            return ("user", text, True)
        case AgentMessageChunk(content=TextContent(text=text)):
            return ("agent", text, True)
        case MessageChanged(kind="user" | "agent" as kind):
            return (kind, event.text, False)
        case ToolCallChanged(patch=patch) if isinstance(patch.title, str):
            return ("tool", patch.title, False)
        case _:
            return None


def _summaries(store: Store) -> Iterator[SessionSummary]:
    cursor: str | None = None
    while True:
        page = store.list(archived="include", cursor=cursor, limit=500)
        yield from page.sessions
        cursor = page.next_cursor
        if cursor is None:
            return


def query_terms(query: str) -> list[str]:
    """The words of a query in the language of the index. Raises UsageError if there are none."""
    terms: list[str] = []
    for phrase, word in _QUERY_PART.findall(query):
        text = _spaced((phrase or word).replace('"', " ").replace("\0", " "))
        if any(char.isalnum() for char in text):
            terms.append(f'"{text}"' + ("" if phrase else "*"))
    if not terms:
        raise UsageError("nothing to search for; give at least one word")
    return terms


def _spaced(text: str) -> str:
    return _UNSPACED.sub(r" \1 ", text)


def _match(role: Role, snippet: str) -> SearchMatch:
    line = _ADDED_SPACE.sub(r"\1", " ".join(snippet.replace(f" {_END}", _END).split()))
    text: list[str] = []
    marked: list[tuple[int, int]] = []
    length = start = 0
    for part in re.split(f"([{_START}{_END}])", line):
        if part == _START:
            start = length
        elif part == _END:
            marked.append((start, length))
        else:
            text.append(part)
            length += len(part)
    return SearchMatch(role, "".join(text), tuple(marked))


def _failed(path: Path, error: Exception) -> StoreError:
    reason = getattr(error, "strerror", None) or error
    return StoreError(f"cannot search: {path} cannot be used ({reason}); remove it to build it again")


def search_sessions(
    query: str,
    *,
    cwd: str | None = None,
    agent: str | None = None,
    limit: int = MAX_HITS,
    stopped: Callable[[], bool] = lambda: False,
) -> list[SearchHit]:
    """Update the index from the logs of this user and search it. Raises StoreError, UsageError."""
    query_terms(query)  # before the index is updated, which can take a while
    with closing(SessionSearch()) as index:
        stores: list[Store] = []
        sources: list[LogSource] = []
        try:
            for name, owner in (("sessions", BUILT_IN), (RECORDINGS, None), (GATEWAY_STORE, None)):
                if store_path(name).exists():
                    stores.append(open_store(store_path(name)))
                    sources.append(LogSource(name, stores[-1], owner))
            index.update(sources, stopped)
        finally:
            for store in stores:
                store.close()
        return index.search(query, cwd=cwd, agent=agent, limit=limit)


def forget_session(agent: str, session_id: str) -> None:
    """Remove a deleted session from the index, if there is one. A failure changes nothing."""
    with suppress(StoreError):
        if SessionSearch.exists():
            with closing(SessionSearch()) as index:
                index.forget(agent, session_id)
