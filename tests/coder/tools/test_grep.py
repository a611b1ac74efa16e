"""Searching in files, by ripgrep and by our own process: both must say the same."""

import asyncio
import os
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

import pytest
from tests.coder.tools.scene import Desk, until

from accord.coder.search.grep import Query, find_ripgrep, search
from accord.coder.tools.context import Limits
from accord.coder.tools.tool import BadArguments
from accord.schema.tools import ToolCallLocation
from accord.testing import FakeClock

Write = Callable[..., Path]
RIPGREP = find_ripgrep()


@pytest.fixture(params=["ripgrep", "own"])
def ripgrep(request: pytest.FixtureRequest) -> Callable[[], str | None]:
    if request.param == "ripgrep" and RIPGREP is None:
        pytest.skip("ripgrep is not installed")
    return lambda: RIPGREP if request.param == "ripgrep" else None


@pytest.fixture
def desk(project: Path, ripgrep: Callable[[], str | None]) -> Desk:
    return Desk(project, ripgrep=ripgrep)


@pytest.fixture
def tree(project: Path, write: Write) -> Path:
    write(".gitignore", "ignored/\n")
    write("a.py", "one\nTODO: first\nthree\nfour\nfive\ntodo lower\n")
    write("b/c.txt", "x\r\nTODO second\r\n")
    write("ignored/d.py", "TODO ignored\n")
    write(".hidden/e.py", "TODO hidden\n")
    write(".git/f", "TODO git\n")
    write("g.bin", b"TODO\0binary\n")
    return project


async def test_lines_by_file(desk: Desk, tree: Path) -> None:
    call = await desk.prepare("grep", {"pattern": "TODO"})
    assert (call.title, call.category, call.subject.paths) == ("Search for TODO", "read-only", (str(tree),))
    outcome = await desk.run(call)
    assert outcome.text == ".hidden/e.py\n1: TODO hidden\n\na.py\n2: TODO: first\n\nb/c.txt\n2: TODO second"
    assert outcome.locations == [
        ToolCallLocation(str(tree / ".hidden/e.py"), 1),
        ToolCallLocation(str(tree / "a.py"), 2),
        ToolCallLocation(str(tree / "b/c.txt"), 2),
    ]
    assert outcome.raw_output == {"files": {".hidden/e.py": 1, "a.py": 1, "b/c.txt": 1}, "complete": True}


async def test_lines_around_a_match(desk: Desk, tree: Path) -> None:
    outcome = await desk.done("grep", pattern="(?i)todo", path="a.py", context=1)
    assert outcome.text == "a.py\n1- one\n2: TODO: first\n3- three\n--\n5- five\n6: todo lower"
    near = await desk.done("grep", pattern="TODO|four", path="a.py", context=2)
    assert near.text == "a.py\n1- one\n2: TODO: first\n3- three\n4: four\n5- five\n6- todo lower"


async def test_files_and_counts(desk: Desk, tree: Path) -> None:
    assert (await desk.done("grep", pattern="TODO", mode="files")).text == ".hidden/e.py\na.py\nb/c.txt"
    counts = await desk.done("grep", pattern="todo", ignore_case=True, mode="count")
    assert counts.text == ".hidden/e.py: 1\na.py: 2\nb/c.txt: 1"


async def test_some_files_only(desk: Desk, tree: Path) -> None:
    assert (await desk.done("grep", pattern="TODO", glob="*.txt")).text == "b/c.txt\n2: TODO second"
    assert (await desk.done("grep", pattern="TODO", path="b")).text == "b/c.txt\n2: TODO second"
    assert (await desk.done("grep", pattern="TODO", path="ignored")).text == "ignored/d.py\n1: TODO ignored"
    assert (
        await desk.done("grep", pattern="TODO", path="ignored/d.py")
    ).text == "ignored/d.py\n1: TODO ignored"
    assert (await desk.done("grep", pattern="TODO", glob="d.py")).text == "(no matches)"
    with pytest.raises(BadArguments):
        await desk.prepare("grep", {"pattern": "x", "glob": "/"})


async def test_plain_text_and_patterns_that_look_like_options(desk: Desk, write: Write) -> None:
    write("a", "f(x)\n-rf\n")
    assert (await desk.done("grep", pattern="f(x)", literal=True)).text == "a\n1: f(x)"
    assert (await desk.done("grep", pattern="-rf")).text == "a\n2: -rf"
    write("-dash", "f(x)\n")
    assert (await desk.done("grep", pattern="x", path="-dash")).text == "-dash\n1: f(x)"


async def test_a_pattern_that_is_none(desk: Desk, tree: Path) -> None:
    text = await desk.refused("grep", pattern="a(b")
    assert text.startswith("'a(b' is no regular expression that can be searched for: ")
    assert "does not exist" in await desk.refused("grep", pattern="a", path="nowhere")


async def test_results_are_bounded_and_say_so(
    project: Path, write: Write, ripgrep: Callable[[], str | None]
) -> None:
    desk = Desk(project, ripgrep=ripgrep, limits=Limits(matches=3))
    for name in "abcd":
        write(name, "hit\n" * 2)
    outcome = await desk.done("grep", pattern="hit")
    assert outcome.text == (
        "a\n1: hit\n2: hit\n\nb\n1: hit\n(matches beyond these were left out; narrow it with glob or path)"
    )
    assert outcome.raw_output["complete"] is False
    assert (await desk.done("grep", pattern="hit", mode="files")).text == (
        "a\nb\nc\n(files beyond these were left out; narrow it with glob or path)"
    )
    assert (await desk.done("grep", pattern="hit", limit=1)).text.startswith("a\n1: hit\n(matches beyond")
    write("e", "long " + "x" * 100_000 + "\n")
    assert len((await desk.done("grep", pattern="long")).text) < 500


async def test_files_with_secrets_do_not_even_show_by_their_number(
    project: Path, write: Write, ripgrep: Callable[[], str | None]
) -> None:
    desk = Desk(project, ripgrep=ripgrep)
    write(".env", "KEY=xyzzy\n")
    write("a", "nothing\n")
    found = await desk.done("grep", pattern="KEY=x")
    missed = await desk.done("grep", pattern="KEY=y")
    assert found == missed
    assert found.text == "(no matches)"
    assert (await desk.done("grep", pattern="KEY", mode="count")).text == "(no matches)"
    # named by itself it was judged by itself
    assert "xyzzy" in (await desk.done("grep", pattern="KEY", path=".env")).text


async def test_links_are_not_followed(desk: Desk, tree: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("TODO outside\n")
    os.symlink(tmp_path / "outside", tree / "link")
    os.symlink(tmp_path, tree / "folder")
    assert "outside" not in (await desk.done("grep", pattern="TODO")).text


async def test_text_that_is_not_utf_8(desk: Desk, write: Write) -> None:
    write("a", b"gr\xfcn\n")
    write("b", "grün\n".encode("utf-16"))
    assert (await desk.done("grep", pattern="gr")).text == "a\n1: gr\ufffdn\n\nb\n1: grün"


async def test_an_expression_that_takes_for_ever_is_stopped(project: Path, write: Write) -> None:
    """Only our own: ripgrep has no such expressions."""
    clock = FakeClock()
    desk = Desk(project, ripgrep=lambda: None, clock=clock)
    write("a", "a" * 5000 + "\n")
    searching = asyncio.ensure_future(desk.use("grep", pattern="(a+)+$b|(a|aa)+c"))
    await until(lambda: clock.waiting)
    await clock.advance(31)
    assert (await searching).text == "(not all: the search took more than 30 s; narrow it with glob or path)"


async def test_leaving_early_ends_the_process(
    project: Path, write: Write, ripgrep: Callable[[], str | None]
) -> None:
    write("a", "hit\n" * 100_000)
    async with aclosing(search(Query("hit", str(project)), ripgrep())) as hits:
        async for hit in hits:
            assert (hit.path, hit.number, hit.text, hit.matches) == ("a", 1, "hit", True)
            break
