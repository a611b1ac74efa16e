"""The boundary that a sandbox reports, and whether it holds."""

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from tests.policy.sandbox.sandbox_harness import SandboxHarness

import accord
from accord.errors import UsageError
from accord.policy.sandbox import (
    Sandbox,
    SandboxFact,
    SandboxReport,
    SelfTestResult,
    choose_backend,
    contradictions,
    run_self_test,
    sandbox,
)
from accord.policy.sandbox.backend import DECISIVE, UNCONFINED, NoBackend
from accord.policy.sandbox.bubblewrap import Bubblewrap
from accord.policy.sandbox.filesystem_view import FilesystemView
from accord.policy.sandbox.landlock import Landlock
from accord.policy.sandbox.seccomp import filter_program

ALL_ENFORCED = tuple(SandboxFact(fact.aspect, True, "so it is") for fact in UNCONFINED)


@pytest.mark.parametrize("network", [False, True])
async def test_the_reported_restrictions_pass_the_self_test(harness: SandboxHarness, network: bool):
    harness.options["network"] = network
    trials = await run_self_test(harness.sandbox)
    assert [str(trial) for trial in trials if not trial.held] == []
    assert {trial.aspect for trial in trials} >= {"writes", "secrets", "sockets", "temp", "privileges"}
    assert ("network" in {trial.aspect for trial in trials}) is not network
    assert harness.untouched()


async def test_without_a_sandbox_nothing_is_reported_as_enforced(tmp_path: Path):
    with Sandbox([tmp_path], backend="none") as sandbox:
        boundary = sandbox.report
        trials = await run_self_test(sandbox)
    assert not boundary.is_effective
    assert not any(fact.enforced for fact in boundary.facts)
    assert boundary.lines()[0] == "sandbox: none: commands run with all your rights"
    assert all("NOT enforced" in line for line in boundary.lines()[1:])
    assert {trial.aspect for trial in trials if not trial.held} >= {"writes", "secrets", "network", "sockets"}
    assert contradictions(boundary, trials) == []


async def test_the_self_test_finds_a_backend_that_reports_too_much(tmp_path: Path):
    class OverclaimingBackend(NoBackend):
        name = "overclaiming"

        def facts(self, view: FilesystemView, network: bool) -> tuple[SandboxFact, ...]:
            return ALL_ENFORCED

    (tmp_path / "AGENTS.md").write_text("Be kind.")
    with Sandbox([tmp_path], backend=OverclaimingBackend()) as sandbox:
        assert sandbox.report.is_effective
        found = contradictions(sandbox.report, await run_self_test(sandbox))
    assert {trial.aspect for trial in found} >= {*DECISIVE}
    assert "DID NOT HOLD" in str(found[0])


async def test_a_sandbox_that_cannot_run_commands_fails_the_self_test(tmp_path: Path):
    class Broken(NoBackend):
        def confine(self, job: object) -> object:  # pyright: ignore[reportIncompatibleMethodOverride]
            from accord.policy.sandbox import ConfinedCommand

            return ConfinedCommand(["/bin/sh", "-c", "echo broken >&2; exit 1"], {}, "/")

    with Sandbox([tmp_path], backend=Broken()) as sandbox:  # pyright: ignore[reportArgumentType]
        assert await run_self_test(sandbox) == [
            SelfTestResult("temp", "run a command at all", False, "broken")
        ]


@pytest.mark.parametrize("missing", sorted(DECISIVE))
def test_a_sandbox_is_effective_only_with_every_decisive_aspect(missing: str):
    facts = tuple(fact for fact in ALL_ENFORCED if fact.aspect != missing)
    assert SandboxReport("some", ALL_ENFORCED).is_effective
    missing_fact = SandboxFact(missing, False, "no")  # pyright: ignore[reportArgumentType]
    assert not SandboxReport("some", (*facts, missing_fact)).is_effective
    assert not SandboxReport("some", facts).is_effective, "an unknown aspect must not count as enforced"
    assert not SandboxReport("some", ()).is_effective


def test_a_sandbox_is_effective_when_the_network_is_open_by_choice():
    facts = tuple(SandboxFact(fact.aspect, fact.aspect != "network", "") for fact in UNCONFINED)
    assert SandboxReport("some", facts, network=True).is_effective
    assert not SandboxReport("some", facts, network=False).is_effective


def test_the_report_has_a_line_for_every_aspect(harness: SandboxHarness):
    lines = harness.sandbox.report.lines()
    assert lines[0].startswith("sandbox: ")
    assert [line.split(":")[0] for line in lines[1:9]] == [fact.aspect for fact in UNCONFINED]
    assert all("\n" not in line for line in lines)


@pytest.mark.parametrize(
    ("abi", "writes", "processes"),
    [
        (1, False, "can be"),
        (2, False, "can be"),
        (3, True, "can be"),
        (5, True, "can be"),
        (6, True, "cannot be"),
        (9, True, "cannot be"),
    ],
)
def test_the_report_says_what_older_kernels_do_not_enforce(abi: int, writes: bool, processes: str):
    facts = {fact.aspect: fact for fact in Landlock(abi).facts(FilesystemView("/home/ada"), network=False)}
    assert facts["writes"].enforced is writes
    assert f"{processes} signalled" in facts["processes"].text
    assert SandboxReport("landlock", tuple(facts.values())).is_effective is writes


def test_an_unknown_backend_is_refused():
    with pytest.raises(
        UsageError, match="no sandbox is called 'seatbelt'; there are: bubblewrap, landlock, none"
    ):
        choose_backend("seatbelt")


def test_choose_returns_the_first_working_backend_and_explains_the_rest():
    backend, reasons = choose_backend()
    better = ["bubblewrap", "landlock", "none"].index(backend.name)
    assert len(reasons) == better
    assert all("is not used: " in line for line in reasons)


def test_the_root_folder_cannot_be_readable(tmp_path: Path):
    with pytest.raises(UsageError, match="that would be everything"):
        Sandbox([tmp_path], readable=["/"])


@pytest.mark.parametrize("roots", [[], ["relative"], ["/nonexistent/../etc"]])
def test_roots_must_be_existing_absolute_folders(roots: list[str]):
    with pytest.raises(UsageError):
        Sandbox(roots)


def test_wrap_needs_a_command_and_a_folder_inside_the_roots(harness: SandboxHarness):
    with pytest.raises(UsageError, match="no command"):
        harness.sandbox.wrap([])
    with pytest.raises(UsageError, match="not a folder that this sandbox opens"):
        harness.sandbox.wrap(["true"], cwd=harness.outside_path)
    (harness.project / "out").symlink_to(harness.outside_path)
    with pytest.raises(UsageError, match="not a folder that this sandbox opens"):
        harness.sandbox.wrap(["true"], cwd=harness.project / "out")


@pytest.mark.parametrize(
    "env", [{"A": "x\0--bind\0/\0/mnt"}, {"A\0--share-net": "x"}, {"A=B": "x"}, {"": "x"}, {"A": "\ud800"}]
)
def test_a_variable_cannot_add_sandbox_options(harness: SandboxHarness, env: dict[str, str]):
    with pytest.raises(UsageError):
        harness.sandbox.wrap(["true"], env=env)


def test_the_folders_of_a_killed_process_are_removed_by_the_next_sandbox(tmp_path: Path):
    def program(code: str) -> list[str]:
        setup = "import os; from accord.policy.sandbox.backend import PrivateFolder"
        script = f"{setup}; one = PrivateFolder(()); {code}"
        env = {**os.environ, "TMPDIR": str(tmp_path)}
        subprocess.run([sys.executable, "-c", script], env=env, check=False)
        return os.listdir(tmp_path)

    (died,) = program("os._exit(9)")
    assert (tmp_path / died / "home").is_dir()
    assert (
        program("other = PrivateFolder(()); assert os.path.isdir(one.path); one.remove(); other.remove()")
        == []
    )


def test_a_sandbox_can_be_closed_twice(harness: SandboxHarness):
    harness.sandbox.close()
    reused = os.open(os.devnull, os.O_RDONLY)  # gets the number of the closed file
    harness.sandbox.close()
    os.close(reused)


def test_a_root_in_the_temporary_folder_is_reported_as_shared(harness: SandboxHarness):
    facts = harness.backend.facts(FilesystemView("/home/ada", writable=("/tmp",)), False)
    assert "/tmp is a root, so it is shared" in next(fact.text for fact in facts if fact.aspect == "temp")


@pytest.mark.parametrize("home", ["/", "/nonexistent", "/usr", ""])
def test_a_user_without_a_home_folder_gets_a_private_one(harness: SandboxHarness, home: str):
    harness.env["HOME"] = home
    assert harness.shell("cd ~ && echo x > y && cat y").out == "x\n"


def test_the_launcher_runs_nothing_when_it_cannot_restrict_itself(landlocked: SandboxHarness):
    confined = landlocked.sandbox.wrap(["echo", "ran"])
    options = Path(confined.argv[4])
    words = options.read_bytes().split(b"\0")
    broken = landlocked.base / "broken"
    broken.write_bytes(
        b"\0".join(b"/nonexistent" if words[i - 1] == b"--filter" else word for i, word in enumerate(words))
    )
    done = subprocess.run(
        [*confined.argv[:4], str(broken), "echo", "ran"],
        env=confined.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (125, "")
    assert "not run, because the sandbox could not be put in force" in done.stderr


def test_accord_doctor_reports_the_sandbox():
    done = subprocess.run(
        [sys.executable, "-m", "accord.cli", "doctor"],
        capture_output=True,
        text=True,
        check=True,
        stdin=subprocess.DEVNULL,
    )
    line = next(line for line in done.stdout.splitlines() if line.startswith("sandbox"))
    backend, reasons = choose_backend()
    assert line.split()[1] == backend.name
    assert all(reason in line for reason in reasons)
    assert backend.name == "none" or "self-test passed" in line


def verdict(program: bytes, machine: int, number: int, *arguments: int) -> int:
    """Interpret the filter and return the result that the kernel would give."""
    data = struct.pack("<iIQ6Q", number, machine, 0, *arguments, *[0] * (6 - len(arguments)))
    code = [struct.unpack_from("<HBBI", program, at) for at in range(0, len(program), 8)]
    at = accumulator = 0
    while True:
        operation, yes, no, value = code[at]
        at += 1
        if operation == 0x20:
            accumulator = struct.unpack_from("<I", data, value)[0]
        elif operation == 0x54:
            accumulator &= value
        elif operation == 0x15:
            at += yes if accumulator == value else no
        elif operation == 0x35:
            at += yes if accumulator >= value else no
        else:
            assert operation == 0x06
            return value


ALLOW, KILL, EPERM, ENOSYS = 0x7FFF0000, 0x80000000, 0x50001, 0x50026


@pytest.mark.parametrize(
    ("name", "audit", "ioctl", "socket", "keyctl"),
    [
        ("x86_64", 0xC000003E, 16, 41, 250),
        ("aarch64", 0xC00000B7, 29, 198, 219),
        ("riscv64", 0xC00000F3, 29, 198, 219),
    ],
)
def test_the_seccomp_filter_refuses_the_listed_calls_on_every_machine(
    name: str, audit: int, ioctl: int, socket: int, keyctl: int
):
    pair = socket + (12 if name == "x86_64" else 1)
    closed = filter_program(families=(1, 2, 10, 16), machine_name=name)
    assert verdict(closed, audit, ioctl, 0, 0x5412) == EPERM
    assert verdict(closed, audit, ioctl, 0, 0x541C) == EPERM
    assert verdict(closed, audit, ioctl, 0, (1 << 32) | 0x5412) == EPERM
    assert verdict(closed, audit, ioctl, 0, 0x5413) == ALLOW
    assert [verdict(closed, audit, number) for number in (keyctl - 2, keyctl - 1, keyctl)] == [EPERM] * 3
    assert [verdict(closed, audit, socket, family) for family in (1, 2, 10, 16)] == [ALLOW] * 4
    assert [verdict(closed, audit, socket, family) for family in (0, 3, 17, 38, 40)] == [EPERM] * 5
    assert verdict(closed, audit, 425) == ENOSYS
    assert verdict(closed, 0x40000003, 0) == KILL
    local = filter_program(unix=False, machine_name=name)
    assert verdict(local, audit, socket, 1) == EPERM
    assert verdict(local, audit, socket, 2) == ALLOW
    assert verdict(local, audit, pair, 1, 1 | 0o2000000) == ALLOW
    assert verdict(local, audit, pair, 1, 2 | 0o2000000) == EPERM
    offline = filter_program(families=(16,), unix=False, machine_name=name)
    assert [verdict(offline, audit, socket, family) for family in (1, 2, 10, 40)] == [EPERM] * 4
    assert verdict(offline, audit, socket, 16) == ALLOW
    free = filter_program(machine_name=name)
    assert verdict(free, audit, 425) == verdict(free, audit, socket, 1) == verdict(free, audit, 0) == ALLOW
    if name == "x86_64":
        assert verdict(free, audit, 0x40000000 | 41, 1) == ENOSYS


def test_a_bwrap_that_does_not_work_is_not_used():
    broken = Bubblewrap("/bin/false", user_namespace=True, can_disable_userns=False, signal_resetter=None)
    assert sandbox._failure(broken) == "exit code 1"
    missing = Bubblewrap(
        "/nonexistent/bwrap", user_namespace=True, can_disable_userns=False, signal_resetter=None
    )
    assert "/nonexistent/bwrap" in sandbox._failure(missing)


def test_accord_doctor_inside_a_sandbox_reports_what_still_works(mounted: SandboxHarness):
    """Inside, no namespace can be created any more. Landlock still works."""
    mounted.options["readable"] = [Path(accord.__file__).parent.parent]
    done = mounted.run(sys.executable, "-m", "accord.cli", "doctor")
    line = next(line for line in done.out.splitlines() if line.startswith("sandbox"))
    assert line.split()[1] in ("landlock", "none"), line
    assert "bubblewrap is not used: bwrap is installed but does not work here" in line
