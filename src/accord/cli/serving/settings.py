"""The settings of `accord serve`: `serve.json` in the config folder, and the options that go before it."""

import re
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from accord.errors import UsageError
from accord.gateway.access.limits import Limits
from accord.paths import config_dir

PORT: Final = 8765
PORTS_TRIED: Final = 20
_LARGEST: Final = 1024 * 1024
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}

Minutes = Annotated[float, Meta(gt=0, le=525_600)]
Seconds = Annotated[float, Meta(ge=0, le=86_400)]
Port = Annotated[int, Meta(ge=0, le=65_535)]


class Settings(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Everything that can be set about a gateway."""

    agents: tuple[str, ...] = ()
    """Names; none means those of acp.json and the built-in one."""
    host: str = "127.0.0.1"
    port: Port | None = None
    """None is the usual one or the next that is free; 0 lets the system choose."""
    host_names: tuple[str, ...] = ()
    allow_origins: tuple[str, ...] = ()
    proxies: tuple[str, ...] = ()
    tls_cert: str | None = None
    tls_key: str | None = None
    insecure: bool = False
    folders: tuple[str, ...] = ()
    idle: Minutes = 15.0
    stop_wait: Seconds = 30.0
    limits: Limits = Limits()


def settings_file() -> Path:
    """Where they stand."""
    return config_dir() / "serve.json"


def read_settings(path: Path | None = None) -> Settings:
    """Those of the file; the usual ones where there is none. Raises UsageError."""
    path = settings_file() if path is None else path
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST)
    except FileNotFoundError:
        return Settings()
    except OSError as error:
        raise UsageError(f"{path}: it cannot be read ({error.strerror})") from None
    try:
        return msgspec.json.decode(data, type=Settings)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}; docs/gateway.md shows the form") from None


def with_limits(limits: Limits, given: list[str]) -> Limits:
    """The limits with each NAME=N of the command line in its place. Raises UsageError."""
    names = [field.encode_name for field in msgspec.structs.fields(Limits)]
    raw = msgspec.to_builtins(limits)
    for text in given:
        name, mark, value = text.partition("=")
        if not mark or name not in names:
            raise UsageError(f"--limit {text!r}: write it as NAME=N; there are: {', '.join(names)}")
        try:
            raw[name] = float(value) if "PerSecond" in name or "Burst" in name else int(value)
        except ValueError:
            raise UsageError(f"--limit {text!r}: {value!r} is no number") from None
    try:
        return msgspec.convert(raw, Limits)
    except msgspec.ValidationError as error:
        raise UsageError(f"--limit: {error}") from None


def seconds_of(option: str, text: str) -> float:
    """A time such as `30d`, in seconds. Raises UsageError."""
    found = re.fullmatch(r"([0-9]{1,6})([smhdw])", text.strip().lower())
    if found is None or not int(found[1]):
        raise UsageError(f"{option} {text!r} is no time: write it as 12h, 30d or 8w")
    return int(found[1]) * _UNITS[found[2]]
