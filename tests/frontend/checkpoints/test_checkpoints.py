"""Checkpoints of the files that a turn changes, with real files and a real git."""

import os
import shutil
from pathlib import Path

import pytest
from tests.coder.tools.git_project import GitProject

from accord.coder.files.exact_disk import ExactDisk, resolve_path
from accord.errors import BadSettings
from accord.frontend.checkpoints import checkpoint_store, file_checkpoints, shadow_git
from accord.frontend.checkpoints.checkpoint_store import (
    CheckpointStore,
    PerformedRewind,
    clean_up,
    stored_sessions,
)
from accord.frontend.checkpoints.file_checkpoints import CHANGED_BETWEEN, FileCheckpoints
from accord.frontend.checkpoints.file_restore import (
    CHANGED_SINCE,
    RestorePlan,
    keep_current,
    perform_rewind,
    plan_restore,
    restore,
    rewind_result,
)

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


class Desk:
    """A project, the disk of the tools and the checkpoints of one session."""

    def __init__(self, tmp_path: Path) -> None:
        self.root = tmp_path / "project"
        self.root.mkdir()
        self.store = CheckpointStore(tmp_path / "checkpoints", "s1")
        self.checkpoints = FileCheckpoints(self.store, [str(self.root)])
        self.disk = ExactDisk(self.checkpoints)
        self.turns = 0

    async def begin(self) -> None:
        self.turns += 1
        await self.checkpoints.begin(f"m{self.turns}")

    async def end(self) -> None:
        self.checkpoints.end()
        await self.checkpoints.finished()

    async def write(self, name: str, text: str) -> None:
        file = resolve_path(name, str(self.root))
        await self.disk.write(file, text.encode(), await self.disk.read(file, 1 << 30))

    async def plan(self, *, force: bool = False, since: int = 1) -> RestorePlan:
        turns = (await self.checkpoints.read()).turns
        changes = [turn.changes for turn in turns if int(turn.message_id[1:]) >= since]
        return plan_restore(self.store, changes, lambda path: "", force=force)

    async def undo(self, *, force: bool = False, since: int = 1) -> dict[str, str]:
        """Bring the files back; return why some stay, by name."""
        plan = await self.plan(force=force, since=since)
        keep_current(self.store, plan.steps)
        skipped = [*plan.skipped, *restore(self.store, plan)]
        return {os.path.relpath(file.path, self.root): file.reason for file in skipped}

    def files(self) -> dict[str, str]:
        return {
            path.relative_to(self.root).as_posix(): path.read_text()
            for path in sorted(self.root.rglob("*"))
            if path.is_file() and ".git/" not in path.as_posix()
        }


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


async def test_files_of_tools_come_back_without_git(desk: Desk) -> None:
    (desk.root / "old.txt").write_text("one\ntwo\n")
    (desk.root / "script.sh").write_text("#!/bin/sh\n")
    (desk.root / "script.sh").chmod(0o750)
    (desk.root / "lib").mkdir()
    (desk.root / "lib" / "deep").mkdir()
    (desk.root / "lib" / "deep" / "a").write_text("a")
    before = desk.files()
    await desk.begin()
    await desk.write("old.txt", "one\nthree\n")
    await desk.write("old.txt", "four\n")
    await desk.write("new/folder/file.txt", "new\n")
    await desk.disk.remove(resolve_path("script.sh", str(desk.root)))
    await desk.disk.move(resolve_path("lib", str(desk.root)), resolve_path("src/lib", str(desk.root)))
    await desk.end()
    plan = await desk.plan()
    assert (plan.insertions, plan.deletions, plan.skipped) == (4, 3, [])
    assert await desk.undo() == {}
    assert desk.files() == before
    assert (desk.root / "script.sh").stat().st_mode & 0o777 == 0o750
    assert not (desk.root / "new").exists()
    assert not (desk.root / "src" / "lib").exists()


async def test_files_that_others_changed_are_named_and_stay(desk: Desk) -> None:
    for name in ("since", "between", "fine"):
        (desk.root / name).write_text("1")
    await desk.begin()
    for name in ("since", "between", "fine"):
        await desk.write(name, "2")
    await desk.end()
    (desk.root / "between").write_text("user")
    await desk.begin()
    await desk.write("between", "3")
    await desk.end()
    (desk.root / "since").write_text("user")
    assert await desk.undo() == {"since": CHANGED_SINCE, "between": CHANGED_BETWEEN}
    assert desk.files() == {"since": "user", "between": "3", "fine": "1"}
    assert await desk.undo(force=True) == {}
    assert desk.files() == {"since": "1", "between": "1", "fine": "1"}


async def test_links_secrets_and_large_files_are_never_touched(desk: Desk, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (desk.root / "folder").mkdir()
    for name in ("folder/a", "linked", ".env", "large"):
        (desk.root / name).write_text("1")
    (desk.root / "large").write_bytes(bytes(checkpoint_store.FILE_LIMIT + 1))
    (tmp_path / "elsewhere").write_text("1")
    await desk.begin()
    for name in ("folder/a", "linked", ".env", "large", "../elsewhere"):
        await desk.write(name, "2")
    await desk.end()
    (desk.root / "folder").rename(outside / "folder")
    (desk.root / "folder").symlink_to(outside / "folder")
    (desk.root / "linked").unlink()
    (desk.root / "linked").symlink_to(outside / "folder" / "a")
    assert await desk.undo(force=True) == {
        "folder/a": "a folder of its path has become a link",
        "linked": "it is not a plain file",
        ".env": "it may hold secrets",
        "large": "it is larger than 4 MiB",
        "../elsewhere": "it is outside the folders of the session",
    }
    assert (outside / "folder" / "a").read_text() == "2"
    blobs = list((tmp_path / "checkpoints").rglob("blobs/*"))
    assert [blob.stat().st_mode & 0o777 for blob in blobs] == [0o600]


@needs_git
async def test_changes_of_commands_come_back(desk: Desk) -> None:
    project = GitProject(desk.root)
    for name in ("tracked", "deleted", "tool", "run.sh"):
        (desk.root / name).write_text(f"{name}\n")
    (desk.root / "run.sh").chmod(0o755)
    (desk.root / ".gitignore").write_text("build/\n.env\n")
    project.git("add", "-A")
    project.git("commit", "-qm", "start")
    (desk.root / "tracked").write_text("not committed\n")
    (desk.root / "untracked").write_text("mine\n")
    (desk.root / "build").mkdir()
    (desk.root / "build" / "out").write_text("ignored")
    status, before = project.git("status", "--porcelain"), desk.files()
    for _ in range(2):  # the second snapshot uses the first
        await desk.begin()
        await desk.write("tool", "edited\n")
        await desk.checkpoints.before_command()
        (desk.root / "tool").write_text("formatted\n")
        (desk.root / "tracked").write_text("by a command\n")
        (desk.root / "deleted").unlink()
        (desk.root / "deleted" / "below").mkdir(parents=True)
        (desk.root / "deleted" / "below" / "new").write_text("new\n")
        (desk.root / "run.sh").unlink()
        (desk.root / "untracked").write_text("by a command\n")
        (desk.root / "created").write_text("new\n")
        (desk.root / "build" / "out").write_text("built")
        await desk.end()
        assert await desk.undo(since=desk.turns) == {}
        assert desk.files() == before | {"build/out": "built"}
        assert (desk.root / "run.sh").stat().st_mode & 0o111
        assert project.git("status", "--porcelain") == status


@needs_git
async def test_a_turn_whose_agent_was_killed_says_what_is_missing(desk: Desk) -> None:
    GitProject(desk.root)
    await desk.begin()
    await desk.checkpoints.before_command()
    killed = FileCheckpoints(desk.store, [str(desk.root)])
    [turn] = (await killed.read()).turns
    assert turn.notes == ["changes of commands are not kept: the agent ended during the turn"]
    await desk.end()
    assert desk.store.load().turns == []  # nothing changed


@needs_git
async def test_a_deleted_gitignore_lets_no_ignored_file_in_or_away(desk: Desk, tmp_path: Path) -> None:
    project = GitProject(desk.root)
    (desk.root / ".gitignore").write_text("*.local\n.env\n")
    project.git("add", "-A")
    project.git("commit", "-qm", "start")
    (desk.root / "notes.local").write_text("mine")
    (desk.root / ".env").write_text("KEY=secret-value")
    await desk.begin()
    await desk.checkpoints.before_command()
    (desk.root / ".gitignore").unlink()
    (desk.root / "created").write_text("new")
    await desk.end()
    await desk.begin()
    await desk.checkpoints.before_command()
    (desk.root / ".env").write_text("KEY=other")
    await desk.end()
    turns = (await desk.checkpoints.read()).turns
    assert turns[0].notes == ["new files of commands stay: a .gitignore changed in the same turn"]
    assert await desk.undo() == {".env": "it may hold secrets"}
    assert (desk.root / ".gitignore").exists()
    assert desk.files()["notes.local"] == "mine"
    project.git("--git-dir", str(next((tmp_path / "checkpoints").glob("*/git/*"))), "fsck")
    objects = project.git(
        "--git-dir", str(next((tmp_path / "checkpoints").glob("*/git/*"))), "ls-files", "--cached"
    )
    assert ".env" not in objects


@needs_git
async def test_files_of_a_folder_that_ignores_itself_stay_when_its_gitignore_goes(desk: Desk) -> None:
    GitProject(desk.root)
    for folder in ("cache", "moved"):
        (desk.root / folder).mkdir()
        (desk.root / folder / "kept").write_text("mine")
    (desk.root / "cache" / ".gitignore").write_text("*\n")
    await desk.begin()
    await desk.checkpoints.before_command()
    (desk.root / "cache" / ".gitignore").unlink()
    (desk.root / "cache" / "created").write_text("new")
    (desk.root / "moved").rename(desk.root / "renamed")
    await desk.end()
    assert (await desk.checkpoints.read()).turns[0].notes == ["files that git ignored before the turn stay"]
    assert await desk.undo() == {}
    assert desk.files() == {"cache/kept": "mine", "moved/kept": "mine"}


async def test_a_large_file_of_another_program_is_not_even_overwritten_with_force(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_checkpoints, "FILE_LIMIT", 10)
    (desk.root / "a").write_text("small")
    await desk.begin()
    await desk.write("a", "changed")
    await desk.end()
    (desk.root / "a").write_text("a text of another program")
    reason = "another program changed it since, and it is too large to keep a copy"
    assert await desk.undo(force=True) == {"a": reason}
    assert desk.files() == {"a": "a text of another program"}


@needs_git
async def test_submodules_and_filters_are_left_alone(desk: Desk, tmp_path: Path) -> None:
    other = GitProject(_folder(tmp_path / "other"))
    (other.root / "a").write_text("a")
    other.git("add", "-A")
    other.git("commit", "-qm", "start")
    project = GitProject(desk.root)
    project.git("submodule", "--quiet", "add", str(other.root), "module")
    (desk.root / ".gitattributes").write_text("*.big filter=lfs\n")
    (desk.root / "x.big").write_text("content")
    project.git("add", "-A")
    project.git("commit", "-qm", "start")
    await desk.begin()
    await desk.checkpoints.before_command()
    (desk.root / "module" / "a").write_text("changed")
    (desk.root / "x.big").write_text("changed")
    await desk.end()
    assert await desk.undo(force=True) == {"x.big": "git converts its content"}
    assert (desk.root / "module" / "a").read_text() == "changed"
    note = "changes in other repositories below the folder are not kept: module"
    assert (await desk.checkpoints.read()).turns[0].notes == [note]


@needs_git
async def test_files_without_a_copy_are_named_when_a_command_changed_them(desk: Desk) -> None:
    GitProject(desk.root)
    for name in ("changed", "removed", "same"):
        (desk.root / name).write_bytes(bytes(shadow_git.UNTRACKED_LIMIT + 1))
    (desk.root / ".env").write_text("KEY=1")
    GitProject(_folder(desk.root / "nested")).write("a", "a")
    await desk.begin()
    await desk.checkpoints.before_command()
    (desk.root / "changed").write_text("x")
    (desk.root / "removed").unlink()
    (desk.root / ".env").write_text("KEY=2")
    await desk.end()
    note = "changes in other repositories below the folder are not kept: nested"
    assert (await desk.checkpoints.read()).turns[0].notes == [note]
    large = "it is larger than 2 MiB"
    assert await desk.undo() == {"changed": large, "removed": large, ".env": "it may hold secrets"}
    await desk.begin()
    await desk.checkpoints.before_command()
    await desk.end()
    assert await desk.undo(since=2) == {}


@needs_git
@pytest.mark.parametrize("hashes", ["sha1", "sha256"])
async def test_commands_may_change_files_whose_names_are_no_text(desk: Desk, hashes: str) -> None:
    project = GitProject(desk.root)
    shutil.rmtree(desk.root / ".git")
    project.git("init", "-q", f"--object-format={hashes}", ".")
    paths = [os.fsencode(desk.root) + name for name in (b"/caf\xe9", b"/plain", b"/new\xe9")]
    try:
        for path in paths[:2]:
            _write_bytes(path, b"1")
    except OSError:
        pytest.skip("this file system has no such names")
    project.git("add", "-A")
    await desk.begin()
    await desk.checkpoints.before_command()
    for path in paths:
        _write_bytes(path, b"2")
    await desk.end()
    later = FileCheckpoints(desk.store, [str(desk.root)])
    changes = [turn.changes for turn in (await later.read()).turns]
    plan = plan_restore(desk.store, changes, lambda path: "")
    performed = PerformedRewind("m1", "", "files")
    assert perform_rewind(desk.store, desk.store.load(), plan, performed) == []
    assert [os.path.exists(path) for path in paths] == [True, True, False]
    assert [Path(os.fsdecode(path)).read_text() for path in paths[:2]] == ["1", "1"]
    names = [os.path.basename(path) for path in rewind_result(plan, [], "").files_changed]
    assert names == [r"caf\xe9", r"new\xe9", "plain"]


def _write_bytes(path: bytes, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)


async def test_a_missing_git_and_a_folder_without_repository_are_told_apart(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    await desk.begin()
    await desk.checkpoints.before_command()
    await desk.end()
    monkeypatch.undo()
    await desk.begin()
    await desk.checkpoints.before_command()
    await desk.end()
    notes = [turn.notes for turn in (await desk.checkpoints.read()).turns]
    missing = "changes of commands are not kept: "
    if shutil.which("git"):
        assert notes == [
            [missing + "git is not installed"],
            [missing + "the folder is in no git repository"],
        ]
    else:
        assert notes == [[missing + "git is not installed"]] * 2


@needs_git
async def test_each_folder_without_repository_is_named(desk: Desk, tmp_path: Path) -> None:
    GitProject(desk.root)
    other = _folder(tmp_path / "other")
    checkpoints = FileCheckpoints(desk.store, [str(desk.root), str(other)])
    for turn in ("m1", "m2"):
        await checkpoints.begin(turn)
        await checkpoints.before_command()
        checkpoints.end()
    note = f"changes of commands in {other} are not kept: the folder is in no git repository"
    assert [turn.notes for turn in (await checkpoints.read()).turns] == [[note], [note]]


async def test_a_folder_that_takes_no_copies_is_told(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("a file in the place of the folder")
    await desk.begin()
    await desk.write("a", "1")
    await desk.end()
    assert desk.files() == {"a": "1"}
    assert desk.checkpoints.notes[0].startswith("files of later turns are not kept: ")


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


async def test_copies_are_bounded_forked_and_removed(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_store, "SESSION_LIMIT", 1500)
    for number in range(3):
        (desk.root / str(number)).write_text(str(number) * 1000)
        await desk.begin()
        await desk.write(str(number), "x")
        await desk.end()
    assert await desk.undo(since=1) == {"0": checkpoint_store.DROPPED, "1": checkpoint_store.DROPPED}
    fork = CheckpointStore(tmp_path / "checkpoints", "s2")
    desk.store.copy_to(fork)
    assert [turn.message_id for turn in fork.load().turns] == ["m1", "m2", "m3"]
    assert sorted(stored_sessions(tmp_path / "checkpoints")) == ["s1", "s2"]
    clean_up(tmp_path / "checkpoints", {"s1"}, 0)
    assert desk.store.load().turns == []
    clean_up(tmp_path / "checkpoints", (), 2**40)
    assert fork.load().turns == []


async def test_a_newer_format_is_neither_used_nor_changed(desk: Desk, tmp_path: Path) -> None:
    (desk.root / "a").write_text("1")
    await desk.begin()
    await desk.write("a", "2")
    await desk.end()
    [path] = (tmp_path / "checkpoints").rglob("checkpoints.json")
    path.write_text('{"version": 2, "session_id": "s1"}')
    later = FileCheckpoints(desk.store, [str(desk.root)])
    await later.begin("m9")
    await later.keep(str(desk.root / "a"))
    assert path.read_text() == '{"version": 2, "session_id": "s1"}'
    with pytest.raises(BadSettings, match="newer Accord"):
        await later.read()
