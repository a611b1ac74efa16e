"""Common tools work inside a sandbox."""

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from tests.policy.sandbox.sandbox_harness import PYTHON, SandboxHarness, refused


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed here, so it cannot be tried in a sandbox")
    return found


def rust_toolchains() -> Path:
    """The folder of the Rust toolchains. It belongs to the user, also if HOME is another folder."""
    homes = (Path.home(), Path(pwd.getpwuid(os.getuid()).pw_dir))
    named = [Path(os.environ["RUSTUP_HOME"])] if "RUSTUP_HOME" in os.environ else []
    folders = [*named, *(home / ".rustup" for home in homes)]
    return next((folder for folder in folders if (folder / "toolchains").is_dir()), folders[0])


def test_git_works(harness: SandboxHarness):
    tool("git")
    (harness.home / ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.org\n")
    done = harness.shell(
        "git init -q . && git add main.py && git commit -q -m first "
        "&& git log --format='%an %s' && git status -s"
    )
    assert (done.code, done.out, done.err.replace("hint", "")[:0]) == (0, "Ada first\n", "")
    done = harness.shell(
        "git checkout -q -b other && echo x > x && git add x "
        "&& git stash -q && git stash pop -q && git commit -qm x"
    )
    assert (done.code, done.err) == (0, "")


def test_python_creates_temporary_files_and_processes(harness: SandboxHarness):
    code = (
        "import subprocess, sys, tempfile, concurrent.futures, asyncio\n"
        "with tempfile.NamedTemporaryFile('w') as file: file.write('x')\n"
        "async def main(): await (await asyncio.create_subprocess_exec('true')).wait()\n"
        "asyncio.run(main())\n"
        "print(subprocess.check_output([sys.executable, '-c', 'print(1)']))"
    )
    done = harness.run(PYTHON, "-c", code)
    assert (done.code, done.out, done.err) == (0, "b'1\\n'\n", "")


def test_shared_semaphores_work(mounted: SandboxHarness):
    done = mounted.run(PYTHON, "-c", "import multiprocessing; multiprocessing.Lock(); print('ok')")
    assert (done.out, done.err) == ("ok\n", "")


def test_pytest_works(harness: SandboxHarness):
    (harness.project / "test_it.py").write_text(
        "def test_it(tmp_path):\n    (tmp_path / 'x').write_text('x')\n"
    )
    env = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = harness.run(sys.executable, "-m", "pytest", "-q", "test_it.py", env=env)
    assert "1 passed" in done.out, done.all


def test_node_and_npm_work(harness: SandboxHarness):
    tool("node")
    harness.env["PATH"] = os.environ["PATH"]
    done = harness.run(
        "node",
        "-e",
        "require('child_process').execFile('echo', ['hi'], (e, out) => console.log(e, out.trim()))",
    )
    assert (done.code, done.out) == (0, "null hi\n"), done.err
    tool("npm")
    (harness.project / "package.json").write_text(
        '{"name": "x", "version": "1.0.0", "scripts": {"test": "echo tested"}}'
    )
    done = harness.run("npm", "test")
    assert done.code == 0, done.all
    assert "tested" in done.out


def test_cargo_works(harness: SandboxHarness, tmp_path: Path):
    cargo = tool("cargo")
    toolchains = rust_toolchains()
    harness.env["PATH"] = os.environ["PATH"]
    harness.env["RUSTUP_HOME"] = str(toolchains)
    line = (
        "cargo init -q --name demo --vcs none demo && cd demo "
        "&& cargo build -q --offline && ls target/debug/demo"
    )
    outside = subprocess.run(
        ["sh", "-c", line], cwd=tmp_path, env=harness.env, capture_output=True, text=True, check=False
    )
    if outside.returncode:
        pytest.skip(f"cargo does not work here even without a sandbox: {outside.stderr.strip()}")
    harness.options["readable"] = [path for path in (toolchains, Path(cargo).parent) if path.exists()]
    done = harness.shell(line)
    assert done.code == 0, done.all


def test_pip_keeps_its_cache_in_the_private_home(harness: SandboxHarness):
    done = harness.run(PYTHON, "-m", "pip", "cache", "dir", env={"PIP_DISABLE_PIP_VERSION_CHECK": "1"})
    assert done.code == 0, done.all
    assert done.out.strip().startswith(harness.sandbox.home)


def test_temporary_files_are_kept_for_the_next_command(harness: SandboxHarness):
    assert harness.shell("echo kept > $TMPDIR/note; echo cached > ~/cache").code == 0
    assert harness.shell("cat $TMPDIR/note ~/cache").out == "kept\ncached\n"
    assert Path(harness.sandbox.outside_path(f"{harness.sandbox.temp}/note")).read_text() == "kept\n"
    assert Path(harness.sandbox.outside_path(f"{harness.sandbox.home}/cache")).read_text() == "cached\n"
    assert harness.sandbox.outside_path(harness.project / "main.py") == str(harness.project / "main.py")
    assert harness.untouched()


def test_the_temporary_folder_is_private(mounted: SandboxHarness):
    output = mounted.shell("echo x > /tmp/x && echo x > /var/tmp/y && ls /tmp").out
    shown = {
        path.parts[2] for path in (mounted.base, Path(sys.prefix), Path(__file__)) if path.parts[1] == "tmp"
    }
    assert {*output.split()} - shown == {"x", "y"}
    assert not Path("/var/tmp/y").exists()


def test_tools_in_the_home_folder_are_found_read_only(harness: SandboxHarness):
    program = harness.home / ".local" / "bin" / "greet"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho hello\n")
    program.chmod(0o755)
    (harness.home / ".nvm-real").mkdir()
    (harness.home / ".nvm-real" / "nvm.sh").write_text("echo nvm\n")
    (harness.home / ".nvm").symlink_to(harness.home / ".nvm-real")
    harness.env["PATH"] = f"{harness.home}/.local/bin:/usr/bin:/bin"
    assert harness.shell("greet; ~/.local/bin/greet; . ~/.nvm/nvm.sh").out == "hello\nhello\nnvm\n"
    assert refused(harness.attempt("attempt(write, os.path.expanduser('~/.local/bin/greet'))"))


def test_programs_in_a_path_folder_outside_the_home_folder_are_found(harness: SandboxHarness):
    program = harness.base / "toolchain" / "bin" / "greet"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho hello\n")
    program.chmod(0o755)
    (harness.home / ".profile").write_text("")
    harness.env["PATH"] = f"{program.parent}:/usr/bin:/bin"
    done = harness.shell("greet")
    assert (done.out, done.err) == ("hello\n", "")


def test_variables_with_home_folder_paths_lead_to_writable_folders(harness: SandboxHarness):
    harness.env["CARGO_HOME"] = str(harness.home / ".cargo")
    harness.env["XDG_CACHE_HOME"] = str(harness.home / ".cache")
    assert harness.shell("mkdir -p $CARGO_HOME/registry $XDG_CACHE_HOME/x && echo ok").out == "ok\n"
    assert harness.untouched()


def test_a_folder_with_a_space_and_a_newline_in_its_name_works(harness: SandboxHarness):
    odd = harness.project / "a b\n--bind"
    odd.mkdir()
    confined = harness.sandbox.wrap(["pwd"], cwd=odd)
    assert harness.sandbox.wrap(["pwd"]) != confined
    harness.options["writable"] = [odd]
    assert harness.run("true").code == 0


def test_the_private_folder_can_be_inside_the_home_folder(
    harness: SandboxHarness, monkeypatch: pytest.MonkeyPatch
):
    """The user's temporary files are kept in the home folder."""
    own = harness.home / "tmp"
    own.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(own))
    done = harness.shell("echo x > ~/x && echo y > $TMPDIR/y && cat ~/x $TMPDIR/y && ls -A ~")
    assert (done.out[:4], done.err) == ("x\ny\n", "")
    harness.close()
    assert list(own.iterdir()) == []
