"""Any sequence of operations gives the same results on the SQLite store and on the memory store."""

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.store.reference_store import ReferenceMemory, ReferenceStore
from tests.store.store_contract import ManualClock, chunk

from accord.errors import AccordError
from accord.schema import SessionInfoUpdate, ToolCall, Unknown
from accord.session import SessionOpened, TurnEnded, TurnStarted
from accord.store import Store
from accord.store.sqlite_store import SqliteStore

NAMES = st.sampled_from(["a", "b", "c", "d", "e"])
FOLDERS = st.sampled_from(["/home/me", "/home/you/", "/home/you"])
ITEMS = st.lists(
    st.one_of(
        st.text(max_size=6).map(chunk),
        st.sampled_from(["", "Title", "Other"]).map(SessionInfoUpdate),
        st.just(TurnStarted()),
        st.just(TurnEnded("end_turn")),
        st.lists(st.sampled_from(["/x", "/y"]), max_size=2).map(lambda roots: SessionOpened("s", "/", roots)),
        st.just(ToolCall("c", "Call")),
        st.just(Unknown("new", {"sessionUpdate": "new", "x": [1]})),
        st.integers().map(lambda number: ("model", number)),
        st.integers(1, 3).map(lambda times: chunk("long" * 30_000 * times)),
    ),
    max_size=6,
)


def outcome(operation: Any, store: Store) -> Any:
    """Return the result, or the type and text of the error."""
    try:
        return operation(store)
    except AccordError as error:
        return type(error), str(error)


class TwoStores(RuleBasedStateMachine):
    """Runs the same operations on both stores."""

    def __init__(self) -> None:
        super().__init__()
        self.closing = ExitStack()
        self.path = Path(self.closing.enter_context(tempfile.TemporaryDirectory())) / "s.db"
        self.clock = ManualClock()
        self.shared = ReferenceMemory()
        self.memory = ReferenceStore(self.shared, now=self.clock.now)
        self.file = SqliteStore(self.path, now=self.clock.now)
        self.names: set[str] = set()

    def both(self, operation: Any) -> Any:
        plain = outcome(operation, self.memory)
        assert outcome(operation, self.file) == plain
        return plain

    @rule(name=NAMES, cwd=FOLDERS, agent=st.sampled_from(["", "x"]))
    def create(self, name: str, cwd: str, agent: str) -> None:
        self.both(lambda store: store.create(name, cwd, agent=agent, additional_directories=["/lib"]))
        self.names.add(name)

    @precondition(lambda self: self.names)
    @rule(data=st.data(), batches=st.lists(ITEMS, min_size=1, max_size=3))
    def write(self, data: st.DataObject, batches: list[Any]) -> None:
        name = data.draw(st.sampled_from(sorted(self.names)))

        def operation(store: Store) -> None:
            with store.journal(name) as journal:
                for items in batches:
                    for item in items:
                        if isinstance(item, tuple):
                            journal.record(*item)
                        else:
                            journal.append(item)
                    journal.commit()

        self.both(operation)

    @rule(source=NAMES, name=NAMES, cwd=st.none() | FOLDERS, cut=st.none() | st.integers(-1, 30))
    def fork(self, source: str, name: str, cwd: str | None, cut: int | None) -> None:
        self.both(lambda store: store.fork(source, name, cwd=cwd, up_to=cut))
        self.names.add(name)

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        self.both(lambda store: store.delete(name))
        self.names.discard(name)

    @rule(name=NAMES, hide=st.booleans())
    def archive(self, name: str, hide: bool) -> None:
        self.both(lambda store: store.archive(name) if hide else store.unarchive(name))

    @rule(name=NAMES, title=st.sampled_from(["Mine", "  ", "a\nb"]))
    def set_title(self, name: str, title: str) -> None:
        self.both(lambda store: store.set_title(name, title))

    @rule(seconds=st.sampled_from([0.2, 1.0, 3600.0, -5.0]))
    def advance_clock(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule()
    def rebuild(self) -> None:
        self.both(lambda store: store.rebuild())

    @rule()
    def reopen(self) -> None:
        self.file.close()
        self.file = SqliteStore(self.path, now=self.clock.now)

    @rule(name=NAMES, after=st.integers(-1, 30))
    def read(self, name: str, after: int) -> None:
        self.both(lambda store: list(store.read(name, after)))
        self.both(lambda store: list(store.events(name, after)))

    @rule(
        cwd=st.none() | FOLDERS,
        agent=st.sampled_from([None, "", "x"]),
        archived=st.sampled_from(["exclude", "include", "only"]),
        limit=st.integers(1, 3),
    )
    def list_pages(self, cwd: str | None, agent: str | None, archived: str, limit: int) -> None:
        cursor = None
        while True:
            asked = {"agent": agent, "archived": archived, "cursor": cursor, "limit": limit}
            page = self.both(lambda store: store.list(cwd, **asked))  # noqa: B023 - called at once
            cursor = page.next_cursor
            if cursor is None:
                break

    @invariant()
    def both_stores_list_the_same_sessions(self) -> None:
        self.both(lambda store: store.list(archived="include"))
        for name in self.names:
            self.both(lambda store: (store.last(name), store.summary(name)))  # noqa: B023 - called at once

    def teardown(self) -> None:
        for name in self.names:
            self.both(lambda store: list(store.read(name)))  # noqa: B023 - called at once
        for name in self.names:
            self.both(lambda store: store.delete(name))  # noqa: B023 - called at once
        left = self.file._database.connection.execute("SELECT count(*) FROM records").fetchone()
        self.file.close()
        self.closing.close()
        assert left == (0,), "deleting all sessions must delete all records"


TestTwoStores = TwoStores.TestCase
TestTwoStores.settings = settings(
    max_examples=40,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
