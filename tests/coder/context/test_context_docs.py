"""Checks the figures, names and program in docs/context.md against the code."""

import re
import subprocess
import sys
from pathlib import Path

from accord.coder.context import instructions, prompts, system, titles, window

PAGE = Path("docs/context.md").read_text()


def test_documented_figures_match_the_code() -> None:
    limits = prompts.PromptLimits()
    for figure in (
        f"{instructions.FILE_BYTES // 1024} kB of each file and {instructions.TOTAL_CHARS // 1024} kB in all",
        f"of more than {limits.resource_chars:,} characters",
        f"up to {limits.images}, each up to {limits.image_bytes // 1024**2} MiB, "
        f"{limits.images_bytes // 1024**2} MiB together",
        f"{window.ASSUMED_SIZE:,} tokens",
        f"{titles.LONGEST} characters at most",
        f"about {round(len(Path(system.__file__).with_name('system.md').read_bytes()) / 1000)} kB",
    ):
        assert figure in PAGE


def test_instruction_file_names_are_documented_in_order() -> None:
    places = [PAGE.index(f"`{name}`") for name in instructions.NAMES]
    assert places == sorted(places)


def test_documented_program_runs(tmp_path: Path) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    path = tmp_path / "program.py"
    path.write_text(program)
    ran = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=True)
    assert ran.stdout == "True\nshortened True\n"
