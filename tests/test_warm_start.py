"""Programs that tests start from a process with all modules loaded, compared with programs started anew."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests import warm_start
from tests.patience import PATIENCE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere programs start anew")
PROGRAM = """
import atexit, json, os, signal, sys, threading
atexit.register(print, "the end")
if sys.argv[1] == "show":
    leads = os.getsid(0) == os.getpid()
    print(json.dumps([sys.argv[1:], os.getcwd(), os.getppid(), leads, dict(os.environ), __name__]))
    print(sorted(os.listdir("/proc/self/fd"))[:3], sys.stdin.read(), file=sys.stderr)
elif sys.argv[1] == "thread":
    threading.Thread(target=lambda: print("from a thread")).start()
elif sys.argv[1] == "interrupt":
    os.kill(os.getpid(), signal.SIGINT)
elif sys.argv[1] == "fail":
    raise ValueError("failed")
else:
    sys.exit(sys.argv[1] if sys.argv[1] == "text" else int(sys.argv[1]))
"""


@pytest.fixture(params=["warm", "anew"])
def way(request: pytest.FixtureRequest) -> Any:
    return warm_start.real_starts() if request.param == "anew" else warm_start.warm_starts()


def start(way: Any, program: Path, *words: str, **more: Any) -> "subprocess.CompletedProcess[str]":
    with way:
        return subprocess.run(
            [sys.executable, str(program), *words],
            capture_output=True, text=True, check=False, timeout=PATIENCE, **more,
        )  # fmt: skip


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


@pytest.mark.parametrize(
    ("word", "code", "out", "err"),
    [
        ("0", 0, "the end\n", ""),
        ("7", 7, "the end\n", ""),
        ("text", 1, "the end\n", "text\n"),
        ("fail", 1, "the end\n", "ValueError: failed\n"),
        ("thread", 0, "from a thread\nthe end\n", ""),
        ("interrupt", -signal.SIGINT, "the end\n", "KeyboardInterrupt\n"),
    ],
)
def test_a_program_ends_as_if_started_anew(
    way: Any, program: Path, word: str, code: int, out: str, err: str
) -> None:
    done = start(way, program, word)
    assert (done.returncode, done.stdout) == (code, out)
    assert done.stderr.endswith(err)
    assert bool(done.stderr) == bool(err)


def test_a_program_has_its_words_folder_environment_and_parent(
    way: Any, program: Path, tmp_path: Path
) -> None:
    env = {"ONLY": "this é"}
    done = start(way, program, "show", "ä b", cwd=tmp_path, env=env, input="typed", start_new_session=True)
    assert done.returncode == 0, done.stderr
    words, folder, parent, leads, variables, name = json.loads(done.stdout.splitlines()[0])
    assert (words, folder, name) == (["show", "ä b"], str(tmp_path), "__main__")
    assert (parent, leads) == (os.getpid(), True)
    variables.pop("LC_CTYPE", None)  # Python sets it where no locale is set
    assert variables == env
    assert done.stderr.strip() == "['0', '1', '2'] typed"


def test_a_missing_folder_is_the_usual_error(way: Any, program: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        start(way, program, "0", cwd=tmp_path / "missing")
