"""The index of files for `@` pickers."""

import asyncio
from pathlib import Path

import pytest
from tests.patience import PATIENCE

from accord.frontend.file_index import FileIndex, FileIndexes
from accord.testing import FakeClock
from accord.workspace.file_search import NameIndex, best_matches


async def _read(index: FileIndex) -> None:
    reading = index.refresh()
    assert reading is not None
    await asyncio.wait_for(reading, PATIENCE)


async def test_a_search_finds_files_and_folders_that_git_does_not_ignore(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "server.py").touch()
    (tmp_path / ".gitignore").write_text("*.log\n")
    (tmp_path / "server.log").touch()
    index = FileIndex(str(tmp_path))
    await _read(index)
    assert await index.find("serv") == (["src/server.py"], True)
    assert await index.find("src") == (["src/", "src/server.py"], True)


async def test_new_files_are_found_when_the_last_reading_is_old(tmp_path: Path) -> None:
    clock = FakeClock()
    index = FileIndex(str(tmp_path), clock)
    await _read(index)
    (tmp_path / "new.py").touch()
    assert (await index.find("new")).paths == []
    assert index.refresh() is None  # too soon
    await clock.advance(60)
    await _read(index)
    assert (await index.find("new")).paths == ["new.py"]


async def test_a_search_during_the_first_reading_says_that_more_may_come(tmp_path: Path) -> None:
    """The clock stands still, so the search waits for the reading only until the clock moves on."""
    clock = FakeClock()
    index = FileIndex(str(tmp_path), clock)
    started = asyncio.ensure_future(index.find(""))
    await asyncio.sleep(0)
    await clock.advance(1)
    paths, complete = await asyncio.wait_for(started, PATIENCE)
    assert (paths, index.complete) == ([], True) or not complete
    await index.wait_for_more()


async def test_folders_searched_long_ago_are_forgotten(tmp_path: Path) -> None:
    indexes = FileIndexes()
    first = indexes[str(tmp_path)]
    assert indexes[str(tmp_path)] is first
    for number in range(64):
        indexes[f"/{number}"]
    assert indexes[str(tmp_path)] is not first


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["app.py", "docs/app.md", "src/application.py"]),
        ("app", ["app.py", "docs/app.md", "src/application.py"]),
        ("APPL", ["src/application.py"]),
        ("docs", ["docs/app.md"]),
        ("sap", ["src/application.py", "docs/app.md"]),
        ("src/a", ["src/application.py"]),
        ("a.p", ["app.py", "src/application.py"]),
        ("zz", []),
    ],
)
def test_the_best_names_come_first(query: str, expected: list[str]) -> None:
    names = ["src/application.py", "docs/app.md", "app.py"]
    assert best_matches(query, names) == expected
    assert NameIndex(names).best(query, 1) == expected[:1]
