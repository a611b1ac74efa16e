"""`accord run --steer`: lines of stdin reach the running turn."""

import pytest
from tests.cli.run.run_harness import RunHarness, odd_agent


def test_a_line_of_stdin_reaches_the_turn(harness: RunHarness) -> None:
    done = harness.run("--steer", "hi", *odd_agent("steered"), stdin="\nuse tabs\n")
    assert done.code == 0, done.err
    assert "steered by use tabs" in done.out
    assert "sending: use tabs" in done.err


def test_an_agent_without_steering_is_an_error(harness: RunHarness) -> None:
    done = harness.run("--steer", "hi", *odd_agent("plain"), stdin="use tabs\n")
    assert done.code == 2
    assert "--steer: odd takes no messages during a turn" in done.err


@pytest.mark.parametrize("words", [[], ["-"], ["--file", "-"]])
def test_the_prompt_cannot_come_from_stdin_too(harness: RunHarness, words: list[str]) -> None:
    done = harness.run("--steer", *words, *odd_agent("plain"), stdin="hi\n")
    assert done.code == 2
    assert "--steer reads stdin" in done.err
