"""The review of changes: hunks, revert, comments, commit."""

import subprocess
from pathlib import Path

import pytest

from accord.errors import UsageError
from accord.frontend.review import Hunk, ReviewService, hunks_of
from accord.schema import Diff, ToolCall, UserMessageChunk
from accord.schema.content import TextContent
from accord.session import SessionState
from accord.workspace.roots import Roots

LINES = [f"line {number}\n" for number in range(1, 31)]


def _service(folder: Path, *turns: list[Diff]) -> ReviewService:
    """A session in which every turn reported these diffs."""
    state = SessionState()
    for number, diffs in enumerate(turns):
        state.apply(UserMessageChunk(TextContent("change it")))
        state.apply(ToolCall(f"call-{number}", "Edit", kind="edit", status="completed", content=[*diffs]))
    return ReviewService(state, Roots(folder))


def _git(folder: Path, *words: str) -> str:
    command = ["git", "-c", "user.name=Test", "-c", "user.email=test@example.com", *words]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


def _repository(folder: Path) -> None:
    _git(folder, "init", "--quiet", "--initial-branch=main")
    for name, value in (("user.name", "Test"), ("user.email", "test@example.com")):
        _git(folder, "config", name, value)
    _git(folder, "add", "-A")
    _git(folder, "commit", "--quiet", "-m", "first")


def _changed(*changes: tuple[int, str]) -> str:
    lines = list(LINES)
    for number, text in changes:
        lines[number - 1] = f"{text}\n"
    return "".join(lines)


def test_the_edits_of_a_turn_are_shown_by_hunk_and_one_is_reverted(tmp_path: Path) -> None:
    file = tmp_path / "app.py"
    file.write_text(_changed((2, "two"), (25, "twenty-five")))
    path = str(file)
    first = Diff(path, _changed((2, "two")), "".join(LINES))
    second = Diff(path, "twenty-five\n", "line 25\n")  # only the changed part, as some agents send it
    review = _service(tmp_path, [first], [second])
    (turn,) = review.files("turn")
    assert [(hunk.start, hunk.removed, hunk.added) for hunk in turn.hunks] == [
        (22, ("line 25\n",), ("twenty-five\n",))
    ]
    (session,) = review.files("session")
    assert [hunk.added for hunk in session.hunks] == [("two\n",), ("twenty-five\n",)]
    file.write_text("# a new head\n" + file.read_text())  # elsewhere in the file
    review.revert(session.hunks[1])
    assert file.read_text() == "# a new head\n" + _changed((2, "two"))


def test_a_hunk_that_the_file_no_longer_has_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "app.py"
    file.write_text(_changed((2, "two")))
    review = _service(tmp_path, [Diff(str(file), _changed((2, "two")), "".join(LINES))])
    (hunk,) = review.files("turn")[0].hunks
    file.write_text(_changed((2, "second")))
    with pytest.raises(UsageError, match="no longer has this change"):
        review.revert(hunk)
    assert file.read_text() == _changed((2, "second"))
    (changed_since,) = review.files("turn")
    assert changed_since.note == "changed again since"


def test_new_and_deleted_files_are_reverted_as_a_whole(tmp_path: Path) -> None:
    made, gone = tmp_path / "made.py", tmp_path / "gone.py"
    made.write_text("new\n")
    review = _service(tmp_path, [Diff(str(made), "new\n"), Diff(str(gone), "", "old\n")])
    deleted, created = review.files("turn")
    assert (deleted.hunks[0].whole_file, created.hunks[0].whole_file) == ("deleted", "created")
    review.revert(deleted.hunks[0])
    review.revert(created.hunks[0])
    assert gone.read_text() == "old\n"
    assert not made.exists()


def test_files_outside_of_the_session_and_links_out_are_neither_read_nor_written(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    outside = tmp_path / "outside.txt"
    outside.write_text("new\n")
    (folder / "link").symlink_to(outside)
    diffs = [Diff(str(path), "new\n", "old\n") for path in (outside, folder / "link")]
    review = _service(folder, diffs)
    assert all("outside the roots" in file.problem for file in review.files("turn"))
    for diff in diffs:
        with pytest.raises(UsageError, match="outside the roots"):
            review.revert(Hunk(diff.path, 1, ("old\n",), ("new\n",), 0, 0))
    assert outside.read_text() == "new\n"


def test_uncommitted_changes_come_from_git_and_are_committed(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("".join(LINES))
    (tmp_path / "gone.py").write_text("old\n")
    (tmp_path / ".gitignore").write_text("*.log\n")
    _repository(tmp_path)
    (tmp_path / "app.py").write_text(_changed((2, "two")))
    (tmp_path / "gone.py").unlink()
    (tmp_path / "new.py").write_text("new\n")
    (tmp_path / "build.log").write_text("ignored\n")
    (tmp_path / ".env").write_text("KEY=1\n")
    (tmp_path / "picture.bin").write_bytes(b"\0\xff")
    review = _service(tmp_path)
    files = {Path(file.path).name: file for file in review.files("uncommitted")}
    assert sorted(files) == [".env", "app.py", "gone.py", "new.py", "picture.bin"]
    assert files[".env"].problem == "it may hold secrets"
    assert files["picture.bin"].problem == "it is not text"
    assert (files["app.py"].added, files["app.py"].removed) == (1, 1)
    review.revert(files["gone.py"].hunks[0])
    assert (tmp_path / "gone.py").read_text() == "old\n"
    commit = review.commit("Change two", [files["app.py"].path, files["new.py"].path])
    assert (
        _git(tmp_path, "show", "--name-only", "--format=%h %s", commit).split("\n")[0].endswith("Change two")
    )
    assert sorted(Path(file.path).name for file in review.files("uncommitted")) == [".env", "picture.bin"]
    with pytest.raises(UsageError, match="empty"):
        review.commit(" ", [files["app.py"].path])


def test_comments_become_a_prompt(tmp_path: Path) -> None:
    file = tmp_path / "app.py"
    file.write_text(_changed((2, "two")))
    review = _service(tmp_path, [Diff(str(file), _changed((2, "two")), "".join(LINES))])
    (hunk,) = review.files("turn")[0].hunks
    assert review.prompt() == ""
    review.comment(hunk, 2, "Write it as a number.")
    assert review.prompt() == (
        "Please address these comments on your changes.\n\n"
        "app.py, line 2:\n> -line 2\n> +two\nWrite it as a number."
    )


def test_a_hunk_is_found_again_by_its_id(tmp_path: Path) -> None:
    file = tmp_path / "app.py"
    file.write_text(_changed((2, "two")))
    review = _service(tmp_path, [Diff(str(file), _changed((2, "two")), "".join(LINES))])
    (hunk,) = review.files("turn")[0].hunks
    assert review.hunk("turn", hunk.id) == hunk
    with pytest.raises(UsageError, match="no longer there"):
        review.hunk("turn", "0")


def test_a_change_of_a_very_long_file_is_one_hunk() -> None:
    before = [f"{number}\n" for number in range(30_000)]
    after = [*before[:10], "new\n", *before[10:]]
    (hunk,) = hunks_of("/long", "".join(before), "".join(after))
    assert (hunk.start, hunk.added, hunk.removed) == (8, ("new\n",), ())


def test_a_reverted_change_is_no_longer_listed(tmp_path: Path) -> None:
    file = tmp_path / "app.py"
    changed = _changed((2, "two"), (25, "twenty-five"))
    file.write_text(changed)
    review = _service(tmp_path, [Diff(str(file), changed, "".join(LINES))])
    review.revert(review.files("turn")[0].hunks[0])
    assert [hunk.added for hunk in review.files("turn")[0].hunks] == [("twenty-five\n",)]
    review.revert(review.files("turn")[0].hunks[0])
    assert review.files("turn") == []
