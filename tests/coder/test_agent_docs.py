"""Checks docs/agent.md against the code: editor settings, config, options and file locations."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.cli.process import environment

from accord.cli.agent import MODES, _parser
from accord.coder.config import KEYS, load
from accord.coder.models.credentials import credentials_file
from accord.coder.permissions.settings import from_mapping
from accord.paths import config_dir, data_dir
from accord.policy.audit import Audit
from accord.policy.trust import Trust
from accord.store import store_path

PAGE = (Path(__file__).parents[2] / "docs" / "agent.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_documented_editor_settings_start_the_agent() -> None:
    for text in blocks("json"):
        (servers,) = json.loads(text).values()
        (entry,) = servers.values()
        assert entry["args"] == ["agent"]
        assert Path(entry["command"]).name == "accord"
    for language in ("lua", "elisp"):
        assert all('"accord"' in text and '"agent"' in text for text in blocks(language))


def test_documented_config_is_accepted(tmp_path: Path) -> None:
    (text,) = blocks("toml")
    (tmp_path / "config.toml").write_text(text)
    config = load(tmp_path)
    assert set(tomllib.loads(text)) <= set(KEYS)
    assert from_mapping(config.mapping, "config.toml").mode == "workspace-write"


def test_documented_options_match_the_parser() -> None:
    described = set(re.findall(r"^\| `(--[a-z]+)", PAGE, re.MULTILINE))
    options = {
        name for action in _parser()._actions for name in action.option_strings if name.startswith("--")
    }
    assert described == options - {"--help"}


def test_every_mode_is_documented() -> None:
    table = PAGE.partition("## What it may do")[2].partition("\n\n")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `([a-z-]+)`", table, re.MULTILINE)) == set(MODES)


def test_documented_file_locations_match_the_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ACCORD_HOME", str(tmp_path))
    for path in (credentials_file(), config_dir() / "config.toml"):
        assert path.parent == config_dir()
        assert path.name in PAGE
    for path in (store_path(), Audit().path, Trust().folder):
        assert path.parent == data_dir()
        assert f"~/.local/share/accord/{path.name}" in PAGE


def test_documented_python_example_runs(tmp_path: Path) -> None:
    (code,) = blocks("python")
    (tmp_path / "README.md").write_text("# A project to look at\n")
    (tmp_path / "try.py").write_text(code)
    folder = tmp_path / "bin"
    folder.mkdir()
    accord = folder / "accord"
    accord.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m accord.cli "$@"\n')
    accord.chmod(0o755)
    env = environment(tmp_path / "home", PATH=f"{folder}{os.pathsep}{os.environ['PATH']}")
    run = subprocess.run(
        [sys.executable, "try.py"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert "A project to look at" in run.stdout
    assert "no AI" in run.stdout
