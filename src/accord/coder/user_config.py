"""The user's `config.toml` or `config.json`: models, turns, web, MCP.

Errors name the file, the key and the reason.

The file holds no API keys.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar, cast
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct, field

from accord.coder.models.model import Effort
from accord.coder.models.model_name import Kind
from accord.errors import BadSettings
from accord.paths import CONFIG_NAMES, config_dir

"""The API of a model server."""

_Price: TypeAlias = Annotated[float, Meta(ge=0)]
_Count: TypeAlias = Annotated[int, Meta(ge=1)]
_Budget: TypeAlias = Annotated[float, Meta(gt=0, le=1e9)]

T = TypeVar("T")


class ConfigError(BadSettings):
    """An unusable setting: the file, the key and the reason."""

    def __init__(self, file: Path | str, key: str, reason: str) -> None:
        super().__init__(f"{file}: {key}: {reason}" if key else f"{file}: {reason}")


class EndpointConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """`[endpoints.NAME]`: a model server.

    Its key is `{NAME}_API_KEY`, or the one stored by `accord agent --login NAME`.
    """

    kind: Kind | None = None
    """Default: chat completions; built-in providers have their own API."""
    base_url: str | None = None
    """`{NAME}_BASE_URL` overrides it."""
    model: str | None = None
    """The default model of this server; `{NAME}_MODEL` overrides it."""
    models: tuple[str, ...] = ()
    """The models to offer if the server does not list them."""
    needs_key: bool | None = None
    """Default: yes, unless the server is on this machine."""
    finish_reason: bool = True
    """Whether the server ends every stream with a finish reason. If so, a stream without one was cut off."""


class ModelFacts(Struct, frozen=True, forbid_unknown_fields=True):
    """`[models."provider:name"]`: properties of a model. Prices are in US dollars per million tokens."""

    context: _Count | None = None
    """The size of its context, in tokens."""
    max_output: _Count | None = None
    """The longest answer, in tokens."""
    images: bool | None = None
    """Whether it accepts images."""
    input: _Price | None = None
    """The price of input tokens."""
    output: _Price | None = None
    """The price of output tokens."""
    cached_read: _Price | None = None
    """Default: the price of input."""
    cached_write: _Price | None = None
    """Default: the price of input."""


class RequestConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """`[requests]`: retries and timeouts."""

    attempts: Annotated[int, Meta(ge=1, le=20)] = 6
    """The maximum number of attempts for a request, including the first."""
    silence: Annotated[float, Meta(gt=0)] = 600.0
    """A stream is given up after this many seconds without a byte."""
    longest_wait: Annotated[float, Meta(gt=0)] = 120.0
    """Do not retry if the provider asks to wait longer than this."""


class ModelsConfig(Struct, frozen=True):
    """The model settings of the config file."""

    model: str | None = None
    """The model of new sessions: `provider:name`. `ACCORD_MODEL` and `--model` override it."""
    effort: Effort | None = None
    """How much the model reasons, if it can."""
    fallback_models: tuple[str, ...] = ()
    """Models that answer, in this order, if the provider of the chosen one fails."""
    small_model: str | None = None
    """A cheaper model for titles, summaries and sub-agents."""
    endpoints: dict[str, EndpointConfig] = field(default_factory=dict[str, EndpointConfig])
    models: dict[str, ModelFacts] = field(default_factory=dict[str, ModelFacts])
    requests: RequestConfig = RequestConfig()


def load_models_config(folder: Path | None = None) -> ModelsConfig:
    """The model settings of the config folder; defaults if it has no file. Raises ConfigError."""
    file = config_file(folder)
    return models_config(read_file(file), file) if file is not None else ModelsConfig()


def read_file(file: Path) -> dict[str, Any]:
    """The content of a config file, without its version. Raises ConfigError, NewerFormat."""
    from accord.file_format import FileFormat  # imported on first use

    try:
        data = file.read_bytes()
        value: Any = msgspec.toml.decode(data) if file.suffix == ".toml" else msgspec.json.decode(data)
    except OSError as error:
        raise ConfigError(file, "", f"cannot be read ({error.strerror})") from None
    except (ValueError, msgspec.MsgspecError) as error:
        raise ConfigError(file, "", f"not valid {file.suffix[1:].upper()}: {error}") from None
    if not isinstance(value, dict):
        raise ConfigError(file, "", "not an object")
    return FileFormat().upgrade(cast(dict[str, Any], value), file)


def models_config(value: Mapping[str, Any], file: Path | str) -> ModelsConfig:
    """The model settings of a config file. Raises ConfigError."""
    endpoints = _table(value, "endpoints", EndpointConfig, file)
    for name, endpoint in endpoints.items():
        if not re.fullmatch(r"[a-z0-9][a-z0-9._-]*", name):
            raise ConfigError(
                file, f"endpoints.{name}", "endpoint names may have a-z, 0-9, '.', '_' and '-' only"
            )
        if name == "rehearsal":
            raise ConfigError(file, f"endpoints.{name}", "the name is built in; choose another one")
        if endpoint.base_url is not None and (error := address_error(endpoint.base_url)):
            raise ConfigError(file, f"endpoints.{name}.base_url", error)
    keys = ("model", "effort", "fallback_models", "small_model", "requests")
    settings = {key: value[key] for key in keys if key in value}
    config = convert(settings, ModelsConfig, file, "")
    return msgspec.structs.replace(
        config, endpoints=endpoints, models=_table(value, "models", ModelFacts, file)
    )


def address_error(url: str) -> str | None:
    """Why requests cannot be sent to this address; None if they can.

    Addresses are shown, so they must hold no secrets.
    """
    try:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
            return "not an http or https address"
    except ValueError:
        return "not an http or https address"
    if "@" in parts.netloc or parts.query or parts.fragment:
        return (
            "an address must not have a name, password or query; remove it, "
            "and put the key into the provider's _API_KEY variable or run `accord agent --login PROVIDER`"
        )
    return None


def _table(value: Mapping[str, Any], key: str, kind: type[T], file: Path | str) -> dict[str, T]:
    entries = convert(value.get(key, {}), dict[str, Any], file, key)
    return {name: convert(entry, kind, file, f"{key}.{name}") for name, entry in entries.items()}


def convert(value: Any, kind: type[T], file: Path | str, key: str) -> T:
    """Convert a setting to its type. Raises ConfigError with the file and the key."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        from accord.schema.validation import explain_setting_error  # imported on first use

        reason, position = explain_setting_error(error, kind)
        if unknown := re.search(r"unknown field `(.*?)`", reason):
            position = f"{position}.{unknown[1]}"
            reason = _NO_KEYS_HERE if unknown[1] in _KEY_NAMES else "there is no such setting"
        raise ConfigError(file, (key + position).lstrip("."), reason) from None


_KEY_NAMES: Final = ("key", "api_key", "apiKey", "token")
_NO_KEYS_HERE: Final = "keys do not belong here: set {NAME}_API_KEY, or use `accord agent --login NAME`"


PERMISSION_KEYS: Final = ("mode", "permissions", "permission_seconds", "sandbox")
KEYS: Final = (
    *("model", "effort", "fallback_models", "small_model", "endpoints", "models", "requests"),
    *PERMISSION_KEYS,
    *("turn", "session", "web", "mcp", "hooks", "lsp"),
)


class TurnConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """`[turn]`: limits of one turn."""

    requests: Annotated[int, Meta(ge=1, le=10_000)] = 200
    """The maximum number of model requests in a turn; then it ends as `max_turn_requests`."""
    subagent_requests: Annotated[int, Meta(ge=1, le=10_000)] = 50
    """The maximum number of model requests of a sub-agent."""
    question_seconds: Annotated[float, Meta(gt=0)] = 600.0
    """How long a question of the model waits for the user."""
    cost: _Budget | None = None
    """The maximum cost of a turn, in US dollars; then it ends as `max_turn_requests`."""
    tokens: _Count | None = None
    """The maximum number of tokens of a turn, input and output; then it ends as `max_turn_requests`."""


class SessionConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """`[session]`: limits of a whole session. A turn that reaches one ends as `max_turn_requests`."""

    cost: _Budget | None = None
    """The maximum cost, in US dollars."""
    tokens: _Count | None = None
    """The maximum number of tokens, input and output."""
    requests: _Count | None = None
    """The maximum number of model requests."""


SearchSetting: TypeAlias = Literal["off", "auto", "provider", "brave", "tavily", "exa", "searxng"]


class WebConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """`[web]`: exceptions for `web_fetch`, and the service of `web_search`."""

    allowed: tuple[str, ...] = ()
    """Hosts and networks that may be fetched although they are not public."""
    search: SearchSetting = "off"
    """What `web_search` asks. `auto`: the model's provider if it can search, else the first with a key."""
    search_url: str | None = None
    """The address of SearXNG, or another address of the chosen service."""


class McpConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """`[mcp]`: waiting for MCP servers."""

    start_seconds: Annotated[float, Meta(ge=0)] = 5.0
    """How long the first turn waits for servers that are still starting. They continue to start after that.
    """


def _web_config(mapping: Mapping[str, Any], file: Path) -> WebConfig:
    config = convert(mapping.get("web", {}), WebConfig, file, "web")
    if config.search_url is not None and (error := address_error(config.search_url)):
        raise ConfigError(file, "web.search_url", error)
    return config


def mcp_server_tables(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """`[mcp.NAME]`: the user's MCP servers, as they are in the file."""
    value = mapping.get("mcp", {})
    members = cast(dict[str, Any], value) if isinstance(value, dict) else {}
    return {name: member for name, member in members.items() if isinstance(member, dict)}


class Config(Struct, frozen=True):
    """The whole config file."""

    models: ModelsConfig = field(default_factory=ModelsConfig)
    turn: TurnConfig = TurnConfig()
    session: SessionConfig = SessionConfig()
    web: WebConfig = WebConfig()
    mcp: McpConfig = McpConfig()
    mapping: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The raw content, for the parts that read their own keys."""
    file: Path | None = None


def _mcp_config(mapping: Mapping[str, Any], file: Path) -> McpConfig:
    """`[mcp]` without the servers. Raises ConfigError."""
    value = mapping.get("mcp", {})
    servers = mcp_server_tables(mapping)
    if isinstance(value, dict):
        members = cast(dict[str, Any], value)
        value = {name: member for name, member in members.items() if name not in servers}
    return convert(value, McpConfig, file, "mcp")


def config_file(folder: Path | None = None) -> Path | None:
    """The user's config file, if there is one. Raises ConfigError if there are two."""
    folder = folder or config_dir()
    files = [file for name in CONFIG_NAMES if (file := folder / name).is_symlink() or file.exists()]
    if len(files) > 1:
        raise ConfigError(files[1], "", f"there is also {files[0].name}: keep one of them")
    return files[0] if files else None


def load_config(folder: Path | None = None) -> Config:
    """The config of the folder; defaults if it has no file. Raises ConfigError."""
    file = config_file(folder)
    if file is None:
        return Config()
    mapping = read_file(file)
    for key in mapping:
        if key not in KEYS:
            raise ConfigError(file, key, f"there is no such setting; there are: {', '.join(KEYS)}")
    if "lsp" in mapping:
        from accord.coder.lsp.server_table import lsp_config  # imported on first use

        lsp_config(mapping, file)
    return Config(
        models=models_config(mapping, file),
        turn=convert(mapping.get("turn", {}), TurnConfig, file, "turn"),
        session=convert(mapping.get("session", {}), SessionConfig, file, "session"),
        web=_web_config(mapping, file),
        mcp=_mcp_config(mapping, file),
        mapping=mapping,
        file=file,
    )
