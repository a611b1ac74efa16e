"""Provider keys: where they are found, how they are stored, and what is refused."""

import os
import stat
from pathlib import Path

import pytest
from tests.coder.models.harness import KEY

from accord.coder.models import ModelRegistry
from accord.coder.models.credentials import (
    CredentialsError,
    Secret,
    credentials_file,
    find_key,
    read_keys,
    remove_key,
    save_key,
)


def test_saved_key_is_found_and_the_file_is_private(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "credentials.json"
    save_key("openai", f" {KEY}\n", file)
    save_key("anthropic", "sk-2", file)
    assert find_key("openai", {}, file) == Secret(KEY)
    assert find_key("anthropic", {}, file) == Secret("sk-2")
    assert find_key("google", {}, file) is None
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert os.listdir(file.parent) == ["credentials.json"]


def test_removing_one_key_or_all(tmp_path: Path) -> None:
    file = tmp_path / "credentials.json"
    save_key("openai", "a", file)
    save_key("google", "b", file)
    assert remove_key("openai", file) == ["openai"]
    assert list(read_keys(file)) == ["google"]
    assert remove_key("openai", file) == []
    assert remove_key(None, file) == ["google"]
    assert not file.exists()
    assert remove_key(None, file) == []


def test_environment_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "credentials.json"
    save_key("google", "from-file", file)
    save_key("my-server", "from-file", file)
    assert find_key("google", {"GEMINI_API_KEY": "g"}, file) == Secret("g")
    assert find_key("google", {"GEMINI_API_KEY": "g", "GOOGLE_API_KEY": "first"}, file) == Secret("first")
    assert find_key("google", {"GOOGLE_API_KEY": "  "}, file) == Secret("from-file")
    assert find_key("my-server", {"MY_SERVER_API_KEY": "e"}, file) == Secret("e")


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o660, 0o604])
def test_file_readable_by_others_is_refused(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "credentials.json"
    save_key("openai", KEY, file)
    file.chmod(mode)
    with pytest.raises(CredentialsError, match=rf"mode {mode:04o}.*chmod 600") as caught:
        find_key("openai", {}, file)
    assert KEY not in str(caught.value)
    with pytest.raises(CredentialsError):
        save_key("google", "x", file)


def test_broken_credentials_file_is_named_but_not_quoted(tmp_path: Path) -> None:
    file = tmp_path / "credentials.json"
    for content in (f'{{"keys": "{KEY}"}}', KEY, f'{{"openai": "{KEY}"}}', ""):
        file.write_text(content)
        file.chmod(0o600)
        with pytest.raises(CredentialsError, match=r"credentials\.json: not of the form") as caught:
            read_keys(file)
        assert KEY not in str(caught.value)


def test_credentials_that_are_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="cannot read "):
        read_keys(tmp_path)


@pytest.mark.parametrize("key", ["", "  ", "two words", "sk-\u201cquoted\u201d"])
def test_invalid_key_is_not_saved(tmp_path: Path, key: str) -> None:
    with pytest.raises(CredentialsError, match="openai"):
        save_key("openai", key, tmp_path / "credentials.json")
    assert not (tmp_path / "credentials.json").exists()


def test_credentials_file_is_in_the_config_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCORD_HOME", str(tmp_path))
    save_key("openai", KEY)
    assert credentials_file() == tmp_path / "config" / "credentials.json"
    assert ModelRegistry(environment={}).choose().source == "credentials"
