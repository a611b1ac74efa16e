"""`accord run` works on the core install: msgspec and platformdirs, no extra."""

import subprocess
import venv
from importlib import import_module
from pathlib import Path

from tests.frozen.commands import SECONDS, environment


def test_run_works_without_any_extra(tmp_path: Path) -> None:
    venv.create(tmp_path / "env", symlinks=True, with_pip=False)
    (packages,) = (tmp_path / "env").glob("lib/python*/site-packages")
    for name in ("accord", "msgspec", "platformdirs"):
        file = import_module(name).__file__
        assert file is not None
        (packages / name).symlink_to(Path(file).parent)
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text("x\n")
    run = subprocess.run(
        [str(tmp_path / "env" / "bin" / "python"), "-m", "accord", "run", "hello"],
        capture_output=True,
        text=True,
        env=environment(tmp_path / "home", ACCORD_MODEL="rehearsal", FORCE_COLOR="1"),
        cwd=folder,
        timeout=SECONDS,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "\x1b[36mrehearsal\x1b[0m" in run.stdout  # its Markdown was rendered
    assert "a.txt" in run.stdout
