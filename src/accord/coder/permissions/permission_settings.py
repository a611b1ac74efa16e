"""`mode`, `permission_seconds`, `[permissions]` and `[sandbox]` of the config.

Errors name the file, the key and the reason: a misspelled setting must never widen permissions.

Imported on first use: it loads the policy.
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
from accord.policy.mode_names import MODES, Mode
from accord.policy.rules import Rules, read_permissions

QUESTION_SECONDS: Final = 600.0
"""The default timeout of a question, in seconds."""
_VARIABLE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class SandboxSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """`[sandbox]`: limits for commands. Paths are absolute or start with `~/`."""

    enabled: bool = True
    """Whether commands run in the sandbox."""
    network: bool = False
    """Whether commands may use the network."""
    readable: tuple[str, ...] = ()
    """What commands may read besides the session's folders and the tools; secret files only if named exactly.
    """
    writable: tuple[str, ...] = ()
    """What commands may write besides the session's folders."""
    hidden: tuple[str, ...] = ()
    """What commands must not see."""
    backend: Literal["bubblewrap", "landlock"] | None = None
    """Requires this backend: if it does not work, no command runs."""
    keep_env: tuple[str, ...] = ()
    """Environment variables that commands always get."""


@dataclass(frozen=True, slots=True)
class PermissionSettings:
    """The permission settings of the config file."""

    rules: Rules = field(default_factory=Rules)
    mode: Mode = "ask"
    """The mode of new sessions."""
    question_seconds: float | None = QUESTION_SECONDS
    """The timeout of a question; None waits until the turn ends."""
    sandbox: SandboxSettings = field(default_factory=SandboxSettings)


def permission_settings(value: Mapping[str, Any], file: Path | str) -> PermissionSettings:
    """The permission settings of a config file. Raises ConfigError, or BadRules."""
    return PermissionSettings(
        read_permissions(value.get("permissions", {}), file=str(file)),
        _mode(value.get("mode", "ask"), file),
        _seconds(value.get("permission_seconds", QUESTION_SECONDS), file),
        _sandbox(value.get("sandbox", {}), file),
    )


def _mode(value: Any, file: Path | str) -> Mode:
    for mode in MODES:
        if value == mode:
            return mode
    raise ConfigError(file, "mode", f"{value!r} is not one of {', '.join(MODES)}")


def _seconds(value: Any, file: Path | str) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ConfigError(file, "permission_seconds", f"{value!r} is not a number of seconds above 0")
    return None if math.isinf(value) else float(value)


def _sandbox(value: Any, file: Path | str) -> SandboxSettings:
    settings = convert(value, SandboxSettings, file, "sandbox")
    paths = {
        key: tuple(_path(path, file, f"sandbox.{key}[{number}]") for number, path in enumerate(paths))
        for key, paths in (
            ("readable", settings.readable),
            ("writable", settings.writable),
            ("hidden", settings.hidden),
        )
    }
    for number, name in enumerate(settings.keep_env):
        if not _VARIABLE_NAME.fullmatch(name):
            raise ConfigError(file, f"sandbox.keep_env[{number}]", f"{name!r} is not a variable name")
    return msgspec.structs.replace(settings, **paths)


def _path(path: str, file: Path | str, key: str) -> str:
    expanded = os.path.expanduser(path) if path == "~" or path.startswith("~/") else path
    if not os.path.isabs(expanded) or "\0" in expanded:
        raise ConfigError(file, key, f"{path!r} is not absolute and does not start with ~/")
    return os.path.normpath(expanded)
