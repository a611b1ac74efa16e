"""Searching in files with ripgrep and with our own process; both must give the same results."""

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import aclosing
from pathlib import Path

import pytest
from tests.coder.tools.harness import ToolHarness, until

from accord.coder.files.file_search import Query, find_ripgrep, search
from accord.coder.tools.tool import BadArguments
from accord.coder.tools.tool_context import ToolLimits
from accord.schema.content import ToolCallLocation
from accord.testing import FakeClock

Write = Callable[..., Path]
RIPGREP = find_ripgrep()


@pytest.fixture(params=["ripgrep", "own"])
def ripgrep(request: pytest.FixtureRequest) -> Callable[[Sequence[str]], str | None]:
    if request.param == "ripgrep" and RIPGREP is None:
        pytest.skip("ripgrep is not installed")
    return lambda roots: RIPGREP if request.param == "ripgrep" else None


@pytest.fixture
def harness(project: Path, ripgrep: Callable[[Sequence[str]], str | None]) -> ToolHarness:
    return ToolHarness(project, ripgrep=ripgrep)


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


async def test_matches_are_grouped_by_file(harness: ToolHarness, tree: Path) -> None:
    call = await harness.prepare("grep", {"pattern": "TODO"})
    assert (call.title, call.category, call.subject.paths) == ("Search for TODO", "read-only", (str(tree),))
    outcome = await harness.run(call)
    assert outcome.text == ".hidden/e.py\n1: TODO hidden\n\na.py\n2: TODO: first\n\nb/c.txt\n2: TODO second"
    assert outcome.locations == [
        ToolCallLocation(str(tree / ".hidden/e.py"), 1),
        ToolCallLocation(str(tree / "a.py"), 2),
        ToolCallLocation(str(tree / "b/c.txt"), 2),
    ]
    assert outcome.raw_output == {"files": {".hidden/e.py": 1, "a.py": 1, "b/c.txt": 1}, "complete": True}


async def test_context_lines(harness: ToolHarness, tree: Path) -> None:
    outcome = await harness.done("grep", pattern="(?i)todo", path="a.py", context=1)
    assert outcome.text == "a.py\n1- one\n2: TODO: first\n3- three\n--\n5- five\n6: todo lower"
    near = await harness.done("grep", pattern="TODO|four", path="a.py", context=2)
    assert near.text == "a.py\n1- one\n2: TODO: first\n3- three\n4: four\n5- five\n6- todo lower"


async def test_files_and_counts(harness: ToolHarness, tree: Path) -> None:
    assert (await harness.done("grep", pattern="TODO", mode="files")).text == ".hidden/e.py\na.py\nb/c.txt"
    counts = await harness.done("grep", pattern="todo", ignore_case=True, mode="count")
    assert counts.text == ".hidden/e.py: 1\na.py: 2\nb/c.txt: 1"


async def test_glob_and_path_restrict_the_search(harness: ToolHarness, tree: Path) -> None:
    assert (await harness.done("grep", pattern="TODO", glob="*.txt")).text == "b/c.txt\n2: TODO second"
    assert (await harness.done("grep", pattern="TODO", path="b")).text == "b/c.txt\n2: TODO second"
    assert (
        await harness.done("grep", pattern="TODO", path="ignored")
    ).text == "ignored/d.py\n1: TODO ignored"
    assert (
        await harness.done("grep", pattern="TODO", path="ignored/d.py")
    ).text == "ignored/d.py\n1: TODO ignored"
    assert (await harness.done("grep", pattern="TODO", glob="d.py")).text == "(no matches)"
    with pytest.raises(BadArguments):
        await harness.prepare("grep", {"pattern": "x", "glob": "/"})


async def test_literal_patterns_and_patterns_that_look_like_options(
    harness: ToolHarness, write: Write
) -> None:
    write("a", "f(x)\n-rf\n")
    assert (await harness.done("grep", pattern="f(x)", literal=True)).text == "a\n1: f(x)"
    assert (await harness.done("grep", pattern="-rf")).text == "a\n2: -rf"
    write("-dash", "f(x)\n")
    assert (await harness.done("grep", pattern="x", path="-dash")).text == "-dash\n1: f(x)"


async def test_invalid_pattern_and_missing_path(harness: ToolHarness, tree: Path) -> None:
    text = await harness.refused("grep", pattern="a(b")
    assert text.startswith("'a(b' is not a valid regular expression: ")
    assert "does not exist" in await harness.refused("grep", pattern="a", path="nowhere")


async def test_results_are_limited_with_a_notice(
    project: Path, write: Write, ripgrep: Callable[[Sequence[str]], str | None]
) -> None:
    harness = ToolHarness(project, ripgrep=ripgrep, limits=ToolLimits(matches=3))
    for name in "abcd":
        write(name, "hit\n" * 2)
    outcome = await harness.done("grep", pattern="hit")
    assert outcome.text == (
        "a\n1: hit\n2: hit\n\nb\n1: hit\n(more matches were left out; narrow it with glob or path)"
    )
    assert outcome.raw_output["complete"] is False
    assert (await harness.done("grep", pattern="hit", mode="files")).text == (
        "a\nb\nc\n(more files were left out; narrow it with glob or path)"
    )
    assert (await harness.done("grep", pattern="hit", limit=1)).text.startswith("a\n1: hit\n(more matches")
    write("e", "long " + "x" * 100_000 + "\n")
    assert len((await harness.done("grep", pattern="long")).text) < 500


async def test_secret_files_do_not_affect_the_results(
    project: Path, write: Write, ripgrep: Callable[[Sequence[str]], str | None]
) -> None:
    harness = ToolHarness(project, ripgrep=ripgrep)
    write(".env", "KEY=xyzzy\n")
    write("a", "nothing\n")
    found = await harness.done("grep", pattern="KEY=x")
    missed = await harness.done("grep", pattern="KEY=y")
    assert found == missed
    assert found.text == "(no matches)"
    assert (await harness.done("grep", pattern="KEY", mode="count")).text == "(no matches)"
    # A path that is named directly has its own permission check.
    assert "xyzzy" in (await harness.done("grep", pattern="KEY", path=".env")).text


async def test_links_are_not_followed(harness: ToolHarness, tree: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("TODO outside\n")
    os.symlink(tmp_path / "outside", tree / "link")
    os.symlink(tmp_path, tree / "folder")
    assert "outside" not in (await harness.done("grep", pattern="TODO")).text


async def test_text_that_is_not_utf8(harness: ToolHarness, write: Write) -> None:
    write("a", b"gr\xfcn\n")
    write("b", "grün\n".encode("utf-16"))
    assert (await harness.done("grep", pattern="gr")).text == "a\n1: gr\ufffdn\n\nb\n1: grün"


async def test_endless_expression_is_stopped(project: Path, write: Write) -> None:
    """Only for our own search: ripgrep has no such expressions."""
    clock = FakeClock()
    harness = ToolHarness(project, ripgrep=lambda roots: None, clock=clock)
    write("a", "a" * 5000 + "\n")
    task = asyncio.ensure_future(harness.use("grep", pattern="(a+)+$b|(a|aa)+c"))
    await until(lambda: clock.waiting)
    await clock.advance(31)
    assert (await task).text == "(incomplete: the search took more than 30 s; narrow it with glob or path)"


async def test_closing_the_search_early_ends_the_process(
    project: Path, write: Write, ripgrep: Callable[[Sequence[str]], str | None]
) -> None:
    write("a", "hit\n" * 100_000)
    async with aclosing(search(Query("hit", str(project)), ripgrep(()))) as hits:
        async for hit in hits:
            assert (hit.path, hit.number, hit.text, hit.is_match) == ("a", 1, "hit", True)
            break
