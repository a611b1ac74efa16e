"""What the user's `config.toml` says about permissions: `mode`, `permission_seconds`, `[permissions]` and `[sandbox]`.

An error names the file, the key and the reason: a typing error must never widen what is allowed.
"""

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from accord.coder.user_config import ConfigError, convert
from accord.policy.request import MODES, Mode
from accord.policy.rules import Rules, read_permissions

PATIENCE: Final = 600.0
"""Seconds that a question waits for its answer where nothing else is set."""
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class SandboxSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """`[sandbox]`: what commands are confined to. Paths are absolute, or begin with `~/`."""

    enabled: bool = True
    network: bool = False
    """Whether commands reach the network."""
    readable: tuple[str, ...] = ()
    """What commands may read besides the session's folders and the tools; a secret only if it is named exactly."""
    writable: tuple[str, ...] = ()
    """What commands may write besides the session's folders."""
    hidden: tuple[str, ...] = ()
    """What commands must not see."""
    backend: Literal["bubblewrap", "landlock"] | None = None
    """Insists on one: where it does not work, no command runs."""
    keep_env: tuple[str, ...] = ()
    """Variables that commands are given in any case."""


@dataclass(frozen=True, slots=True)
class PermissionSettings:
    """All of it."""

    rules: Rules = field(default_factory=Rules)
    mode: Mode = "ask"
    """Of new sessions."""
    seconds: float | None = PATIENCE
    """How long a question waits for its answer; None as long as the turn does."""
    sandbox: SandboxSettings = field(default_factory=SandboxSettings)


def from_mapping(value: Mapping[str, Any], file: Path | str) -> PermissionSettings:
    """The part of a config file that is about permissions. Raises ConfigError, or BadRules."""
    return PermissionSettings(
        read_permissions(value.get("permissions", {}), file=str(file)),
        _mode(value.get("mode", "ask"), file),
        _seconds(value.get("permission_seconds", PATIENCE), file),
        _sandbox(value.get("sandbox", {}), file),
    )


def _mode(value: Any, file: Path | str) -> Mode:
    for mode in MODES:
        if value == mode:
            return mode
    raise ConfigError(file, "mode", f"{value!r} is none of {', '.join(MODES)}")


def _seconds(value: Any, file: Path | str) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ConfigError(file, "permission_seconds", f"{value!r} is no number of seconds above 0")
    return None if math.isinf(value) else float(value)


def _sandbox(value: Any, file: Path | str) -> SandboxSettings:
    settings = convert(value, SandboxSettings, file, "sandbox")
    places = {
        key: tuple(_path(path, file, f"sandbox.{key}[{number}]") for number, path in enumerate(paths))
        for key, paths in (
            ("readable", settings.readable),
            ("writable", settings.writable),
            ("hidden", settings.hidden),
        )
    }
    for number, name in enumerate(settings.keep_env):
        if not _VARIABLE.fullmatch(name):
            raise ConfigError(file, f"sandbox.keep_env[{number}]", f"{name!r} is no name of a variable")
    return msgspec.structs.replace(settings, **places)


def _path(path: str, file: Path | str, key: str) -> str:
    whole = os.path.expanduser(path) if path == "~" or path.startswith("~/") else path
    if not os.path.isabs(whole) or "\0" in whole:
        raise ConfigError(file, key, f"{path!r} is neither absolute nor begins with ~/")
    return os.path.normpath(whole)
