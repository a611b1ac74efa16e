"""Listing folders and finding files by name."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.coder.tools.scene import Desk, text_in

from accord.coder.tools.context import Limits
from accord.coder.tools.tool import BadArguments
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


async def test_a_folder_is_listed_whole(desk: Desk, tree: Path) -> None:
    os.symlink("src", tree / "link")
    call = await desk.prepare("list_files", {})
    assert (call.title, call.category, call.subject.paths) == ("List .", "read-only", (str(tree),))
    outcome = await desk.run(call)
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


async def test_below_the_first_level_what_git_ignores_is_left_out(desk: Desk, tree: Path) -> None:
    names = (await desk.done("list_files", depth=2)).text.split("\n")
    assert names == [
        *(".git/", ".github/", ".github/w.yml", ".gitignore", "README.md", "build/", "keep.log"),
        *("src/", "src/a.py", "src/deep/", "x.log"),
    ]
    assert "src/deep/b.py" in (await desk.done("list_files", depth=3)).text


async def test_listings_are_bounded_and_say_so(project: Path, tree: Path) -> None:
    desk = Desk(project, limits=Limits(entries=3))
    assert (await desk.done("list_files")).text.split("\n") == [
        *(".git/", ".github/", ".gitignore", "(the first 3 only; list a folder below, or use glob)")
    ]


async def test_what_cannot_be_listed(desk: Desk, project: Path, tree: Path) -> None:
    (project / "empty").mkdir()
    assert (await desk.done("list_files", path="empty")).text == "(the folder is empty)"
    assert "does not exist" in await desk.refused("list_files", path="nowhere")
    assert "is a file, not a folder; use read_file" in await desk.refused("list_files", path="README.md")


async def test_strange_names_are_shown_safely(desk: Desk, project: Path) -> None:
    (project / "two\nlines").touch()
    (project / os.fsdecode(b"bad\xff")).touch()
    assert (await desk.done("list_files")).text.split("\n") == ["bad\\udcff", "two\\nlines"]


async def test_files_are_found_by_name_the_newest_first(desk: Desk, tree: Path) -> None:
    os.utime(tree / "src/a.py", (1000, 1000))
    os.utime(tree / "src/deep/b.py", (2000, 2000))
    call = await desk.prepare("glob", {"pattern": "*.py"})
    assert (call.title, call.subject.paths) == ("Find *.py", (str(tree),))
    outcome = await desk.run(call)
    assert outcome.text == "src/deep/b.py\nsrc/a.py"
    assert outcome.raw_output == {"files": ["src/deep/b.py", "src/a.py"], "total": 2}
    assert (await desk.done("glob", pattern="*.log")).text == "keep.log"
    assert (await desk.done("glob", pattern="*.yml")).text == ".github/w.yml"
    assert (await desk.done("glob", pattern="./*.py", path="src")).text == "src/a.py"
    assert (await desk.done("glob", pattern="*", path="build")).text == "build/out.py"


async def test_nothing_found_and_too_much_found(project: Path, desk: Desk, tree: Path) -> None:
    assert (
        "no file in . matches *.rs; what git ignores is not searched"
        in (await desk.done("glob", pattern="*.rs")).text
    )
    few = Desk(project, limits=Limits(entries=1))
    assert (await few.done("glob", pattern="*.py")).text.endswith(
        "(1 of 2 files, the newest; ask with a narrower pattern or a folder)"
    )


async def test_a_pattern_that_leads_elsewhere_is_judged_as_what_it_is(
    desk: Desk, tree: Path, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "z.py").touch()
    for pattern in ("../other/*.py", f"{tmp_path}/other/*.py"):
        call = await desk.prepare("glob", {"pattern": pattern})
        assert call.subject.paths == (str(tmp_path / "other"),)
        assert (await desk.run(call)).text == f"{tmp_path}/other/z.py"
    with pytest.raises(BadArguments, match="after a wildcard"):
        await desk.prepare("glob", {"pattern": "src/*/../../../*"})
    with pytest.raises(BadArguments, match="names nothing"):
        await desk.prepare("glob", {"pattern": "/"})


async def test_links_are_not_followed(desk: Desk, tree: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "z.py").touch()
    os.symlink(tmp_path / "other", tree / "src" / "out")
    assert "z.py" not in (await desk.done("glob", pattern="*.py")).text
    assert "z.py" not in (await desk.done("list_files", depth=9)).text


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("list_files", {"path": "src"}),
        ("glob", {"pattern": "*", "path": "src"}),
        ("grep", {"pattern": ".", "path": "src"}),
    ],
)
async def test_a_folder_that_leads_elsewhere_after_the_judgement_is_not_looked_through(
    desk: Desk, tree: Path, tmp_path: Path, tool: str, arguments: dict[str, str]
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "secret").write_text("secret")
    call = await desk.prepare(tool, arguments)
    (tree / "src").rename(tree / "was")
    (tree / "src").symlink_to(tmp_path / "other")
    outcome = await desk.run(call)
    assert outcome.failed
    assert "leads elsewhere now" in outcome.text


async def test_a_walk_that_takes_too_long_gives_what_it_has() -> None:
    import asyncio
    import threading

    from accord.coder.search.tree import in_time

    clock = FakeClock()
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow(stop: threading.Event) -> list[str]:
        loop.call_soon_threadsafe(begun.set)
        assert stop.wait(30)
        return ["so far"]

    work = asyncio.ensure_future(in_time(slow, 5, clock))
    await begun.wait()
    await clock.advance(5)
    assert await work == (["so far"], False)
