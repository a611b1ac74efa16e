"""Agents that Accord installed from a registry: pinned versions and checksums, and the cached registries."""

import time
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, field

from accord.errors import UsageError
from accord.file_format import FileFormat
from accord.frontend.agent_config.archive_install import check_address, download, is_url
from accord.frontend.agent_config.config_values import BadAgentConfig
from accord.frontend.agent_config.registry_file import RegistryAgent, read_registry
from accord.paths import data_dir
from accord.private_files import locked, private_folder

_FORMAT: Final = FileFormat()
MAX_REGISTRY: Final = 5 * 1024 * 1024
_CACHE_SECONDS: Final = 3600.0
_CACHE: Final = "_registries"
"""The folder of cached registries, beside those of the agents: no id of an agent can begin with `_`."""


class Pin(Struct, frozen=True):
    """What was installed of one agent."""

    version: str
    kind: str
    """`binary`, `npx` or `uvx`."""
    source: str
    """The address of the archive, or the package."""
    registry: str
    """The file or address of the registry."""
    sha256: str = ""
    """Of the archive, as it was downloaded."""


class _PinFile(Struct):
    agents: dict[str, Pin] = field(default_factory=dict[str, Pin])


def agents_folder() -> Path:
    """Return the folder of all installed agents."""
    return data_dir() / "agents"


def read_pins() -> dict[str, Pin]:
    """Return what is installed, by id. Raises UsageError if a newer version wrote the file."""
    return _read(_pins_path()).agents


def write_pin(id: str, pin: Pin | None) -> None:
    """Record what was installed; None forgets it. Raises UsageError."""
    path = _pins_path()
    private_folder(path.parent)
    with locked(path.with_suffix(".lock")):
        content = _read(path)
        content.agents.pop(id, None)
        if pin is not None:
            content.agents[id] = pin
        _FORMAT.write(path, content)


def _pins_path() -> Path:
    return agents_folder() / "installed.json"


def _read(path: Path) -> _PinFile:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return _PinFile()
    try:
        return _FORMAT.decode(data, _PinFile, path)
    except (msgspec.MsgspecError, ValueError):
        raise UsageError(f"{path} is damaged; remove it and install the agents again") from None


def load_registry(source: str, *, refresh: bool = False) -> dict[str, RegistryAgent]:
    """Read a registry from a file or an address. Raises UsageError.

    A downloaded one is kept for an hour, and longer if it cannot be downloaded again. With `refresh`, it is
    downloaded in any case.
    """
    if not is_url(source):
        return read_registry(Path(source).expanduser())
    check_address(source)
    path = private_folder(agents_folder() / _CACHE) / f"{_cache_name(source)}.json"
    is_fresh = path.exists() and time.time() - path.stat().st_mtime < _CACHE_SECONDS
    if not is_fresh or refresh:
        new = path.with_suffix(".new")
        try:
            with new.open("wb") as file:
                download(source, file, MAX_REGISTRY)
            read_registry(new, source)  # a broken download does not replace the last good copy
            new.replace(path)
        except BadAgentConfig:
            raise
        except UsageError:
            if refresh or not path.exists():
                raise
        finally:
            new.unlink(missing_ok=True)
    return read_registry(path, source)


def _cache_name(source: str) -> str:
    import hashlib

    return hashlib.sha256(source.encode()).hexdigest()[:32]
