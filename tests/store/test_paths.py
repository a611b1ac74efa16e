"""Where Accord keeps the user's files, and with which access rights."""

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from accord.errors import UsageError
from accord.paths import config_dir, data_dir
from accord.private_files import private_file, private_folder
from accord.store import store_path


def test_accord_home_sets_the_config_and_data_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACCORD_HOME", str(tmp_path))
    assert (config_dir(), data_dir()) == (tmp_path / "config", tmp_path / "data")
    assert store_path() == tmp_path / "data" / "sessions.db"
    assert store_path("recorded") == tmp_path / "data" / "recorded.db"
    with pytest.raises(UsageError):
        store_path("../elsewhere")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ACCORD_HOME", "~/mine")
    assert data_dir() == tmp_path / "mine" / "data"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ACCORD_HOME", "here")
    assert data_dir() == tmp_path / "here" / "data"


def test_without_accord_home_the_platform_folders_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACCORD_HOME", "")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "conf"))
    if sys.platform == "linux":
        assert (config_dir(), data_dir()) == (tmp_path / "conf" / "accord", tmp_path / "share" / "accord")
    assert not data_dir().exists(), "data_dir() must not create the folder"


def test_private_files_and_folders_are_for_the_owner_only(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True, mode=0o755)
    assert stat.S_IMODE(private_folder(folder).stat().st_mode) == 0o700
    file = folder / "f"
    file.write_text("kept")
    file.chmod(0o644)
    assert stat.S_IMODE(private_file(file).stat().st_mode) == 0o600
    assert file.read_text() == "kept"
    assert stat.S_IMODE(private_file(folder / "g").stat().st_mode) == 0o600


def test_importing_the_store_loads_neither_sqlite_nor_platformdirs() -> None:
    code = "import sys, accord.store; print(*{'sqlite3', 'platformdirs'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == ""
