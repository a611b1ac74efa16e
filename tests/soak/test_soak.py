"""A short soak, and proof that the soak notices losses."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.soak.soak_world import Acknowledged, Lost, SoakWorld, check_log
from tests.warm_start import real_starts

from accord.schema import AgentMessageChunk, TextContent
from accord.session import TurnStarted
from accord.store.records import event_payload
from accord.store.sqlite_store import SqliteStore

ROOT = Path(__file__).parents[2]
SHORT = ("agent killed", "client killed", "disk of an agent full", "clock jump", "gateway killed")


@pytest.fixture(autouse=True)
def programs_start_anew() -> Iterator[None]:
    """As in a real soak, which counts the processes that are left."""
    with real_starts():
        yield


@pytest.mark.timeout(1200)
@pytest.mark.skipif(sys.platform != "linux", reason="the soak finds processes in /proc")
def test_a_short_soak_loses_nothing() -> None:
    only = [word for name in SHORT for word in ("--only", name)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.soak", "--minutes", "0", *only],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "nothing was lost" in done.stdout
    for name in SHORT:
        assert f"1  {name}\n" in done.stdout


def chunk(text: str) -> AgentMessageChunk:
    return AgentMessageChunk(TextContent(text))


@pytest.mark.parametrize(
    ("told", "lost"),
    [
        (Acknowledged([event_payload(chunk("one")), event_payload(chunk("two"))]), None),
        (Acknowledged([event_payload(chunk("two")), event_payload(chunk("one"))]), "lost"),
        (Acknowledged([event_payload(chunk("three"))]), "lost"),
        (Acknowledged(texts=["one", "three"]), "lost"),
        (Acknowledged(turns=1), "0 of 1 ended turns"),
    ],
)
def test_what_is_missing_in_a_log_is_noticed(told: Acknowledged, lost: str | None, tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "a.db") as store:
        store.create("s", str(tmp_path))
        store.journal("s").append(TurnStarted([TextContent("go")]), chunk("one"), chunk("two"))
        store.commit()
        if lost is None:
            check_log(store, "s", told)
        else:
            with pytest.raises(Lost, match=lost):
                check_log(store, "s", told)


def test_a_lock_that_is_still_held_is_noticed(tmp_path: Path) -> None:
    world = SoakWorld(tmp_path / "world")
    world.agent_store.parent.mkdir(parents=True)
    with SqliteStore(world.agent_store) as writer:
        writer.create("s", str(tmp_path))
        journal = writer.journal("s")
        journal.append(chunk("one"))
        writer.commit()
        world.told(world.agent_store, "s")
        with pytest.raises(Lost, match="lock of session s is still held"):
            world.check()
    world.check()


def test_a_temporary_file_that_no_program_removes_is_noticed(tmp_path: Path) -> None:
    world = SoakWorld(tmp_path / "world")
    (world.scratch / "left").write_text("x")
    with pytest.raises(Lost, match="temporary files left: "):
        world.check()
    (world.scratch / "left").unlink()
    world.check()
