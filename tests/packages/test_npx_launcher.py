"""The launcher for npx finds uvx, pipx or Python, and passes stdio, signals and the exit code through."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.patience import PATIENCE
from tests.requirements import need_node

import accord

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "packages" / "npx"
VERSION = accord.__version__
SPEC = f"accord-agent=={VERSION}"

# Plays uvx, pipx and Python: says on stderr how it was started, echoes stdin, and ends as its last word says.
TOOL = f"""#!{sys.executable}
import os, pathlib, shutil, signal, sys
name, *words = pathlib.Path(sys.argv[0]).name, *sys.argv[1:]
if words[:1] == ["-c"]:
    sys.exit(name == "python3")  # is too old
if words[:2] == ["-m", "venv"]:
    folder = pathlib.Path(words[2], "bin")
    folder.mkdir(parents=True)
    shutil.copy(sys.argv[0], folder / "python")
    sys.exit(0)
print(name, *words, os.environ.get("PYTHONPATH"), os.environ.get("PYTHONHOME"), file=sys.stderr)
if words[1:2] == ["pip"]:
    print("on stdout of pip")
    sys.exit("no-pip" in os.environ)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))
print("ready", flush=True)
sys.stdout.write(sys.stdin.read())
sys.stdout.flush()
if words[-1] == "die":
    os.kill(os.getpid(), signal.SIGKILL)
sys.exit(7)
"""


@pytest.fixture
def bin_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    return folder


def add(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).write_text(TOOL)
        (folder / name).chmod(0o755)


def start(bin_folder: Path, *words: str, **env: str) -> subprocess.Popen[str]:
    """Start the launcher with only this folder on PATH, and an empty home."""
    home = str(bin_folder.parent / "home")
    return subprocess.Popen(
        [need_node(), str(FOLDER / "accord-agent.js"), *words],
        env={"PATH": str(bin_folder), "HOME": home, "PYTHONPATH": "/x", "PYTHONHOME": "/x", **env},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def launch(bin_folder: Path, *words: str, **env: str) -> tuple[int, str, list[str]]:
    """Return the exit code, stdout, and the lines of stderr."""
    with start(bin_folder, *words, **env) as process:
        stdout, stderr = process.communicate("hello\n", timeout=PATIENCE)
    return process.returncode, stdout, stderr.splitlines()


def test_uvx_is_preferred_and_everything_passes_through(bin_folder: Path) -> None:
    add(bin_folder, "uvx", "pipx", "python3.12")
    found = launch(bin_folder, "--mode", "a b")
    assert found == (7, "ready\nhello\n", [f"uvx {SPEC} --mode a b None None"])
    assert launch(bin_folder, "die")[0] == -signal.SIGKILL


def test_pipx_in_the_home_folder_is_found_without_path(bin_folder: Path) -> None:
    local = bin_folder.parent / "home" / ".local" / "bin"
    local.mkdir(parents=True)
    add(local, "pipx")
    code, stdout, stderr = launch(bin_folder)
    assert (code, stdout) == (7, "ready\nhello\n")
    assert stderr == [f"pipx run --spec {SPEC} accord-agent None None"]


def test_python_gets_an_environment_once(bin_folder: Path) -> None:
    add(bin_folder, "python3", "python3.12")
    cache = bin_folder.parent / "cache"
    folder = cache / "accord-agent" / VERSION
    pip = f"python -m pip install --quiet --disable-pip-version-check {SPEC} None None"
    code, stdout, stderr = launch(bin_folder, XDG_CACHE_HOME=str(cache), **{"no-pip": "1"})
    assert (code, stdout, stderr[1:3]) == (1, "", [pip, "on stdout of pip"])
    assert stderr[3].startswith(f"accord-agent: could not install accord-agent {VERSION} with ")
    code, stdout, stderr = launch(bin_folder, XDG_CACHE_HOME=str(cache))
    assert (code, stdout) == (7, "ready\nhello\n")
    assert stderr == [
        f"accord-agent: installing version {VERSION} in {folder}",
        pip,
        "on stdout of pip",
        "python -m accord agent None None",
    ]
    assert launch(bin_folder, "--strict", XDG_CACHE_HOME=str(cache)) == (
        7,
        "ready\nhello\n",
        ["python -m accord agent --strict None None"],
    )
    assert [entry.name for entry in folder.parent.iterdir()] == [VERSION], "no draft is left"


def test_without_any_program_one_line_says_what_to_install(bin_folder: Path) -> None:
    add(bin_folder, "python3")
    line = "accord-agent: needs uv, pipx or Python 3.11 or newer; install uv and start again"
    assert launch(bin_folder) == (127, "", [line])


def test_warm_downloads_without_output_on_stdout(bin_folder: Path) -> None:
    add(bin_folder, "uvx")
    assert launch(bin_folder, "--warm") == (7, "", [f"uvx {SPEC} --help None None"])


def test_a_signal_reaches_the_agent_which_decides_the_exit_code(bin_folder: Path) -> None:
    add(bin_folder, "uvx")
    with start(bin_folder) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        assert process.wait(PATIENCE) == 9


def test_npx_starts_the_packed_launcher(bin_folder: Path) -> None:
    need_node()
    npm, npx = shutil.which("npm"), shutil.which("npx")
    if npm is None or npx is None:
        pytest.skip("npm and npx are needed")
    add(bin_folder, "uvx")
    env = {**os.environ, "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}"}
    env |= {"npm_config_cache": str(bin_folder.parent / "npm"), "npm_config_offline": "true"}
    packed = subprocess.run(
        [npm, "pack", "--json", str(FOLDER)],
        cwd=bin_folder,
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    (described,) = json.loads(packed.stdout)
    files = {file["path"] for file in described["files"]}
    assert files == {"LICENSE", "README.md", "accord-agent.js", "package.json"}
    tarball = bin_folder / described["filename"]
    done = subprocess.run(
        [npx, "--yes", f"file:{tarball}", "--strict"],
        env=env,
        input="hello\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (7, "ready\nhello\n"), done.stderr
    assert f"uvx {SPEC} --strict" in done.stderr


def test_the_package_has_the_version_and_no_dependencies() -> None:
    package = json.loads((FOLDER / "package.json").read_text())
    assert package["version"] == VERSION
    assert not [key for key in package if "ependencies" in key or key == "scripts"]
    assert (FOLDER / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
