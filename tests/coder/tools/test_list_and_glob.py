"""Listing folders and finding files by name."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.coder.tools.harness import ToolHarness, text_in
from tests.patience import PATIENCE

from accord.coder.tools.tool import BadArguments
from accord.coder.tools.tool_context import ToolLimits
from accord.testing import FakeClock

Write = Callable[..., Path]


@pytest.fixture
def tree(project: Path, write: Write) -> Path:
    write(".gitignore", "build/\n*.log\n!keep.log\n")
    for name in (
        "README.md",
        "src/a.py",
        "src/deep/b.py",
        "build/out.py",
        "x.log",
        "keep.log",
        ".github/w.yml",
        ".git/HEAD",
    ):
        write(name)
    return project


async def test_first_level_is_listed_completely(harness: ToolHarness, tree: Path) -> None:
    os.symlink("src", tree / "link")
    call = await harness.prepare("list_files", {})
    assert (call.title, call.category, call.subject.paths) == ("List .", "read-only", (str(tree),))
    outcome = await harness.run(call)
    assert outcome.text.split("\n") == [
        *(
            ".git/",
            ".github/",
            ".gitignore",
            "README.md",
            "build/",
            "keep.log",
            "link -> src",
            "src/",
            "x.log",
        ),
    ]
    assert text_in(outcome.content) == f"```\n{outcome.text}\n```"


async def test_git_ignored_files_below_the_first_level_are_left_out(harness: ToolHarness, tree: Path) -> None:
    names = (await harness.done("list_files", depth=2)).text.split("\n")
    assert names == [
        *(".git/", ".github/", ".github/w.yml", ".gitignore", "README.md", "build/", "keep.log"),
        *("src/", "src/a.py", "src/deep/", "x.log"),
    ]
    assert "src/deep/b.py" in (await harness.done("list_files", depth=3)).text


async def test_listing_is_limited_with_a_notice(project: Path, tree: Path) -> None:
    harness = ToolHarness(project, limits=ToolLimits(entries=3))
    assert (await harness.done("list_files")).text.split("\n") == [
        *(".git/", ".github/", ".gitignore", "(the first 3 only; list a folder below, or use glob)")
    ]


async def test_empty_missing_and_non_folders(harness: ToolHarness, project: Path, tree: Path) -> None:
    (project / "empty").mkdir()
    assert (await harness.done("list_files", path="empty")).text == "(the folder is empty)"
    assert "does not exist" in await harness.refused("list_files", path="nowhere")
    assert "is a file, not a folder; use read_file" in await harness.refused("list_files", path="README.md")


async def test_strange_names_are_escaped(harness: ToolHarness, project: Path) -> None:
    (project / "two\nlines").touch()
    (project / os.fsdecode(b"bad\xff")).touch()
    assert (await harness.done("list_files")).text.split("\n") == ["bad\\udcff", "two\\nlines"]


async def test_glob_lists_the_newest_files_first(harness: ToolHarness, tree: Path) -> None:
    os.utime(tree / "src/a.py", (1000, 1000))
    os.utime(tree / "src/deep/b.py", (2000, 2000))
    call = await harness.prepare("glob", {"pattern": "*.py"})
    assert (call.title, call.subject.paths) == ("Find *.py", (str(tree),))
    outcome = await harness.run(call)
    assert outcome.text == "src/deep/b.py\nsrc/a.py"
    assert outcome.raw_output == {"files": ["src/deep/b.py", "src/a.py"], "total": 2}
    assert (await harness.done("glob", pattern="*.log")).text == "keep.log"
    assert (await harness.done("glob", pattern="*.yml")).text == ".github/w.yml"
    assert (await harness.done("glob", pattern="./*.py", path="src")).text == "src/a.py"
    assert (await harness.done("glob", pattern="*", path="build")).text == "build/out.py"


async def test_glob_without_matches_and_with_too_many(
    project: Path, harness: ToolHarness, tree: Path
) -> None:
    assert (
        "no file in . matches *.rs; files that git ignores are not searched"
        in (await harness.done("glob", pattern="*.rs")).text
    )
    few = ToolHarness(project, limits=ToolLimits(entries=1))
    assert (await few.done("glob", pattern="*.py")).text.endswith(
        "(1 of 2 files, the newest; use a narrower pattern or a subfolder)"
    )


async def test_glob_pattern_outside_the_project_names_the_outside_folder(
    harness: ToolHarness, tree: Path, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "z.py").touch()
    for pattern in ("../other/*.py", f"{tmp_path}/other/*.py"):
        call = await harness.prepare("glob", {"pattern": pattern})
        assert call.subject.paths == (str(tmp_path / "other"),)
        assert (await harness.run(call)).text == f"{tmp_path}/other/z.py"
    with pytest.raises(BadArguments, match="after a wildcard"):
        await harness.prepare("glob", {"pattern": "src/*/../../../*"})
    with pytest.raises(BadArguments, match="matches nothing"):
        await harness.prepare("glob", {"pattern": "/"})


async def test_links_are_not_followed(harness: ToolHarness, tree: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "z.py").touch()
    os.symlink(tmp_path / "other", tree / "src" / "out")
    assert "z.py" not in (await harness.done("glob", pattern="*.py")).text
    assert "z.py" not in (await harness.done("list_files", depth=9)).text


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("list_files", {"path": "src"}),
        ("glob", {"pattern": "*", "path": "src"}),
        ("grep", {"pattern": ".", "path": "src"}),
    ],
)
async def test_folder_replaced_by_a_link_before_the_search_is_not_searched(
    harness: ToolHarness, tree: Path, tmp_path: Path, tool: str, arguments: dict[str, str]
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "secret").write_text("secret")
    call = await harness.prepare(tool, arguments)
    (tree / "src").rename(tree / "was")
    (tree / "src").symlink_to(tmp_path / "other")
    outcome = await harness.run(call)
    assert outcome.failed
    assert "has become a link" in outcome.text


async def test_slow_walk_returns_partial_results() -> None:
    import asyncio
    import threading

    from accord.coder.files.file_search import run_with_deadline

    clock = FakeClock()
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow(stop: threading.Event) -> list[str]:
        loop.call_soon_threadsafe(begun.set)
        assert stop.wait(PATIENCE)
        return ["so far"]

    work = asyncio.ensure_future(run_with_deadline(slow, 5, clock))
    await begun.wait()
    await clock.advance(5)
    assert await work == (["so far"], False)
