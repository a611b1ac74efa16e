"""`accord run` with every hostile agent of the test kit: the documented outcome, and no leftover processes or
files."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.cli.run.run_harness import RunHarness, RunResult
from tests.client.hostile_agent import files_in, processes_in

from accord.testing.hostile import behaviors, hostile_command
from accord.testing.hostile.bad_output import FLOOD_CHUNKS

GUIDE = Path(__file__).parents[3] / "docs" / "testing.md"
WORDS = "its last stderr lines:\nhostile: the disk is full"


class Outcome(NamedTuple):
    """The expected exit code, and texts in stdout and stderr."""

    code: int
    out: str = ""
    err: str = ""
    options: tuple[str, ...] = ()


OUTCOMES = {
    "dies-at-start": Outcome(3, err=f"exited with code 7 before initialize was answered; {WORDS}"),
    "dies-in-initialize": Outcome(3, err=f"exited with code 7 before initialize was answered; {WORDS}"),
    "dies-opening": Outcome(3, err=f"exited with code 7; {WORDS}"),
    "dies-in-turn": Outcome(3, "I was just about to", f"exited with code 7; {WORDS}"),
    "dies-unheard": Outcome(3, err=f"exited with code 7; {WORDS}"),
    "killed-in-turn": Outcome(3, "Think hard (ended without a result", "was ended by SIGKILL"),
    "dies-asking": Outcome(3, err=f"exited with code 7; {WORDS}"),
    "dies-after-answer": Outcome(0, "Done, and gone."),
    "hangs-up": Outcome(3, "the agent ended unexpectedly (connection closed)", "closed its output"),
    "ignores-the-end": Outcome(0, "All is well."),
    "leaves-children": Outcome(0, "Two children."),
    "silent-at-start": Outcome(4, err="initialize was not answered within 0.3 s"),
    "silent-opening": Outcome(4, err="session/new"),
    "silent-in-turn": Outcome(4, err="(--deadline)", options=("--deadline", "0.3")),
    "silent-after-cancel": Outcome(4, err="(--deadline)", options=("--deadline", "0.5")),
    "waits-for-cancel": Outcome(
        4, "This will take a while.", "the agent sent nothing for 1 s", options=("--timeout", "1")
    ),
    "floods": Outcome(0, f"{FLOOD_CHUNKS - 1} xxx"),
    "floods-forever": Outcome(4, err="(--deadline)", options=("--deadline", "0.5")),
    "floods-stderr": Outcome(0, "Did you read all that?"),
    "huge-message": Outcome(0, "There it was.", "ignored a message of the agent"),
    "deep-message": Outcome(0, "Still there?"),
    "noise": Outcome(0, "One, two.", "ignored non-JSON output from the agent: Welcome to hostile v1.0!"),
    "escapes": Outcome(0, "cut The end."),
    "answers-twice": Outcome(0, "Once and for all."),
    "answers-unasked": Outcome(0, "That was not for you."),
    "both-answers": Outcome(1, "Yes and no.", "and failed"),
    "wrong-shapes": Outcome(3, "Here.", "the result cannot be read"),
    "no-session": Outcome(3, err="sessionId is missing"),
    "string-error": Outcome(1, err="it went wrong"),
    "fails-turn": Outcome(1, err="The model is overloaded"),
    "refuses-initialize": Outcome(3, err="initialize failed: Not today"),
    "wrong-version": Outcome(3, err="the agent speaks protocol version 9"),
    "wants-login": Outcome(6, err="accord agents login hostile account"),
    "refuses": Outcome(1, "I would rather not."),
    "runs-out": Outcome(1, "I would rather not."),
    "unknown-stop": Outcome(1, "moon_phase"),
    "unknown-updates": Outcome(0, "Before, hostile/ask: -32601\n_hostile/ask: -32601\n$/ask: -32601\nafter."),
    "endless-list": Outcome(0, "All is well."),
    "asks-after-cancel": Outcome(4, "Shall I?", options=("--timeout", "1", "--permissions", "all")),
    "asks-after-answer": Outcome(0, "Done.", options=("--permissions", "all")),
    "asks-unfairly": Outcome(5, "kind in capitals: not allowed", "refused: Delete everything"),
    "asks-forms": Outcome(0, "odd mode: not accepted", "declined"),
    "reads-outside": Outcome(0, "read for another session: -32002", options=("--permissions", "all")),
    "writes-outside": Outcome(0, "outside: untouched", options=("--permissions", "all")),
    "many-terminals": Outcome(0, "asked for 1000 terminals, got some", options=("--permissions", "all")),
    "terminal-outside": Outcome(0, "in /etc: -32602", options=("--permissions", "all")),
    "dialects": Outcome(5, "row 6 row 7 row 8 row 9 row 9a", "refused: row 11"),
    "dialect-stops": Outcome(1, "I stopped."),
    "wild": Outcome(0, "That is all."),
    "ends-on-rejection": Outcome(5, err="refused: Delete everything"),
    "runs-rejections": Outcome(5, "Kept.", "refused: Delete everything"),
    "ends-after-cancel": Outcome(4, "Working. Just this.", options=("--timeout", "1")),
}


LIMITS = {
    "silent-at-start": {"startupTimeoutMs": 300},
    "silent-opening": {"timeoutMs": 300},
    "silent-in-turn": {"cancelTimeoutMs": 300},
    "silent-after-cancel": {"cancelTimeoutMs": 300},
    "floods-forever": {"cancelTimeoutMs": 300},
}
"""The limits of agents that would reach the usual ones."""


class HostileHarness:
    """A project in which a hostile agent is configured as `hostile`."""

    def __init__(self, harness: RunHarness, name: str, *words: str) -> None:
        self.harness = harness
        self.log = harness.home.parent / "log"
        self.temporary = harness.home.parent / "tmp"
        self.temporary.mkdir()
        command, *args = hostile_command(name, "--log", str(self.log), *words)
        agent: dict[str, Any] = {"command": command, "args": args, **LIMITS.get(name, {})}
        harness.settings(servers={"hostile": agent})

    def run(self, *options: str) -> RunResult:
        ran = self.harness.run("go", "-a", "hostile", *options, TMPDIR=str(self.temporary))
        self.assert_nothing_is_left()
        return ran

    def assert_nothing_is_left(self) -> None:
        """Check that no process and no file is left."""
        assert processes_in(self.harness.cwd) == []
        assert files_in(self.harness.cwd) == set()
        assert files_in(self.temporary) == set()

    @property
    def received(self) -> list[Any]:
        """The messages that the agent received."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]


def clean(text: str) -> bool:
    """Whether the text has no control characters."""
    return all(char.isprintable() or char == "\n" for char in text)


@pytest.mark.parametrize("name", behaviors())
def test_a_hostile_agent_has_the_documented_outcome_and_leaves_nothing(
    harness: RunHarness, name: str
) -> None:
    expected = OUTCOMES[name]
    ran = HostileHarness(harness, name).run(*expected.options)
    assert ran.code == expected.code, ran.err
    assert expected.out in ran.out
    assert expected.err in ran.err
    assert clean(ran.out), ran.out
    assert clean(ran.err), ran.err
    assert "Traceback (most recent call last):\n  File" not in ran.err


def test_the_guide_lists_the_outcome_of_every_habit() -> None:
    _, _, section = GUIDE.read_text().partition("## What happens when an agent misbehaves")
    documented = dict(re.findall(r"^\| `([a-z-]+)` \| .* \| (\d)\b[^|]*\|$", section, re.MULTILINE))
    assert documented == {name: str(outcome.code) for name, outcome in OUTCOMES.items()}
    assert list(documented) == list(behaviors())


def test_format_json_always_ends_with_a_result(harness: RunHarness) -> None:
    for name in ("dies-in-turn", "wrong-shapes", "noise", "escapes"):
        hostile = HostileHarness(harness, name)
        ran = hostile.run("--format", "json")
        assert ran.result["exitCode"] == ran.code == OUTCOMES[name].code
        assert clean(ran.out)
        hostile.temporary.rmdir()


def test_a_flood_of_messages_loses_no_message(harness: RunHarness) -> None:
    ran = HostileHarness(harness, "floods").run("--format", "quiet")
    assert [int(line.split()[0]) for line in ran.out.splitlines()] == list(range(FLOOD_CHUNKS))


# -- consent ---------------------------------------------------------------------------------------------


@pytest.mark.rule("cancel.pending-permissions")
def test_no_permission_is_granted_after_a_cancel(harness: RunHarness) -> None:
    hostile = HostileHarness(harness, "asks-after-cancel")
    hostile.run("--permissions", "all", "--timeout", "1")
    [answer] = [message["after cancel"] for message in hostile.received if "after cancel" in message]
    assert answer["result"] == {"outcome": {"outcome": "cancelled"}}


def test_unusual_permission_requests_are_not_allowed_by_default(harness: RunHarness) -> None:
    ran = HostileHarness(harness, "asks-unfairly").run("--format", "quiet")
    assert [line.rpartition(": ")[2] for line in ran.out.splitlines()] == ["not allowed"] * 6


@pytest.mark.rule("file.inside-roots")
@pytest.mark.parametrize("name", ["reads-outside", "writes-outside"])
def test_files_outside_are_not_reached_with_all_permissions(harness: RunHarness, name: str) -> None:
    ran = HostileHarness(harness, name).run("--permissions", "all", "--format", "quiet")
    requests = [line for line in ran.out.splitlines() if line.startswith(("read", "write"))]
    assert len(requests) >= 5
    assert not [line for line in requests if line.endswith(": ok")]


# -- Ctrl-C ----------------------------------------------------------------------------------------------


def interrupted(hostile: HostileHarness, *until: str) -> tuple[int, str]:
    """Run until each text was shown, with Ctrl-C after each. Return the exit code and stderr."""
    harness = hostile.harness
    process = subprocess.Popen(
        [sys.executable, "-m", "accord.cli", "run", "go", "-a", "hostile", "--permissions", "all"],
        cwd=harness.cwd, env=harness.env(TMPDIR=str(hostile.temporary)), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    output_so_far = b""
    try:
        for number, text in enumerate(until):
            stream = process.stdout if number == 0 else process.stderr
            output_so_far = b""
            while text.encode() not in output_so_far:
                more = stream.read1(4096)  # type: ignore[attr-defined]
                assert more, output_so_far
                output_so_far += more
            process.send_signal(signal.SIGINT)
        _, output = process.communicate()
        return process.returncode, (output_so_far + output).decode()
    finally:
        process.kill()
        process.wait()


def test_ctrl_c_waits_for_the_agent_and_leaves_nothing(harness: RunHarness) -> None:
    hostile = HostileHarness(harness, "asks-after-cancel")
    code, _ = interrupted(hostile, "Shall I?")
    assert code == 130
    hostile.assert_nothing_is_left()
    [answer] = [message["after cancel"] for message in hostile.received if "after cancel" in message]
    assert answer["result"] == {"outcome": {"outcome": "cancelled"}}


def test_a_second_ctrl_c_ends_an_agent_that_ignores_the_first(harness: RunHarness) -> None:
    hostile = HostileHarness(harness, "silent-after-cancel")
    code, _ = interrupted(hostile, "This will take a while.", "accord run: ")
    assert code == 130
    hostile.assert_nothing_is_left()


# -- retry -----------------------------------------------------------------------------------------------


def test_retry_works_when_the_agent_did_nothing_before_it_died(harness: RunHarness) -> None:
    done = harness.home.parent / "done"
    ran = HostileHarness(harness, "dies-unheard", "--once", str(done)).run("--retry", "--format", "quiet")
    assert (ran.code, ran.out) == (0, "All is well.\n")


def test_retry_does_not_repeat_a_prompt_that_was_started(harness: RunHarness) -> None:
    done = harness.home.parent / "done"
    hostile = HostileHarness(harness, "dies-in-turn", "--once", str(done))
    ran = hostile.run("--retry")
    assert ran.code == 3
    assert len([message for message in hostile.received if message.get("method") == "session/prompt"]) == 1
