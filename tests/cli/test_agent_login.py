"""`accord agents login` and `logout`: every kind of sign-in method, with and without a terminal."""

import json
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.accord_command import run_accord
from tests.cli.terminal import Terminal, in_terminal

GATED = str(Path(__file__).parent / "agents" / "gated.py")

ACCOUNT = {"id": "account", "name": "Account", "description": "the usual \x1b[31mway"}
WEB = {"id": "web", "name": "In the browser"}
TTY = {"type": "terminal", "id": "tty", "name": "Here", "args": ["--login"], "env": {"FLAVOUR": "sweet"}}
KEY = {"type": "env_var", "id": "key", "name": "A key", "vars": [{"name": "GATED_KEY"}]}


class LoginHarness:
    """A user, and an agent called `gated` that requires sign-in."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.project = folder / "project"
        self.state = folder / "signed-in"
        self._log = folder / "log"
        for made in (self.home / "config", self.project):
            made.mkdir(parents=True)
        self.env = {**os.environ, "ACCORD_HOME": str(self.home), "TERM": "xterm"}
        self.offer(ACCOUNT, TTY, KEY)

    def offer(self, *methods: Any, **env: str) -> None:
        """Set the sign-in methods that the agent offers."""
        own = {
            "GATED_METHODS": json.dumps(methods),
            "GATED_STATE": str(self.state),
            "GATED_LOG": str(self._log),
            **env,
        }
        server = {"command": sys.executable, "args": [GATED, "--acp"], "env": own}
        (self.home / "config" / "acp.json").write_text(json.dumps({"servers": {"gated": server}}))

    def accord(self, *words: str, code: int = 0) -> str:
        """Run a command without a terminal and return its stderr."""
        ran = run_accord(*words, cwd=self.project, env=self.env)
        assert ran.returncode == code, ran.stderr
        assert "\x1b" not in ran.stderr
        return ran.stderr

    @contextmanager
    def at_terminal(self, *words: str) -> Generator[Terminal]:
        with in_terminal("agents", *words, "--cwd", str(self.project), env=self.env) as terminal:
            yield terminal

    @property
    def log(self) -> list[Any]:
        return [json.loads(line) for line in self._log.read_text().splitlines()]

    def called(self, method: str) -> list[Any]:
        return [entry["params"] for entry in self.log if entry.get("method") == method]


@pytest.fixture
def harness(tmp_path: Path) -> LoginHarness:
    return LoginHarness(tmp_path)


# -- on a terminal ---------------------------------------------------------------------------------------


@pytest.mark.rule("auth.terminal-capability", "auth.terminal-method-not-authenticated", "auth.terminal-login")
def test_a_terminal_method_runs_the_program_of_the_agent(harness: LoginHarness) -> None:
    with harness.at_terminal("login", "gated") as terminal:
        terminal.expect("How do you want to sign in to gated?")
        terminal.expect("1  account: Account, the usual way")
        terminal.expect("2  tty: Here (runs")
        terminal.expect("3  key: A key (set GATED_KEY)")
        terminal.expect("Number or id: ")
        terminal.type("2\n")
        terminal.expect("Password? ")
        terminal.type("sesame\n")
        terminal.expect("signed in to gated with 'Here'")
        assert terminal.end() == 0
    starts = [(entry["started"], entry["flavour"]) for entry in harness.log if "started" in entry]
    assert starts == [(["--acp"], None), (["--acp", "--login"], "sweet"), (["--acp"], None)]
    assert len(harness.called("initialize")) == 2
    assert harness.called("initialize")[0]["clientCapabilities"]["auth"] == {"terminal": True}
    assert harness.called("authenticate") == []
    harness.accord("run", "-a", "gated", "hello")


@pytest.mark.rule("auth.terminal-login")
def test_a_failed_sign_in_program_is_an_error(harness: LoginHarness) -> None:
    with harness.at_terminal("login", "gated", "tty") as terminal:
        terminal.expect("Password? ")
        terminal.type("wrong\n")
        terminal.expect("failed: the program exited with 3")
        assert terminal.end() == 1
    assert not harness.state.exists()


@pytest.mark.rule("auth.method-without-type")
def test_an_agent_method_shows_the_output_of_the_agent(harness: LoginHarness) -> None:
    with harness.at_terminal("login", "gated") as terminal:
        terminal.expect("Number or id: ")
        terminal.type("account\n")
        terminal.expect("gated: your code is ABCD-1234")
        terminal.expect("signed in to gated with 'Account'")
        assert terminal.end() == 0
    assert harness.called("authenticate") == [{"methodId": "account"}]


def test_a_sign_in_url_is_shown_and_confirmed(harness: LoginHarness) -> None:
    harness.offer(WEB)
    with harness.at_terminal("login", "gated") as terminal:
        terminal.expect("https://login.example/start")
        terminal.expect("[y/N]")
        terminal.type("y\n")
        assert terminal.end() == 0
    harness.state.unlink()
    with harness.at_terminal("login", "gated") as terminal:
        terminal.expect("[y/N]")
        terminal.type("\n")
        terminal.expect("The page was not opened")
        assert terminal.end() == 1


@pytest.mark.parametrize("typed", ["\n", "9\n", "nonsense\n", "\x04"])
def test_no_choice_changes_nothing(harness: LoginHarness, typed: str) -> None:
    with harness.at_terminal("login", "gated") as terminal:
        terminal.expect("Number or id: ")
        terminal.type(typed)
        terminal.expect("nothing was changed")
        assert terminal.end() == 2
    assert not harness.state.exists()


def test_ctrl_c_ends_the_question_and_the_sign_in_program(harness: LoginHarness) -> None:
    for words, shown in ((("login", "gated"), "Number or id: "), (("login", "gated", "tty"), "Password? ")):
        with harness.at_terminal(*words) as terminal:
            terminal.expect(shown)
            terminal.type("\x03")
            assert terminal.end() == 130
            assert "Traceback" not in terminal.shown
    for entry in harness.log:
        if "pid" in entry:
            with pytest.raises(ProcessLookupError):
                os.kill(entry["pid"], 0)


# -- without a terminal ----------------------------------------------------------------------------------


@pytest.mark.rule("auth.terminal-capability")
def test_without_a_terminal_the_method_must_be_named(harness: LoginHarness) -> None:
    output = harness.accord("agents", "login", "gated", code=2)
    assert output == ("accord agents: gated has several sign-in methods; pass one of: account, tty, key\n")
    assert "auth" not in harness.called("initialize")[0]["clientCapabilities"]
    assert "has no sign-in method 'nope'" in harness.accord("agents", "login", "gated", "nope", code=2)
    assert "needs a terminal" in harness.accord("agents", "login", "gated", "tty", code=2)
    assert harness.called("authenticate") == []


@pytest.mark.rule("auth.method-without-type", "auth.offers-login")
def test_sign_in_and_sign_out_change_what_a_run_may_do(harness: LoginHarness) -> None:
    output = harness.accord("run", "-a", "gated", "hello", code=6)
    assert "accord agents login gated account" in output
    assert "signed in to gated with 'Account'" in harness.accord("agents", "login", "gated", "account")
    harness.accord("run", "-a", "gated", "hello")
    assert harness.accord("agents", "logout", "gated") == "accord agents: signed out of gated\n"
    harness.accord("run", "-a", "gated", "hello", code=6)


def test_the_only_method_needs_no_name(harness: LoginHarness) -> None:
    harness.offer(ACCOUNT)
    harness.accord("agents", "login", "gated")
    assert harness.called("authenticate") == [{"methodId": "account"}]


def test_a_missing_environment_variable_is_explained(harness: LoginHarness) -> None:
    output = harness.accord("agents", "login", "gated", "key", code=6)
    assert output.splitlines() == [
        "accord agents: set GATED_KEY in your environment",
        "accord agents: pass it on with --env GATED_KEY, or in the acp.json entry of gated: "
        '"env": {"GATED_KEY": "${GATED_KEY}"}',
    ]
    harness.env["GATED_KEY"] = "secret"
    output = harness.accord("agents", "login", "gated", "key", code=6)
    assert output.startswith("accord agents: GATED_KEY is set, but it is not passed to gated\n")
    harness.offer(KEY, GATED_KEY="${GATED_KEY}")
    assert "nothing to do" in harness.accord("agents", "login", "gated")
    assert harness.called("authenticate") == []


@pytest.mark.rule("auth.logout-needs-capability")
def test_unsupported_sign_in_and_sign_out_are_reported(harness: LoginHarness) -> None:
    harness.offer(GATED_NO_LOGOUT="1")
    assert "offers no sign-in over ACP" in harness.accord("agents", "login", "gated", code=2)
    assert "does not support sign-out over ACP" in harness.accord("agents", "logout", "gated", code=2)
    assert harness.called("logout") == []
    assert "unknown agent" in harness.accord("agents", "login", "unknown", code=2)
    harness.accord("agents", "login", code=2)
