"""Checks docs/models.md against the code: its config, its program and its rehearsal instructions."""

import re
from pathlib import Path
from typing import Any

import pytest

from accord.coder.models.config import ModelFacts, load
from accord.coder.models.rehearsal.imperatives import steps_of

PAGE = Path("docs/models.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_documented_config_is_read(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(blocks("toml")[0])
    config = load(tmp_path)
    assert config.model == "work:qwen3-coder"
    assert config.models["work:qwen3-coder"] == ModelFacts(262144, 32768, False, 0.3, 1.2, 0.03)


def test_documented_rehearsal_instructions_run_the_named_tools() -> None:
    table = PAGE[PAGE.index("| say |") : PAGE.index("Join several")]
    rows = [row.strip("| ").split(" | ") for row in table.strip().splitlines()[2:]]
    assert len(rows) == 12
    for commands, tool in rows:
        for command in re.findall(r"`([^`]+)`", commands):
            ((step,),) = steps_of(command)
            assert (step.tool or "a thought") == tool.strip("`")


async def test_documented_program_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY", "ACCORD_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ACCORD_HOME", str(tmp_path))
    scope: dict[str, Any] = {}
    exec(blocks("python")[0], scope)
    await scope["main"]()
    said = capsys.readouterr().out
    assert "no AI" in said
    assert said.endswith("[end_turn]\n")
