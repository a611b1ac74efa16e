"""The atomic writer and the file lock."""

import os
import resource
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from accord.private_files import is_owned, locked, open_log, try_lock, wait_for_lock, write_atomically

HOLDER = """
import sys
from accord.private_files import try_lock
print(try_lock(sys.argv[1], create=True), flush=True)
sys.stdin.read()
"""


@contextmanager
def held(path: Path) -> Generator["subprocess.Popen[str]"]:
    """Another process holds the lock."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip().isdigit()
        try:
            yield process
        finally:
            process.kill()


def test_a_lock_ends_with_its_process_even_if_it_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with held(path) as process:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert try_lock(path) is None
        assert is_owned(path)
        with pytest.raises(TimeoutError, match="another program keeps"):
            wait_for_lock(path, seconds=0)
        process.send_signal(signal.SIGKILL)
        process.wait()
        with locked(path) as descriptor:
            assert os.path.samestat(os.fstat(descriptor), path.stat())
    assert not is_owned(path)
    assert not path.exists(), "the file of a dead owner is removed"
    assert not is_owned(path)


def test_a_lock_of_a_missing_file_is_refused_unless_it_may_be_created(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        try_lock(tmp_path / "missing")


def test_a_folder_can_be_locked(tmp_path: Path) -> None:
    with held(tmp_path):
        assert try_lock(tmp_path) is None
    lock = wait_for_lock(tmp_path)
    os.close(lock)


def test_a_new_file_is_private_and_replaces_a_link_instead_of_its_target(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("kept")
    path = tmp_path / "file"
    path.symlink_to("target")
    write_atomically(path, b"new")
    assert not path.is_symlink()
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (tmp_path / "target").read_text() == "kept"


def test_the_mode_of_the_old_file_is_kept_without_set_id_bits(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o4751)
    write_atomically(path, b"new", like=path.stat())
    assert stat.S_IMODE(path.stat().st_mode) == 0o751


def full_disk(path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        write_atomically(path, b"x" * 100)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def stopped(path: Path) -> None:
    @contextmanager
    def stop() -> Generator[None]:
        raise OSError("stopped before the rename")
        yield

    write_atomically(path, b"new", last_step=stop)


@pytest.mark.parametrize("write", [full_disk, stopped])
def test_a_failed_write_leaves_only_the_old_file(tmp_path: Path, write: Callable[[Path], None]) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(OSError, match=r"File too large|stopped"):
        write(path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_log_is_made_private_and_a_link_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("first\n")
    path.chmod(0o644)
    descriptor = open_log(path)
    os.write(descriptor, b"second\n")
    os.close(descriptor)
    assert path.read_text() == "first\nsecond\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(OSError, match="symbolic links"):
        open_log(tmp_path / "link")
