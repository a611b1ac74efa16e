"""Reading the permission settings of the user's config, and errors in it."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from accord.coder.permissions.permission_settings import (
    PermissionSettings,
    SandboxSettings,
    permission_settings,
)
from accord.coder.user_config import read_file
from accord.errors import UsageError

WHOLE = """
mode = "workspace-write"
permission_seconds = 90

[permissions]
default = "ask"
allow = [{ command = ["pytest *", "git status"] }, { tool = "mcp__docs__*" }]
ask = [{ path = "migrations/**", kind = "edit" }]
deny = [{ path = "infra/**" }, { host = "*.internal.example" }]

[sandbox]
enabled = true
network = true
readable = ["~", "~/.npmrc", "/srv/data"]
writable = ["/srv/cache/../cache"]
hidden = ["/srv/data/keys"]
backend = "landlock"
keep_env = ["DATABASE_URL"]
"""


def test_defaults_are_cautious():
    assert permission_settings({}, "") == PermissionSettings()
    assert (PermissionSettings().mode, PermissionSettings().question_seconds) == ("ask", 600.0)
    assert PermissionSettings().sandbox == SandboxSettings(enabled=True, network=False)


def test_all_settings_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", "/home/ada")
    file = tmp_path / "config.toml"
    file.write_text(WHOLE)
    settings = permission_settings(read_file(file), file)
    assert (settings.mode, settings.question_seconds) == ("workspace-write", 90.0)
    assert len(settings.rules.allow) == 2
    assert settings.rules.source == str(file)
    assert settings.sandbox == SandboxSettings(
        network=True,
        readable=("/home/ada", "/home/ada/.npmrc", "/srv/data"),
        writable=("/srv/cache",),
        hidden=("/srv/data/keys",),
        backend="landlock",
        keep_env=("DATABASE_URL",),
    )


def test_permissions_may_be_a_single_word():
    assert permission_settings({"permissions": "none"}, "c").rules.permission_default == "none"


def test_infinite_permission_seconds_means_no_limit():
    assert permission_settings({"permission_seconds": float("inf")}, "c").question_seconds is None


def test_examples_in_the_docs_are_valid():
    page = (Path(__file__).parents[3] / "docs" / "permissions.md").read_text()
    examples = re.findall(r"```toml[^\n]*\n(.*?)```", page, re.DOTALL)
    settings = [permission_settings(tomllib.loads(example), "config.toml") for example in examples]
    assert [bool(one.rules.deny) for one in settings] == [True, False]
    assert settings[1].sandbox.backend == "bubblewrap"


@pytest.mark.parametrize(
    ("value", "expected_text"),
    [
        (
            {"mode": "yolo"},
            "config.toml: mode: 'yolo' is not one of read-only, ask, workspace-write, full-access, plan",
        ),
        ({"mode": ["ask"]}, "config.toml: mode: ['ask'] is not one of"),
        ({"permission_seconds": 0}, "config.toml: permission_seconds: 0 is not a number of seconds above 0"),
        ({"permission_seconds": float("nan")}, "permission_seconds: nan is not a number"),
        ({"permission_seconds": True}, "permission_seconds: True is not a number"),
        ({"permission_seconds": "5"}, "permission_seconds: '5' is not a number"),
        ({"permissions": {"alow": []}}, "config.toml: permissions"),
        ({"permissions": {"deny": [{}]}}, "config.toml: permissions.deny[0]: a rule must name one of"),
        ({"permissions": []}, "config.toml: permissions: it must be one of"),
        ({"sandbox": "off"}, "config.toml: sandbox: Expected `object`"),
        ({"sandbox": {"enable": False}}, "config.toml: sandbox.enable: there is no such setting"),
        ({"sandbox": {"network": "no"}}, "config.toml: sandbox.network: Expected `bool`"),
        (
            {"sandbox": {"readable": ["data"]}},
            "sandbox.readable[0]: 'data' is not absolute and does not start with ~/",
        ),
        ({"sandbox": {"writable": ["/a", "~bob/x"]}}, "sandbox.writable[1]: '~bob/x' is not absolute"),
        ({"sandbox": {"hidden": ["/a\0"]}}, "sandbox.hidden[0]"),
        ({"sandbox": {"backend": "docker"}}, "config.toml: sandbox.backend: 'docker' is not one of "),
        ({"sandbox": {"keep_env": ["A=b"]}}, "sandbox.keep_env[0]: 'A=b' is not a variable name"),
    ],
)
def test_errors_name_file_key_and_reason(value: Any, expected_text: str):
    with pytest.raises(UsageError) as caught:
        permission_settings(value, "config.toml")
    assert expected_text in str(caught.value)
    assert "\n" not in str(caught.value)
