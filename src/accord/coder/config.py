"""The user's config file, whole: what each part of the agent reads of it, and that nothing in it is misspelt."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct, field

from accord.coder.models.config import FILE_NAMES, ConfigError, ModelsConfig, from_mapping, read_file
from accord.paths import config_dir

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


def load(folder: Path | None = None) -> Config:
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
