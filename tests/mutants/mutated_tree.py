"""A copy of the repository with an environment of its own, in which a mutant and its tests run.

The copy has a `.venv` whose packages are links to the real ones, except that `accord` is the copy's source.
So programs that a test starts also import the mutant, with any environment variables.
"""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

from tests.mutants.mutations import ROOT, Mutant

_COPIED = (
    "src",
    "tests",
    "docs",
    "examples",
    "benchmarks",
    "packages",
    "tools",
    "share",
    ".github",
    "web/src",
)
_LEFT_OUT = shutil.ignore_patterns("__pycache__", "node_modules", ".hypothesis")
_PR_SET_CHILD_SUBREAPER = 36


class MutatedTree:
    """The copy. `root` is its folder."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "tree"
        self.python = self.root / ".venv" / "bin" / "python"
        self._folder = folder
        self._originals: dict[str, bytes] = {}
        self._stamp = int(time.time()) - 10**6
        self._copy_files()
        self._make_environment()
        _adopt_orphans()

    def mutate(self, mutant: Mutant) -> None:
        """Write the mutant's file."""
        target = self.root / "src" / "accord" / mutant.file
        self._originals[mutant.file] = original = target.read_bytes()
        self._write(target, mutant.apply(original))

    def restore(self, mutant: Mutant) -> None:
        """Write the original file back."""
        self._write(self.root / "src" / "accord" / mutant.file, self._originals.pop(mutant.file))

    def run(self, words: list[str], limit: float) -> tuple[int | None, str]:
        """Run Python with `words`, then kill every process that is left over.

        Return the exit code and the output. The code is None after `limit` seconds.
        """
        home, scratch, output = (self._folder / name for name in ("home", "tmp", "output.txt"))
        for folder in (home, scratch):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("ACCORD_", "PYTEST", "PYTHON", "COVERAGE", "XDG_")) and name != "CI"
        }
        environment |= {"HOME": str(home), "TMPDIR": str(scratch), "PYTHONUNBUFFERED": "1", "LONG_TESTS": "1"}
        environment["REAL_STARTS"] = "1"  # lines are recorded from the start of a program
        environment["PATH"] = f"{self.python.parent}{os.pathsep}{environment.get('PATH', os.defpath)}"
        with output.open("wb") as file:
            process = subprocess.Popen(
                [str(self.python), *words],
                cwd=self.root,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            code = _wait(process, limit)
        _kill_orphans()
        return code, output.read_text("utf-8", errors="replace")

    def _write(self, target: Path, content: bytes) -> None:
        """Write with a new time stamp, because Python compares a compiled file by second and size."""
        target.write_bytes(content)
        self._stamp += 1
        os.utime(target, (self._stamp, self._stamp))

    def _copy_files(self) -> None:
        self.root.mkdir(parents=True)
        for name in _COPIED:
            shutil.copytree(ROOT / name, self.root / name, ignore=_LEFT_OUT, symlinks=True)
        for file in ROOT.iterdir():
            if file.is_file():
                shutil.copy2(file, self.root / file.name)
        modules = ROOT / "tests" / "node" / "node_modules"
        if modules.is_dir():
            (self.root / "tests" / "node" / "node_modules").symlink_to(modules)

    def _make_environment(self) -> None:
        real = Path(sys.prefix)
        packages = Path(sysconfig.get_path("purelib"))
        linked = self.root / ".venv" / packages.relative_to(real)
        linked.mkdir(parents=True)
        for entry in packages.iterdir():
            if entry.suffix != ".pth" and entry.name != "__pycache__":
                (linked / entry.name).symlink_to(entry)
        (linked / "accord_source.pth").write_text(f"{self.root / 'src'}\n", "utf-8")
        (linked / "line_recorder.pth").write_text("import accord_line_recorder\n", "utf-8")
        shutil.copy2(Path(__file__).parent / "line_recorder.py", linked / "accord_line_recorder.py")
        shutil.copy2(real / "pyvenv.cfg", self.root / ".venv" / "pyvenv.cfg")
        programs = self.root / ".venv" / "bin"
        programs.mkdir()
        for entry in (real / "bin").iterdir():
            if entry.name.startswith("python"):
                (programs / entry.name).symlink_to(entry.resolve())
            elif (head := entry.read_bytes()[:2]) == b"#!":
                text = entry.read_bytes().replace(os.fsencode(real), os.fsencode(self.root / ".venv"))
                (programs / entry.name).write_bytes(text)
                (programs / entry.name).chmod(0o755)
            elif head == b"\x7fE":
                (programs / entry.name).symlink_to(entry)


def _adopt_orphans() -> None:
    """Become the parent of processes that the tests leave behind, so that they can be killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _wait(process: subprocess.Popen[bytes], limit: float) -> int | None:
    """Wait for the process, and for orphans as they end: the tests must not see them as zombies."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        try:
            return process.wait(0.05)
        except subprocess.TimeoutExpired:
            for orphan in set(_children()) - {process.pid}:
                os.waitpid(orphan, os.WNOHANG)
    process.kill()
    process.wait()
    return None


def _kill_orphans() -> None:
    while children := _children():
        for child in children:
            try:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
            except (ProcessLookupError, ChildProcessError):
                pass


def _children() -> list[int]:
    listed = Path(f"/proc/self/task/{os.getpid()}/children")
    return [int(word) for word in listed.read_text().split()] if listed.exists() else []
