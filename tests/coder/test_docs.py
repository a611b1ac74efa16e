"""Checks docs/agent.md, docs/context.md and docs/models.md against the code."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.cli.agent_process import environment

from accord.cli.agent_arguments import _parser
from accord.coder.context import compaction, system_prompt, user_prompt
from accord.coder.models.credentials import credentials_file
from accord.coder.models.rehearsal_model import parse_steps
from accord.coder.permissions.permission_settings import permission_settings
from accord.coder.user_config import KEYS, ModelFacts, load_config, load_models_config
from accord.paths import config_dir, data_dir
from accord.policy import MODES
from accord.policy.audit_log import DecisionLog
from accord.policy.trust_store import TrustStore
from accord.store import store_path

DOCS = Path(__file__).parents[2] / "docs"
AGENT_PAGE = (DOCS / "agent.md").read_text()
CONTEXT_PAGE = (DOCS / "context.md").read_text()
MODELS_PAGE = (DOCS / "models.md").read_text()


def blocks(page: str, language: str) -> list[str]:
    """Return the code blocks of a page."""
    return re.findall(rf"```{language}\b[^\n]*\n(.*?)```", page, re.DOTALL)


# -- agent.md ------------------------------------------------------------------------------------------------


def test_documented_editor_settings_start_the_agent() -> None:
    for text in blocks(AGENT_PAGE, "json"):
        if "command" not in text:
            continue  # a message
        (servers,) = json.loads(text).values()
        (entry,) = servers.values()
        assert entry["args"] == ["agent"]
        assert Path(entry["command"]).name == "accord"
    for language in ("lua", "elisp"):
        assert all('"accord"' in text and '"agent"' in text for text in blocks(AGENT_PAGE, language))


def test_documented_agent_config_is_accepted(tmp_path: Path) -> None:
    (text,) = blocks(AGENT_PAGE, "toml")
    (tmp_path / "config.toml").write_text(text)
    config = load_config(tmp_path)
    assert set(tomllib.loads(text)) <= set(KEYS)
    assert permission_settings(config.mapping, "config.toml").mode == "workspace-write"


def test_documented_options_match_the_parser() -> None:
    described = set(re.findall(r"^\| `(--[a-z-]+)", AGENT_PAGE, re.MULTILINE))
    options = {
        name for action in _parser()._actions for name in action.option_strings if name.startswith("--")
    }
    assert described == options - {"--help"}


def test_every_mode_is_documented() -> None:
    table = AGENT_PAGE.partition("## What it may do")[2].partition("\n\n")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `([a-z-]+)`", table, re.MULTILINE)) == set(MODES)


def test_documented_file_locations_match_the_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ACCORD_HOME", str(tmp_path))
    for path in (credentials_file(), config_dir() / "config.toml"):
        assert path.parent == config_dir()
        assert path.name in AGENT_PAGE
    for path in (store_path(), DecisionLog().path, TrustStore().folder):
        assert path.parent == data_dir()
        assert f"~/.local/share/accord/{path.name}" in AGENT_PAGE


def test_documented_agent_example_runs(tmp_path: Path) -> None:
    (code,) = blocks(AGENT_PAGE, "python")
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


# -- context.md ----------------------------------------------------------------------------------------------


def test_documented_context_limits_match_the_code() -> None:
    limits = user_prompt.PromptLimits()
    prompt_size = Path(system_prompt.__file__).with_name("system_prompt.md").stat().st_size
    for figure in (
        f"{system_prompt.FILE_BYTES // 1024} kB of each file and "
        f"{system_prompt.TOTAL_CHARS // 1024} kB in all",
        f"of more than {limits.resource_chars:,} characters",
        f"up to {limits.images}, {limits.images_bytes // 1024**2} MiB together",
        f"a file of more than {limits.image_bytes / 1024**2} MiB",
        f"{compaction.ASSUMED_SIZE:,} tokens",
        f"{user_prompt.TITLE_LIMIT} characters at most",
        f"about {round(prompt_size / 1000)} kB",
    ):
        assert figure in CONTEXT_PAGE


def test_instruction_file_names_are_documented_in_order() -> None:
    places = [CONTEXT_PAGE.index(f"`{name}`") for name in system_prompt.INSTRUCTION_FILES]
    assert places == sorted(places)


def test_documented_compaction_program_runs(tmp_path: Path) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", CONTEXT_PAGE, re.DOTALL)
    path = tmp_path / "program.py"
    path.write_text(program)
    ran = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=True)
    assert ran.stdout == "True\nshortened True\n"


# -- models.md -----------------------------------------------------------------------------------------------


def test_documented_model_config_is_read(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(blocks(MODELS_PAGE, "toml")[0])
    config = load_models_config(tmp_path)
    assert config.model == "work:qwen3-coder"
    assert config.models["work:qwen3-coder"] == ModelFacts(262144, 32768, False, 0.3, 1.2, 0.03)


def test_documented_rehearsal_instructions_run_the_named_tools() -> None:
    table = MODELS_PAGE[MODELS_PAGE.index("| say |") : MODELS_PAGE.index("Join several")]
    rows = [row.strip("| ").split(" | ") for row in table.strip().splitlines()[2:]]
    assert len(rows) == 13
    for commands, tool in rows:
        for command in re.findall(r"`([^`]+)`", commands):
            ((step,),) = parse_steps(command)
            without_tool = "an answer" if "answer" in step.arguments else "a thought"
            assert (step.tool or without_tool) == tool.strip("`")


async def test_documented_model_program_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY", "ACCORD_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ACCORD_HOME", str(tmp_path))
    scope: dict[str, Any] = {}
    exec(blocks(MODELS_PAGE, "python")[0], scope)
    await scope["main"]()
    output = capsys.readouterr().out
    assert "no AI" in output
    assert output.endswith("[end_turn]\n")
