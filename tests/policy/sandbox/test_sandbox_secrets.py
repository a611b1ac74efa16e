"""Reading what is kept from commands: keys, logins, the agent's own things, files of the project that hold secrets."""

import os
import subprocess
from pathlib import Path

import pytest
from tests.policy.sandbox.cage import PYTHON, SECRET, Cage, refused

from accord.errors import UsageError
from accord.policy.sandbox.private import STUB
from accord.policy.sandbox.secrets import look_through


def test_keys_and_the_rest_of_the_home_folder(cage: Cage):
    (cage.project / "link").symlink_to(cage.secrets[0])
    ways = [*cage.secrets, cage.project / "link", *(f"/proc/self/root{path}" for path in cage.secrets)]
    assert refused(cage.attempt("for path in sys.argv[1:]: attempt(read, path)", *ways))
    assert (
        SECRET
        not in cage.shell(
            f"cat ~/.ssh/* ~/.netrc; cp -r {cage.home} . ; grep -r . {cage.home} {cage.outside}"
        ).all
    )


def test_hard_links_and_open_files_do_not_lead_to_them(cage: Cage):
    lines = cage.attempt(
        "attempt(os.link, sys.argv[1], 'x'); attempt(os.open, sys.argv[1], os.O_RDONLY)", cage.secrets[0]
    )
    assert refused(lines)
    with open(cage.secrets[0]) as ours:
        os.set_inheritable(ours.fileno(), True)
        done = cage.shell(
            f"cat /proc/self/fd/{ours.fileno()} /proc/{os.getpid()}/fd/{ours.fileno()} <&- ; ls /proc/self/fd"
        )
    assert SECRET not in done.all


def test_the_agents_own_memory_environment_and_folders(cage: Cage):
    """A process beside the command, with a secret in its environment, stands for the agent."""
    with subprocess.Popen(
        [PYTHON, "-c", "import sys; print(flush=True); sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"KEY": SECRET},
        cwd=cage.outside,
    ) as agent:
        assert agent.stdout is not None
        agent.stdout.readline()
        assert SECRET in Path(f"/proc/{agent.pid}/environ").read_text()
        done = cage.shell(
            f"cat /proc/{agent.pid}/environ /proc/*/environ /proc/{agent.pid}/cwd/kept /proc/*/cwd/kept"
        )
        lines = cage.attempt(
            "def trace():\n"
            "    if libc.ptrace(16, int(sys.argv[1]), None, None): raise OSError(ctypes.get_errno(), 'ptrace')\n"
            "attempt(trace)",
            agent.pid,
        )
        agent.communicate()
    assert SECRET not in done.all
    assert refused(lines)


def test_accords_own_data_wherever_it_is_kept(mounted: Cage, monkeypatch: pytest.MonkeyPatch):
    data = mounted.project / "accord-data"
    data.mkdir()
    (data / "credentials.json").write_text(SECRET)
    monkeypatch.setenv("ACCORD_HOME", str(data))
    assert SECRET not in mounted.shell("cat accord-data/credentials.json; find . -type f | xargs cat").all


def test_files_of_the_project_that_hold_secrets(mounted: Cage):
    for name in (".env", ".env.local", "deep/er/.env.production", "deep/id_rsa", ".netrc"):
        path = mounted.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"KEY={SECRET}\n")
    (mounted.project / ".env.example").write_text("KEY=put-yours-here\n")
    assert mounted.shell("cat .env .env.local deep/er/.env.production deep/id_rsa .netrc").out == STUB * 5
    assert mounted.shell("cat .env.example").out == "KEY=put-yours-here\n"
    moved = mounted.shell(
        "mv .env x; ln .env y; cp .env z; mv deep/er deep/re; cat x y z deep/re/.env.production; find . | xargs cat"
    )
    assert SECRET not in moved.all
    lines = mounted.attempt("attempt(write, '.env'); attempt(os.remove, '.env')")
    assert refused(lines)
    assert (mounted.project / ".env").read_text() == f"KEY={SECRET}\n"


def test_a_namespace_of_its_own_does_not_uncover_them(mounted: Cage):
    (mounted.project / ".env").write_text(SECRET)
    line = "umount -l .env; umount .env; cat .env"
    assert SECRET not in mounted.shell(f"unshare -Urm sh -c '{line}'; {line}").all


def test_a_secret_that_appears_later_is_hidden_after_the_next_scan(mounted: Cage):
    assert mounted.run("true").code == 0
    (mounted.project / ".env").write_text(SECRET)
    mounted.sandbox.scan()
    assert mounted.shell("cat .env").out == STUB


def test_landlock_says_that_it_cannot_hide_what_lies_in_a_root(landlocked: Cage):
    assert landlocked.sandbox.boundary.holds
    (landlocked.project / ".env").write_text(SECRET)
    landlocked.sandbox.scan()
    boundary = landlocked.sandbox.boundary
    assert not boundary.fact("secrets").enforced
    assert str(landlocked.project / ".env") in boundary.fact("secrets").text
    assert not boundary.holds
    assert "NOT enforced: secrets" in boundary.summary()


def test_what_is_named_is_hidden_or_readable(cage: Cage):
    cage.options["readable"] = [cage.outside, cage.home / ".netrc"]
    cage.options["hidden"] = [cage.outside / "kept"]
    assert cage.attempt(
        "for path in sys.argv[1:]: attempt(read, path)", cage.victim, cage.home / ".netrc"
    ) == [
        "done: untouched",
        f"done: {SECRET}",
    ]
    assert SECRET not in cage.shell(f"cat {cage.outside}/*").all
    assert refused(cage.attempt("attempt(write, sys.argv[1])", cage.victim))


def test_a_home_folder_that_is_a_root_still_hides_its_keys(mounted: Cage):
    mounted.options["writable"] = [mounted.home]
    assert (
        SECRET not in mounted.shell("cat ~/.ssh/* ~/.config/gcloud/* ~/.netrc; mv ~/.ssh ~/x; cat ~/x/*").all
    )
    assert mounted.shell("cat ~/diary.txt").out == SECRET


def test_a_home_folder_that_is_a_root_is_no_boundary_under_landlock(landlocked: Cage):
    landlocked.options["writable"] = [landlocked.home]
    assert not landlocked.sandbox.boundary.holds


def test_a_git_configuration_is_seen_unless_it_holds_a_login(cage: Cage):
    config = cage.home / ".gitconfig"
    config.write_text("[user]\n\tname = Ada\n")
    assert "Ada" in cage.shell("git config user.name").out
    cage.close()
    cage._sandbox = None
    config.write_text(f'[url "https://ada:{SECRET}@host/"]\n\tinsteadOf = https://host/\n')
    assert SECRET not in cage.shell(f"git config --list; cat ~/.gitconfig {config}").all


def test_system_files_that_only_root_reads(cage: Cage):
    assert cage.sandbox.boundary.fact("secrets").enforced
    done = cage.shell("cat /etc/shadow /etc/gshadow")
    assert "root:" not in done.out


@pytest.mark.parametrize("root", ["/", "/usr", "/etc", "/proc/self"])
def test_a_root_that_is_the_system_itself_is_refused(cage: Cage, root: str):
    cage.options["writable"] = [root]
    with pytest.raises(UsageError, match="part of the system"):
        assert cage.sandbox


def test_a_root_where_secrets_are_kept_is_refused(cage: Cage):
    cage.options["writable"] = [cage.home / ".ssh"]
    with pytest.raises(UsageError, match="secrets are kept there"):
        assert cage.sandbox


def test_the_search_of_the_roots_is_bounded_and_says_so(tmp_path: Path):
    (tmp_path / "node_modules" / "x").mkdir(parents=True)
    (tmp_path / "node_modules" / "x" / ".env").touch()
    (tmp_path / ".env").mkdir()
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / ".env").touch()
    assert look_through([str(tmp_path)]).secrets == (str(tmp_path / "sub" / ".env"),)
    assert look_through([str(tmp_path)]).complete
    for number in range(300):
        (tmp_path / f".env.{number}").touch()
    found = look_through([str(tmp_path)])
    assert not found.complete
    assert len(found.secrets) == 200


def test_roots_too_large_to_search_are_no_boundary(cage: Cage):
    for number in range(300):
        (cage.project / f".env.{number}").touch()
    assert not cage.sandbox.boundary.holds
    assert cage.run("true").code == 0


def test_nothing_about_a_command_is_on_the_process_table_but_its_own_words(cage: Cage):
    confined = cage.sandbox.wrap(["true"], env={"KEY": SECRET, "LD_PRELOAD": "/x.so", "BASH_ENV": "/x"})
    assert SECRET not in " ".join(confined.argv)
    assert set(confined.env) <= {"PATH", "LC_ALL"}, (
        "what a command is given must not act before it is confined"
    )
    assert f"KEY={SECRET}" in cage.run("env", env={"KEY": SECRET}).out.splitlines()
