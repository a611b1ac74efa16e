"""Secrets that commands in a sandbox must not read: keys, logins, Accord's own data, secret files of the
project."""

import os
import subprocess
from pathlib import Path

import pytest
from tests.policy.sandbox.sandbox_harness import PYTHON, SECRET, SandboxHarness, refused

from accord.errors import UsageError
from accord.policy.sandbox.backend import HIDDEN_TEXT
from accord.policy.sandbox.filesystem_view import scan_roots


def test_keys_and_other_home_files_cannot_be_read(harness: SandboxHarness):
    (harness.project / "link").symlink_to(harness.secrets[0])
    ways = [
        *harness.secrets,
        harness.project / "link",
        *(f"/proc/self/root{path}" for path in harness.secrets),
    ]
    assert refused(harness.attempt("for path in sys.argv[1:]: attempt(read, path)", *ways))
    assert (
        SECRET
        not in harness.shell(
            f"cat ~/.ssh/* ~/.netrc; cp -r {harness.home} . ; grep -r . {harness.home} {harness.outside_path}"
        ).all
    )


def test_hard_links_and_open_descriptors_do_not_reveal_secrets(harness: SandboxHarness):
    lines = harness.attempt(
        "attempt(os.link, sys.argv[1], 'x'); attempt(os.open, sys.argv[1], os.O_RDONLY)", harness.secrets[0]
    )
    assert refused(lines)
    with open(harness.secrets[0]) as ours:
        os.set_inheritable(ours.fileno(), True)
        done = harness.shell(
            f"cat /proc/self/fd/{ours.fileno()} /proc/{os.getpid()}/fd/{ours.fileno()} <&- ; ls /proc/self/fd"
        )
    assert SECRET not in done.all


def test_the_memory_environment_and_folder_of_the_agent_are_hidden(harness: SandboxHarness):
    """Another process with a secret in its environment represents the agent."""
    with subprocess.Popen(
        [PYTHON, "-c", "import sys; print(flush=True); sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"KEY": SECRET},
        cwd=harness.outside_path,
    ) as agent:
        assert agent.stdout is not None
        agent.stdout.readline()
        assert SECRET in Path(f"/proc/{agent.pid}/environ").read_text()
        done = harness.shell(
            f"cat /proc/{agent.pid}/environ /proc/*/environ /proc/{agent.pid}/cwd/kept /proc/*/cwd/kept"
        )
        lines = harness.attempt(
            "def trace():\n"
            "    if libc.ptrace(16, int(sys.argv[1]), None, None):\n"
            "        raise OSError(ctypes.get_errno(), 'ptrace')\n"
            "attempt(trace)",
            agent.pid,
        )
        agent.communicate()
    assert SECRET not in done.all
    assert refused(lines)


def test_accord_data_is_hidden_even_inside_the_project(
    mounted: SandboxHarness, monkeypatch: pytest.MonkeyPatch
):
    data = mounted.project / "accord-data"
    data.mkdir()
    (data / "credentials.json").write_text(SECRET)
    monkeypatch.setenv("ACCORD_HOME", str(data))
    assert SECRET not in mounted.shell("cat accord-data/credentials.json; find . -type f | xargs cat").all


def test_secret_files_of_the_project_are_replaced_by_a_stub(mounted: SandboxHarness):
    for name in (".env", ".env.local", "deep/er/.env.production", "deep/id_rsa", ".netrc"):
        path = mounted.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"KEY={SECRET}\n")
    (mounted.project / ".env.example").write_text("KEY=put-yours-here\n")
    assert (
        mounted.shell("cat .env .env.local deep/er/.env.production deep/id_rsa .netrc").out == HIDDEN_TEXT * 5
    )
    assert mounted.shell("cat .env.example").out == "KEY=put-yours-here\n"
    moved = mounted.shell(
        "mv .env x; ln .env y; cp .env z; mv deep/er deep/re; "
        "cat x y z deep/re/.env.production; find . | xargs cat"
    )
    assert SECRET not in moved.all
    lines = mounted.attempt("attempt(write, '.env'); attempt(os.remove, '.env')")
    assert refused(lines)
    assert (mounted.project / ".env").read_text() == f"KEY={SECRET}\n"


def test_a_new_namespace_does_not_reveal_secret_files(mounted: SandboxHarness):
    (mounted.project / ".env").write_text(SECRET)
    line = "umount -l .env; umount .env; cat .env"
    assert SECRET not in mounted.shell(f"unshare -Urm sh -c '{line}'; {line}").all


def test_a_new_secret_file_is_hidden_after_the_next_scan(mounted: SandboxHarness):
    assert mounted.run("true").code == 0
    (mounted.project / ".env").write_text(SECRET)
    mounted.sandbox.scan()
    assert mounted.shell("cat .env").out == HIDDEN_TEXT


def test_landlock_reports_that_it_cannot_hide_secrets_in_a_root(landlocked: SandboxHarness):
    assert landlocked.sandbox.report.is_effective
    (landlocked.project / ".env").write_text(SECRET)
    landlocked.sandbox.scan()
    boundary = landlocked.sandbox.report
    assert not boundary.fact("secrets").enforced
    assert str(landlocked.project / ".env") in boundary.fact("secrets").text
    assert not boundary.is_effective
    assert "NOT enforced: secrets" in boundary.summary()


def test_readable_and_hidden_options_are_applied(harness: SandboxHarness):
    harness.options["readable"] = [harness.outside_path, harness.home / ".netrc"]
    harness.options["hidden"] = [harness.outside_path / "kept"]
    assert harness.attempt(
        "for path in sys.argv[1:]: attempt(read, path)", harness.victim, harness.home / ".netrc"
    ) == [
        "done: untouched",
        f"done: {SECRET}",
    ]
    assert SECRET not in harness.shell(f"cat {harness.outside_path}/*").all
    assert refused(harness.attempt("attempt(write, sys.argv[1])", harness.victim))


def test_a_home_folder_that_is_a_root_still_hides_its_keys(mounted: SandboxHarness):
    mounted.options["writable"] = [mounted.home]
    assert (
        SECRET not in mounted.shell("cat ~/.ssh/* ~/.config/gcloud/* ~/.netrc; mv ~/.ssh ~/x; cat ~/x/*").all
    )
    assert mounted.shell("cat ~/diary.txt").out == SECRET


def test_landlock_with_the_home_folder_as_root_is_not_effective(landlocked: SandboxHarness):
    landlocked.options["writable"] = [landlocked.home]
    assert not landlocked.sandbox.report.is_effective


def test_a_git_configuration_is_readable_unless_it_has_a_login(harness: SandboxHarness):
    config = harness.home / ".gitconfig"
    config.write_text("[user]\n\tname = Ada\n")
    assert "Ada" in harness.shell("git config user.name").out
    harness.close()
    harness._sandbox = None
    config.write_text(f'[url "https://ada:{SECRET}@host/"]\n\tinsteadOf = https://host/\n')
    assert SECRET not in harness.shell(f"git config --list; cat ~/.gitconfig {config}").all


def test_system_password_files_cannot_be_read(harness: SandboxHarness):
    assert harness.sandbox.report.fact("secrets").enforced
    done = harness.shell("cat /etc/shadow /etc/gshadow")
    assert "root:" not in done.out


@pytest.mark.parametrize("root", ["/", "/usr", "/etc", "/proc/self"])
def test_a_system_folder_is_refused_as_root(harness: SandboxHarness, root: str):
    harness.options["writable"] = [root]
    with pytest.raises(UsageError, match="part of the system"):
        assert harness.sandbox


def test_a_secret_folder_is_refused_as_root(harness: SandboxHarness):
    harness.options["writable"] = [harness.home / ".ssh"]
    with pytest.raises(UsageError, match="secrets are kept there"):
        assert harness.sandbox


def test_the_scan_for_secrets_is_bounded_and_reports_it(tmp_path: Path):
    (tmp_path / "node_modules" / "x").mkdir(parents=True)
    (tmp_path / "node_modules" / "x" / ".env").touch()
    (tmp_path / ".env").mkdir()
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / ".env").touch()
    assert scan_roots([str(tmp_path)]).secrets == (str(tmp_path / "sub" / ".env"),)
    assert scan_roots([str(tmp_path)]).complete
    for number in range(300):
        (tmp_path / f".env.{number}").touch()
    found = scan_roots([str(tmp_path)])
    assert not found.complete
    assert len(found.secrets) == 200


def test_a_sandbox_with_roots_too_large_to_scan_is_not_effective(harness: SandboxHarness):
    for number in range(300):
        (harness.project / f".env.{number}").touch()
    assert not harness.sandbox.report.is_effective
    assert harness.run("true").code == 0


def test_the_environment_of_a_command_is_not_in_its_arguments(harness: SandboxHarness):
    confined = harness.sandbox.wrap(["true"], env={"KEY": SECRET, "LD_PRELOAD": "/x.so", "BASH_ENV": "/x"})
    assert SECRET not in " ".join(confined.argv)
    assert set(confined.env) <= {"PATH", "LC_ALL"}, (
        "variables of the command must not take effect before it is confined"
    )
    assert f"KEY={SECRET}" in harness.run("env", env={"KEY": SECRET}).out.splitlines()
