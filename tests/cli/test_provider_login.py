"""`accord agent --login` and `--logout`, on a terminal and from a script."""

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest
from tests.accord_command import run_accord
from tests.cli.terminal import in_terminal

KEY = "sk-test-0123456789abcdef"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def environment(home: Path, **more: str) -> dict[str, str]:
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.endswith(("_API_KEY", "_BASE_URL", "_MODEL"))
    }
    return {**inherited, "ACCORD_HOME": str(home), **more}


def accord_agent(
    *words: str, home: Path, stdin: bytes | None = b"", **more: str
) -> subprocess.CompletedProcess[str]:
    run = run_accord("agent", *words, stdin=stdin, env=environment(home, **more))
    assert "Traceback" not in run.stderr
    assert KEY not in run.stdout + run.stderr
    return run


def file_of(home: Path) -> Path:
    return home / "config" / "credentials.json"


def keys(home: Path) -> dict[str, str]:
    return json.loads(file_of(home).read_bytes())["keys"]


def config(home: Path, text: str) -> None:
    (home / "config").mkdir(parents=True, exist_ok=True)
    (home / "config" / "config.toml").write_text(text)


def test_a_script_passes_the_key_on_stdin(home: Path) -> None:
    run = accord_agent("--login", "openai", home=home, stdin=f"{KEY}\nmore\n".encode())
    assert run.returncode == 0
    assert run.stdout == ""
    assert str(file_of(home)) in run.stderr
    assert "openai:" in run.stderr  # the model that is used from now on
    assert keys(home) == {"openai": KEY}
    assert stat.S_IMODE(file_of(home).stat().st_mode) == 0o600
    assert stat.S_IMODE(file_of(home).parent.stat().st_mode) == 0o700


def test_a_user_chooses_a_provider_and_types_a_hidden_key(home: Path) -> None:
    config(home, '[endpoints.work]\nbase_url = "https://models.example.com/v1"\nmodel = "m"\n')
    with in_terminal("agent", "--login", env=environment(home, OPENAI_API_KEY="x")) as terminal:
        terminal.expect("Number or name: ")
        assert "OPENAI_API_KEY is set" in terminal.shown
        assert "https://models.example.com/v1" in terminal.shown
        terminal.type("work\n")
        terminal.expect("Key for work (not shown): ")
        terminal.type(f"{KEY}\n")
        terminal.expect("--model work")
        assert terminal.end() == 0
    assert KEY not in terminal.shown
    assert str(file_of(home)) in terminal.shown
    assert keys(home) == {"work": KEY}


def test_a_provider_can_be_chosen_by_number_or_alias(home: Path) -> None:
    with in_terminal("agent", "--login", env=environment(home)) as terminal:
        terminal.expect("Number or name: ")
        terminal.type("1\n")
        terminal.expect("Key for anthropic")
        terminal.type(f"{KEY}\n")
        assert terminal.end() == 0
    accord_agent("--login", "Gemini", home=home, stdin=KEY.encode())
    accord_agent("--login", "openai-chat", home=home, stdin=KEY.encode())
    assert keys(home) == {"anthropic": KEY, "google": KEY, "openai": KEY}


def test_a_script_adds_a_server_of_its_own(home: Path) -> None:
    config(home, 'effort = "high"   # kept\n')
    run = accord_agent("--login", "work=https://models.example.com/v1", home=home, stdin=KEY.encode())
    assert run.returncode == 0
    assert "--model work:MODEL" in run.stderr
    assert keys(home) == {"work": KEY}
    text = (home / "config" / "config.toml").read_text()
    assert text == (
        'effort = "high"   # kept\n\n[endpoints.work]\nbase_url = "https://models.example.com/v1"\n'
    )
    again = accord_agent("--login", "work=https://other.example.com/v1", home=home, stdin=b"sk-of-other\n")
    assert (again.returncode, "has a server work already" in again.stderr) == (2, True)
    local = accord_agent("--login", "gpu.1=http://127.0.0.1:9/v1", home=home)
    assert local.returncode == 0, local.stderr
    assert '[endpoints."gpu.1"]' in (home / "config" / "config.toml").read_text()
    assert keys(home) == {"work": KEY}


def test_the_address_of_an_unknown_server_is_asked_for(home: Path) -> None:
    (home / "config").mkdir(parents=True)
    (home / "config" / "config.json").write_text('{"effort": "low"}')
    with in_terminal("agent", "--login", "work", env=environment(home)) as terminal:
        terminal.expect("Address of work, such as")
        terminal.type("https://models.example.com/v1\n")
        terminal.expect("Key for work (not shown; Enter for none): ")
        terminal.type("\n")
        assert terminal.end() == 0
    settings = json.loads((home / "config" / "config.json").read_bytes())
    assert settings == {
        "effort": "low",
        "endpoints": {"work": {"base_url": "https://models.example.com/v1"}},
    }


def test_login_suggests_the_provider_of_the_model_option(home: Path) -> None:
    started = ("agent", "--model", "openai:gpt", "--mode", "plan", "--strict", "--login")
    with in_terminal(*started, env=environment(home)) as terminal:
        terminal.expect("Number or name [openai]: ")
        terminal.type("\n")
        terminal.expect("Key for openai")
        terminal.type(f"{KEY}\n")
        assert terminal.end() == 0
    assert keys(home) == {"openai": KEY}


def test_an_aborted_login_changes_nothing(home: Path) -> None:
    with in_terminal("agent", "--login", env=environment(home)) as terminal:
        terminal.expect("Number or name: ")
        terminal.type("\n")
        assert terminal.end() == 2
    assert "nothing was changed" in terminal.shown
    with in_terminal("agent", "--login", "openai", env=environment(home)) as terminal:
        terminal.expect("Key for openai")
        terminal.type("\x04")  # the end of input
        assert terminal.end() == 2
    assert "Traceback" not in terminal.shown
    with in_terminal("agent", "--login", "openai", env=environment(home)) as terminal:
        terminal.expect("Key for openai")
        terminal.type("\x03")  # Ctrl-C
        assert terminal.end() == 130
    assert "Traceback" not in terminal.shown
    assert not file_of(home).exists()


@pytest.mark.parametrize(
    ("words", "stdin", "expected"),
    [
        (("--login", "opnai"), b"k", "unknown provider 'opnai'; use one of: anthropic, openai, google"),
        (("--login", "rehearsal"), b"k", "needs no key"),
        (("--login", "openai=https://x.example"), b"k", "openai is a built-in provider; choose another name"),
        (("--login", "Wörk=https://x.example"), b"k", "may have a-z, 0-9, '.', '_' and '-' only"),
        (("--login", "work=x.example"), b"k", "x.example: not an http or https address"),
        (("--login", "azure"), b"k", "azure: no address found; set AZURE_OPENAI_ENDPOINT"),
        (("--login", "openai"), b"", "no key for openai on stdin"),
        (("--login", "openai"), b"\n", "no key for openai on stdin"),
        (("--login", "openai"), b"two words\n", "spaces or characters that keys never have"),
        (("--login", "openai"), b"\xff\xfe\n", "spaces or characters that keys never have"),
        (("--login",), b"k", "missing provider"),
        (("--login", "--logout"), b"k", "exclude each other"),
        (("--logout", "opnai"), b"", "unknown provider 'opnai'; use one of: anthropic"),
    ],
)
def test_wrong_usage_is_a_one_line_error(
    home: Path, words: tuple[str, ...], stdin: bytes, expected: str
) -> None:
    run = accord_agent(*words, home=home, stdin=stdin)
    assert (run.returncode, run.stdout) == (2, "")
    assert expected in run.stderr
    assert run.stderr.count("\n") == 1
    assert not file_of(home).exists()


def test_an_environment_variable_that_overrides_the_key_is_named(home: Path) -> None:
    run = accord_agent("--login", "google", home=home, stdin=KEY.encode(), GEMINI_API_KEY="x")
    assert "GEMINI_API_KEY is set" in run.stderr
    run = accord_agent("--logout", home=home, GEMINI_API_KEY="x")
    assert "GEMINI_API_KEY is still set" in run.stderr


def test_logout_removes_one_key_or_all_and_names_them(home: Path) -> None:
    for provider in ("openai", "anthropic", "google"):
        accord_agent("--login", provider, home=home, stdin=KEY.encode())
    run = accord_agent("--logout", "gemini", home=home)
    assert run.returncode == 0
    assert run.stderr == f"Removed from {file_of(home)}: google.\n"
    assert keys(home).keys() == {"openai", "anthropic"}
    run = accord_agent("--logout", home=home)
    assert run.stderr == f"Removed from {file_of(home)}: openai, anthropic.\n"
    assert not file_of(home).exists()
    assert accord_agent("--logout", home=home).stderr == f"{file_of(home)} has no keys.\n"
    assert accord_agent("--logout", "openai", home=home).stderr == f"{file_of(home)} has no key of openai.\n"


def test_the_key_of_a_removed_endpoint_can_be_removed(home: Path) -> None:
    config(home, '[endpoints.work]\nbase_url = "https://models.example.com/v1"\n')
    accord_agent("--login", "work", home=home, stdin=KEY.encode())
    config(home, "")
    assert "work" in accord_agent("--logout", "work", home=home).stderr
    assert not file_of(home).exists()


def test_a_key_file_that_others_can_read_is_not_extended_but_can_be_removed(home: Path) -> None:
    accord_agent("--login", "openai", home=home, stdin=KEY.encode())
    file_of(home).chmod(0o644)
    run = accord_agent("--login", "google", home=home, stdin=KEY.encode())
    assert run.returncode == 2
    assert f"chmod 600 {file_of(home)}" in run.stderr
    assert accord_agent("--logout", home=home).returncode == 0
    assert not file_of(home).exists()


def test_a_broken_key_file_is_refused_with_advice(home: Path) -> None:
    accord_agent("--login", "openai", home=home, stdin=KEY.encode())
    file_of(home).write_text("{")
    run = accord_agent("--login", "google", home=home, stdin=KEY.encode())
    assert run.returncode == 2
    assert "`accord agent --logout`" in run.stderr
    assert accord_agent("--logout", home=home).returncode == 0
    assert accord_agent("--login", "google", home=home, stdin=KEY.encode()).returncode == 0


def test_a_folder_that_cannot_be_created_is_a_one_line_error(home: Path) -> None:
    home.write_text("in the way")
    run = accord_agent("--login", "openai", home=home, stdin=KEY.encode())
    assert run.returncode == 2
    assert "cannot change" in run.stderr
    assert run.stderr.count("\n") == 1
