"""The user's `config.toml` or `config.json`: models, turns, web, MCP."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar, cast
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct, field

from accord.coder.models.model import Effort
from accord.errors import UsageError
from accord.paths import config_dir

# MERGED coder.models.config: What the user's `config.toml` (or `config.json`) says about models. An error names the file, the key and the reason.
#
# The file belongs to all of Accord; this reads its keys `model`, `effort`, `endpoints`, `models` and `requests`. It holds no
# keys of providers.

FILE_NAMES: Final = ("config.toml", "config.json")

Kind: TypeAlias = Literal["openai-responses", "openai-chat", "anthropic", "google"]
"""How a server is spoken to."""

_Price: TypeAlias = Annotated[float, Meta(ge=0)]
_Count: TypeAlias = Annotated[int, Meta(ge=1)]

T = TypeVar("T")


class ConfigError(UsageError):
    """A setting cannot be used: which file, which key, why."""

    def __init__(self, file: Path | str, key: str, reason: str) -> None:
        super().__init__(f"{file}: {key}: {reason}" if key else f"{file}: {reason}")


class EndpointConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """`[endpoints.NAME]`: a server of models. Its key is `{NAME}_API_KEY`, or what `accord agent --login NAME` kept."""

    kind: Kind | None = None
    """Default: chat completions; for the built-in providers their own."""
    base_url: str | None = None
    """`{NAME}_BASE_URL` wins."""
    model: str | None = None
    """The model to use where none is named; `{NAME}_MODEL` wins."""
    models: tuple[str, ...] = ()
    """What to offer where the server does not tell."""
    needs_key: bool | None = None
    """Default: yes, unless the server is on this machine."""
    finish_reason: bool = True
    """Whether the server ends every stream with a finish reason. If so, a stream without one was cut off."""


class ModelFacts(Struct, frozen=True, forbid_unknown_fields=True):
    """`[models."provider:name"]`: what is known of a model. Prices are US dollars for a million tokens."""

    context: _Count | None = None
    max_output: _Count | None = None
    images: bool | None = None
    input: _Price | None = None
    output: _Price | None = None
    cached_read: _Price | None = None
    """Default: the price of input."""
    cached_write: _Price | None = None
    """Default: the price of input."""


class RequestConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """`[requests]`: how long to try."""

    attempts: Annotated[int, Meta(ge=1, le=20)] = 6
    """How often a request is sent at most, the first time included."""
    silence: Annotated[float, Meta(gt=0)] = 600.0
    """Seconds without a byte from the provider after which a stream is given up."""
    longest_wait: Annotated[float, Meta(gt=0)] = 120.0
    """A provider that asks to wait longer than this is not waited for."""


class ModelsConfig(Struct, frozen=True):
    """All of it."""

    model: str | None = None
    effort: Effort | None = None
    endpoints: dict[str, EndpointConfig] = field(default_factory=dict[str, EndpointConfig])
    models: dict[str, ModelFacts] = field(default_factory=dict[str, ModelFacts])
    requests: RequestConfig = RequestConfig()


def load_models_config(folder: Path | None = None) -> ModelsConfig:
    """What the config folder says; nothing set if it has no file."""
    folder = folder or config_dir()
    found = [file for name in FILE_NAMES if (file := folder / name).is_file()]
    if len(found) > 1:
        raise ConfigError(found[1], "", f"stands beside {found[0].name}: keep one of them")
    return from_mapping(read_file(found[0]), found[0]) if found else ModelsConfig()


def read_file(file: Path) -> dict[str, Any]:
    """The keys of a config file."""
    try:
        data = file.read_bytes()
        value: Any = msgspec.toml.decode(data) if file.suffix == ".toml" else msgspec.json.decode(data)
    except OSError as error:
        raise ConfigError(file, "", f"cannot be read ({error.strerror})") from None
    except (ValueError, msgspec.MsgspecError) as error:
        raise ConfigError(file, "", f"not valid {file.suffix[1:].upper()}: {error}") from None
    if not isinstance(value, dict):
        raise ConfigError(file, "", "not an object")
    return cast(dict[str, Any], value)


def from_mapping(value: Mapping[str, Any], file: Path | str) -> ModelsConfig:
    """The part of a config file that is about models."""
    endpoints = _table(value, "endpoints", EndpointConfig, file)
    for name, endpoint in endpoints.items():
        if not re.fullmatch(r"[a-z0-9][a-z0-9._-]*", name):
            raise ConfigError(
                file, f"endpoints.{name}", "the name of an endpoint is of a-z, 0-9, '.', '_' and '-'"
            )
        if endpoint.base_url is not None and (fault := fault_of_address(endpoint.base_url)):
            raise ConfigError(file, f"endpoints.{name}.base_url", fault)
    rest = {key: value[key] for key in ("model", "effort", "requests") if key in value}
    config = convert(rest, ModelsConfig, file, "")
    return msgspec.structs.replace(
        config, endpoints=endpoints, models=_table(value, "models", ModelFacts, file)
    )


def fault_of_address(url: str) -> str | None:
    """Why requests cannot be sent to this address; None if they can. Addresses are shown, so they hold no secrets."""
    try:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
            return "not an http or https address"
    except ValueError:
        return "not an http or https address"
    if "@" in parts.netloc or parts.query or parts.fragment:
        return "an address has no name, password or query; set {NAME}_API_KEY, or use `accord agent --login NAME`"
    return None


def _table(value: Mapping[str, Any], key: str, kind: type[T], file: Path | str) -> dict[str, T]:
    entries = convert(value.get(key, {}), dict[str, Any], file, key)
    return {name: convert(entry, kind, file, f"{key}.{name}") for name, entry in entries.items()}


def convert(value: Any, kind: type[T], file: Path | str, key: str) -> T:
    """A setting in its type; what is wrong with it is said with the file and the key."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at `$")
        place = place.rstrip("`")
        if unknown := re.search(r"unknown field `(.*?)`", reason):
            place = f"{place}.{unknown[1]}"
            reason = _NO_KEYS if unknown[1] in _NAMES_OF_KEYS else "there is no such setting"
        raise ConfigError(file, (key + place).lstrip("."), reason) from None


_NAMES_OF_KEYS: Final = ("key", "api_key", "apiKey", "token")
_NO_KEYS: Final = "keys do not belong here: set {NAME}_API_KEY, or use `accord agent --login NAME`"


# MERGED coder.config: The user's config file, whole: what each part of the agent reads of it, and that nothing in it is misspelt.

KEYS: Final = (
    "model", "effort", "endpoints", "models", "requests",  # accord.coder.models
    "mode", "permissions", "permission_seconds", "sandbox",  # accord.coder.permissions
    "turn", "web", "mcp",
)  # fmt: skip


class TurnConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """`[turn]`: the bounds of one turn."""

    requests: Annotated[int, Meta(ge=1, le=10_000)] = 200
    """How many requests to the model a turn may make before it ends as `max_turn_requests`."""
    subagent_requests: Annotated[int, Meta(ge=1, le=10_000)] = 50
    """The same for each task that is handed to a sub-agent."""
    question_seconds: Annotated[float, Meta(gt=0)] = 600.0
    """How long a question of the model's to the user waits for its answer."""


class WebConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """`[web]`: what may be fetched beside the public internet."""

    allowed: tuple[str, ...] = ()
    """Hosts and networks that may be asked although they are not public."""


class McpConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """`[mcp]`: how MCP servers are waited for."""

    start_seconds: Annotated[float, Meta(ge=0)] = 5.0
    """How long the first turn waits for servers that are still starting; they go on starting behind it."""


class Config(Struct, frozen=True):
    """Everything the file says."""

    models: ModelsConfig = field(default_factory=ModelsConfig)
    turn: TurnConfig = TurnConfig()
    web: WebConfig = WebConfig()
    mcp: McpConfig = McpConfig()
    mapping: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The file as it is, for the parts that read their keys themselves."""
    file: Path | None = None


def config_file(folder: Path | None = None) -> Path | None:
    """The user's config file, if there is one. Raises ConfigError where there are two."""
    folder = folder or config_dir()
    found = [file for name in FILE_NAMES if (file := folder / name).is_file()]
    if len(found) > 1:
        raise ConfigError(found[1], "", f"stands beside {found[0].name}: keep one of them")
    return found[0] if found else None


def load_config(folder: Path | None = None) -> Config:
    """What the config folder says; nothing set if it has no file. Raises ConfigError."""
    file = config_file(folder)
    if file is None:
        return Config()
    mapping = read_file(file)
    for key in mapping:
        if key not in KEYS:
            raise ConfigError(file, key, f"there is no such setting; there are: {', '.join(KEYS)}")
    return Config(
        models=from_mapping(mapping, file),
        turn=_part(mapping, "turn", TurnConfig, file),
        web=_part(mapping, "web", WebConfig, file),
        mcp=_part(mapping, "mcp", McpConfig, file),
        mapping=mapping,
        file=file,
    )


def _part(mapping: Mapping[str, Any], key: str, kind: Any, file: Path) -> Any:
    try:
        return msgspec.convert(mapping.get(key, {}), kind)
    except msgspec.ValidationError as error:
        raise ConfigError(file, key, str(error)) from None
