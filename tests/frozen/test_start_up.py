"""What `accord agent` has loaded when it answers `initialize`: few own modules, no heavy library."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.frozen.commands import SECONDS, environment

BOUNDS = {
    "anthropic:claude": (50, 11_020),
    "rehearsal": (50, 11_020),
}
"""By model: at most this many modules of ours, with at most this many lines in total.

A bound may grow only in a commit that says why. Lower it when the number falls.
"""

HEAVY = frozenset(
    (
        "anthropic",
        "google",
        "httpx",
        "httpx2",
        "mcp",
        "openai",
        "platformdirs",
        "pydantic",
        "pydantic_ai",
        "rignore",
        "sqlite3",
        "ssl",
        "starlette",
        "textual",
        "tree_sitter",
        "typing_extensions",
        "uvicorn",
        "websockets",
    )
)
"""Packages that cost too much to be loaded this early."""

# The real command in a process of its own. The hook sees the bytes of the response on their way to stdout: at
# this moment, and not a little later, when the agent loads more in the background.
WATCHED = """
import json, os, sys

write = os.write

def watched(descriptor, data):
    if b'"protocolVersion"' in bytes(data):
        files = {name: getattr(module, "__file__", None) for name, module in list(sys.modules.items())}
        with open(sys.argv.pop(), "w") as file:
            json.dump(files, file)
    return write(descriptor, data)

os.write = watched
from accord.cli import main
sys.exit(main(["agent"]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="the hook sees the bytes on a POSIX pipe")
@pytest.mark.parametrize("model", BOUNDS)
def test_few_modules_are_loaded_before_initialize_is_answered(tmp_path: Path, model: str) -> None:
    found = tmp_path / "modules.json"
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
    run = subprocess.run(
        [sys.executable, "-c", WATCHED, str(found)],
        input=json.dumps(message).encode() + b"\n",
        capture_output=True,
        env=environment(tmp_path / "home", ANTHROPIC_API_KEY="none", ACCORD_MODEL=model),
        cwd=tmp_path,
        timeout=SECONDS,
        check=True,
    )
    assert b'"agentCapabilities"' in run.stdout
    files: dict[str, str | None] = json.loads(found.read_text())
    assert {name.partition(".")[0] for name in files} & HEAVY == set()
    assert model == "rehearsal" or "inspect" not in files

    own = {name: file for name, file in files.items() if name.partition(".")[0] == "accord" and file}
    lines = {name: len(Path(file).read_bytes().splitlines()) for name, file in own.items()}
    listed = "\n".join(f"{count:6} {name}" for name, count in sorted(lines.items()))
    most_modules, most_lines = BOUNDS[model]
    sums = (
        f"{len(lines)} modules (at most {most_modules}), {sum(lines.values())} lines (at most {most_lines})"
    )
    assert len(lines) <= most_modules, f"{sums}\n{listed}"
    assert sum(lines.values()) <= most_lines, f"{sums}\n{listed}"
