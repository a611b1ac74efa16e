"""The everyday tools, run inside: a sandbox that breaks them would be switched off."""

import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest
from tests.policy.sandbox.cage import PYTHON, Cage, refused


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed here, so it cannot be tried in a sandbox")
    return found


def test_git(cage: Cage):
    tool("git")
    (cage.home / ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.org\n")
    done = cage.shell(
        "git init -q . && git add main.py && git commit -q -m first && git log --format='%an %s' && git status -s"
    )
    assert (done.code, done.out, done.err.replace("hint", "")[:0]) == (0, "Ada first\n", "")
    done = cage.shell(
        "git checkout -q -b other && echo x > x && git add x && git stash -q && git stash pop -q && git commit -qm x"
    )
    assert (done.code, done.err) == (0, "")


def test_python_with_temporary_files_and_processes(cage: Cage):
    code = (
        "import subprocess, sys, tempfile, concurrent.futures, asyncio\n"
        "with tempfile.NamedTemporaryFile('w') as file: file.write('x')\n"
        "async def main(): await (await asyncio.create_subprocess_exec('true')).wait()\n"
        "asyncio.run(main())\n"
        "print(subprocess.check_output([sys.executable, '-c', 'print(1)']))"
    )
    done = cage.run(PYTHON, "-c", code)
    assert (done.code, done.out, done.err) == (0, "b'1\\n'\n", "")


def test_shared_semaphores(mounted: Cage):
    done = mounted.run(PYTHON, "-c", "import multiprocessing; multiprocessing.Lock(); print('ok')")
    assert (done.out, done.err) == ("ok\n", "")


def test_pytest(cage: Cage):
    (cage.project / "test_it.py").write_text("def test_it(tmp_path):\n    (tmp_path / 'x').write_text('x')\n")
    env = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = cage.run(sys.executable, "-m", "pytest", "-q", "test_it.py", env=env)
    assert "1 passed" in done.out, done.all


def test_node_and_npm(cage: Cage):
    tool("node")
    cage.env["PATH"] = os.environ["PATH"]
    done = cage.run(
        "node",
        "-e",
        "require('child_process').execFile('echo', ['hi'], (e, out) => console.log(e, out.trim()))",
    )
    assert (done.code, done.out) == (0, "null hi\n"), done.err
    tool("npm")
    (cage.project / "package.json").write_text(
        '{"name": "x", "version": "1.0.0", "scripts": {"test": "echo tested"}}'
    )
    done = cage.run("npm", "test")
    assert done.code == 0, done.all
    assert "tested" in done.out


def test_cargo(cage: Cage):
    cargo = tool("cargo")
    cage.env["PATH"] = os.environ["PATH"]
    cage.env["RUSTUP_HOME"] = os.environ.get("RUSTUP_HOME", str(Path.home() / ".rustup"))
    cage.options["readable"] = [
        path for path in (Path.home() / ".rustup", Path(cargo).parent) if path.exists()
    ]
    done = cage.shell(
        "cargo init -q --name demo --vcs none demo && cd demo && cargo build -q --offline && ls target/debug/demo"
    )
    assert done.code == 0, done.all


def test_pip_can_install_from_the_project(cage: Cage):
    """The caches and settings of tools land in the private home."""
    done = cage.run(PYTHON, "-m", "pip", "cache", "dir", env={"PIP_DISABLE_PIP_VERSION_CHECK": "1"})
    assert done.code == 0, done.all
    assert done.out.strip().startswith(cage.sandbox.home)


def test_what_one_command_leaves_in_tmp_is_there_for_the_next(cage: Cage):
    assert cage.shell("echo kept > $TMPDIR/note; echo cached > ~/cache").code == 0
    assert cage.shell("cat $TMPDIR/note ~/cache").out == "kept\ncached\n"
    assert Path(cage.sandbox.outside(f"{cage.sandbox.temp}/note")).read_text() == "kept\n"
    assert Path(cage.sandbox.outside(f"{cage.sandbox.home}/cache")).read_text() == "cached\n"
    assert cage.sandbox.outside(cage.project / "main.py") == str(cage.project / "main.py")
    assert cage.untouched()


def test_tmp_itself_is_private(mounted: Cage):
    said = mounted.shell("echo x > /tmp/x && echo x > /var/tmp/y && ls /tmp").out
    shown = {
        path.parts[2] for path in (mounted.base, Path(sys.prefix), Path(__file__)) if path.parts[1] == "tmp"
    }
    assert {*said.split()} - shown == {"x", "y"}
    assert not Path("/var/tmp/y").exists()


def test_tools_of_the_home_folder_are_found_there(cage: Cage):
    program = cage.home / ".local" / "bin" / "greet"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho hello\n")
    program.chmod(0o755)
    (cage.home / ".nvm-real").mkdir()
    (cage.home / ".nvm-real" / "nvm.sh").write_text("echo nvm\n")
    (cage.home / ".nvm").symlink_to(cage.home / ".nvm-real")
    cage.env["PATH"] = f"{cage.home}/.local/bin:/usr/bin:/bin"
    assert cage.shell("greet; ~/.local/bin/greet; . ~/.nvm/nvm.sh").out == "hello\nhello\nnvm\n"
    assert refused(cage.attempt("attempt(write, os.path.expanduser('~/.local/bin/greet'))"))


def test_variables_that_lead_into_the_home_folder_lead_somewhere_writable(cage: Cage):
    cage.env["CARGO_HOME"] = str(cage.home / ".cargo")
    cage.env["XDG_CACHE_HOME"] = str(cage.home / ".cache")
    assert cage.shell("mkdir -p $CARGO_HOME/registry $XDG_CACHE_HOME/x && echo ok").out == "ok\n"
    assert cage.untouched()


def test_a_folder_with_a_blank_and_a_newline_in_its_name(cage: Cage):
    odd = cage.project / "a b\n--bind"
    odd.mkdir()
    confined = cage.sandbox.wrap(["pwd"], cwd=odd)
    assert cage.sandbox.wrap(["pwd"]) != confined
    cage.options["writable"] = [odd]
    assert cage.run("true").code == 0


def test_a_private_folder_inside_the_home_folder(cage: Cage, monkeypatch: pytest.MonkeyPatch):
    """Where the user's temporary files are kept there."""
    own = cage.home / "tmp"
    own.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(own))
    done = cage.shell("echo x > ~/x && echo y > $TMPDIR/y && cat ~/x $TMPDIR/y && ls -A ~")
    assert (done.out[:4], done.err) == ("x\ny\n", "")
    cage.close()
    assert list(own.iterdir()) == []
