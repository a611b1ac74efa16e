"""The client guide: its first program runs, and every name it uses exists."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import accord

GUIDE = Path(__file__).parents[2] / "docs" / "client.md"
SCRIPTED = Path(__file__).parent / "agents" / "scripted.py"
BLOCKS = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)


def test_the_first_program_of_the_client_guide_runs(tmp_path):
    agent = tmp_path / "accord"
    agent.write_text(f"#!/bin/sh\nexec {sys.executable} {SCRIPTED}\n")
    agent.chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    ran = subprocess.run(
        [sys.executable, "-c", BLOCKS[0]], env=env, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.stderr == ""
    assert ran.stdout == "heard read app.py; done\n-- end_turn\n"


def test_every_python_block_of_the_client_guide_parses_and_uses_existing_names():
    for block in BLOCKS:
        wrapped = "async def _():\n" + "\n".join(f"    {line}" for line in block.splitlines())
        for node in ast.walk(ast.parse(wrapped)):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == "accord"
            ):
                assert hasattr(accord, node.attr), node.attr
    for name in re.findall(r"`(?:accord\.)?([a-z_]+|[A-Z]\w+)\(", GUIDE.read_text()):
        known = (accord, accord.RemoteAgent, accord.ClientSession)
        assert any(hasattr(owner, name) for owner in known) or name in ("restart", "memory_pair"), name
