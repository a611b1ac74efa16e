"""docs/context.md, held to the code: its figures, its names, its program."""

import re
import subprocess
import sys
from pathlib import Path

from accord.coder.context import instructions, prompts, system, titles, window

PAGE = Path("docs/context.md").read_text()


def test_the_figures_are_those_of_the_code() -> None:
    limits = prompts.PromptLimits()
    for figure in (
        f"{instructions.FILE_BYTES // 1024} kB of each file and {instructions.TOTAL_CHARS // 1024} kB in all",
        f"of more than {limits.resource_chars:,} characters",
        f"up to {limits.images}, each up to {limits.image_bytes // 1024**2} MiB, {limits.images_bytes // 1024**2} MiB together",
        f"{window.ASSUMED_SIZE:,} tokens",
        f"{titles.LONGEST} characters at most",
        f"about {round(len(Path(system.__file__).with_name('system.md').read_bytes()) / 1000)} kB",
    ):
        assert figure in PAGE


def test_every_name_of_an_instruction_file_is_told_in_its_order() -> None:
    places = [PAGE.index(f"`{name}`") for name in instructions.NAMES]
    assert places == sorted(places)


def test_the_program_runs(tmp_path: Path) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    path = tmp_path / "program.py"
    path.write_text(program)
    ran = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=True)
    assert ran.stdout == "True\nshortened True\n"
