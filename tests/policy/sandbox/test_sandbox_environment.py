"""Which environment variables reach commands."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.policy.sandbox.sandbox_harness import SandboxHarness

from accord.policy.sandbox import clean_env, without_credentials
from accord.policy.sandbox.command_environment import tool_folders, words

WANTED = {
    "PATH": "/usr/bin",
    "HOME": "/home/ada",
    "LANG": "C.UTF-8",
    "LC_TIME": "de_DE.UTF-8",
    "TERM": "xterm",
    "VIRTUAL_ENV": "/home/ada/p/.venv",
    "PYTHONPATH": "src",
    "NODE_ENV": "test",
    "CARGO_HOME": "/home/ada/.cargo",
    "GOPATH": "/home/ada/go",
    "JAVA_HOME": "/usr/lib/jvm",
    "HTTPS_PROXY": "http://proxy:3128",
    "SSL_CERT_FILE": "/etc/ssl/cert.pem",
    "GIT_AUTHOR_NAME": "Ada",
    "NPM_CONFIG_PREFIX": "/home/ada/.npm-global",
}
CREDENTIALS = {
    "OPENAI_API_KEY": "x",
    "ANTHROPIC_API_KEY": "x",
    "GEMINI_APIKEY": "x",
    "GITHUB_TOKEN": "x",
    "NPM_TOKEN": "x",
    "NODE_AUTH_TOKEN": "x",
    "NPM_CONFIG_//registry.npmjs.org/:_authToken": "x",
    "npm_config__auth": "x",
    "CARGO_REGISTRY_TOKEN": "x",
    "POETRY_PYPI_TOKEN_PYPI": "x",
    "POETRY_HTTP_BASIC_REPO_PASSWORD": "x",
    "UV_PUBLISH_PASSWORD": "x",
    "AWS_ACCESS_KEY_ID": "x",
    "AWS_SECRET_ACCESS_KEY": "x",
    "AWS_SESSION_TOKEN": "x",
    "GOOGLE_APPLICATION_CREDENTIALS": "/x.json",
    "AZURE_CLIENT_SECRET": "x",
    "COMPOSER_AUTH": "{}",
    "DATABASE_URL": "postgres://localhost/x",
    "FLASK_SECRET_KEY": "x",
    "PGPASSWORD": "x",
    "PIP_INDEX_URL": "https://ada:pass@pypi.example.org/simple",
    "HTTP_PROXY": "http://ada:pass@proxy:3128",
    "NODE_OPTIONS": "--title=ghp_0123456789012345678901234567890123",
    "PYTHONHASHSEED": "sk-" + "0" * 24,
}
CHANNELS = words(
    "SSH_AUTH_SOCK DBUS_SESSION_BUS_ADDRESS DOCKER_HOST XDG_RUNTIME_DIR DISPLAY WAYLAND_DISPLAY XAUTHORITY "
    "GPG_AGENT_INFO KRB5CCNAME KUBECONFIG BASH_ENV ENV LD_PRELOAD GIT_SSH_COMMAND GIT_ASKPASS "
    "GIT_CONFIG_COUNT TMUX NOTIFY_SOCKET SOME_UNKNOWN_NAME AWS_PROFILE ACCORD_HOME TMPDIR"
)


def test_clean_env_keeps_only_what_tools_need():
    assert clean_env({**WANTED, **CREDENTIALS, **dict.fromkeys(CHANNELS, "x")}) == WANTED


def test_without_credentials_keeps_everything_else():
    channels = dict.fromkeys(CHANNELS, "x")
    assert without_credentials({**WANTED, **CREDENTIALS, **channels}) == {**WANTED, **channels}


def test_variables_named_by_the_user_are_kept():
    assert clean_env(CREDENTIALS, keep=["NPM_TOKEN"]) == {"NPM_TOKEN": "x"}
    assert without_credentials(CREDENTIALS, keep=["NPM_TOKEN"]) == {"NPM_TOKEN": "x"}


NAMES = st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ_", max_size=12)
SECRET_WORDS = st.sampled_from(
    words("API_KEY TOKEN SECRET PASSWORD PASSWD ACCESS_KEY PRIVATE_KEY CREDENTIALS")
)
PREFIXES = st.sampled_from(["", "PYTHON", "NODE_", "CARGO_", "PIP_", "UV_", "LC_", "RUST", "GIT_", "POETRY_"])


@given(prefix=PREFIXES, before=NAMES, word=SECRET_WORDS, after=NAMES)
def test_names_that_contain_a_secret_word_are_removed(prefix: str, before: str, word: str, after: str):
    name = f"{prefix}{before}_{word}{'_' + after if after else ''}"
    assert clean_env({name: "x"}) == without_credentials({name: "x"}) == {}


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_cleaning_never_adds_or_changes_a_variable(env: dict[str, str]):
    for cleaned in (clean_env(env), without_credentials(env)):
        assert cleaned.items() <= env.items()
    assert clean_env(env).items() <= without_credentials(env).items()


def test_a_command_sees_no_credentials_of_this_process(
    harness: SandboxHarness, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key-of-this-process")
    harness.env |= CREDENTIALS
    seen = {line.partition("=")[0]: line.partition("=")[2] for line in harness.run("env").out.splitlines()}
    assert seen.keys().isdisjoint(CREDENTIALS.keys())
    assert "ANTHROPIC_API_KEY" not in seen
    assert seen["HOME"] == harness.sandbox.home
    assert seen["TMPDIR"] == harness.sandbox.temp
    assert seen["PWD"] == os.fspath(harness.project)


def test_the_environment_of_the_request_is_passed_on(harness: SandboxHarness):
    assert "MY_TOKEN=given" in harness.run("env", env={"MY_TOKEN": "given"}).out.splitlines()


def test_variables_added_by_the_terminal_do_not_reach_the_command(harness: SandboxHarness):
    """A client's terminal adds its own environment to the one that it is given."""
    confined = harness.sandbox.wrap(["env"])
    done = subprocess.run(
        confined.argv, env={**os.environ, "LEAK": "x", **confined.env}, cwd=confined.cwd, capture_output=True
    )
    seen = {line.partition(b"=")[0] for line in done.stdout.splitlines()}
    assert b"LEAK" not in seen
    assert seen <= {b"HOME", b"PATH", b"LANG", b"TMPDIR", b"PWD"}


def test_tool_folders_include_those_on_the_search_path(tmp_path: Path):
    home, toolchain = tmp_path / "home", tmp_path / "toolchain"
    (home / ".local" / "bin").mkdir(parents=True)
    toolchain.mkdir()
    folders = list(tool_folders(str(home), f"{toolchain}:{tmp_path}/missing"))
    assert {str(home / ".local" / "bin"), str(toolchain)} <= set(folders)
    assert f"{tmp_path}/missing" not in folders
