"""`accord agent --login NAME=URL`: adds a model server to the user's config file.

Imported on first use: it loads accord.coder.models.
"""

import os
import re
import stat
from pathlib import Path
from typing import Any

import msgspec

from accord.coder.models.endpoints import DEFAULT_MODELS
from accord.coder.models.model_name import REHEARSAL
from accord.coder.user_config import address_error, config_file, models_config, read_file
from accord.errors import UsageError
from accord.paths import config_dir, explain_file_error
from accord.private_files import private_folder, write_atomically


def check_endpoint(name: str, url: str) -> None:
    """Raise UsageError unless a server of this name and address can be added."""
    if name in DEFAULT_MODELS or name == REHEARSAL:
        raise UsageError(f"{name} is a built-in provider; choose another name for the server at {url}")
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]*", name):
        raise UsageError(f"server name {name!r} may have a-z, 0-9, '.', '_' and '-' only")
    if fault := address_error(url):
        raise UsageError(f"{url}: {fault}")


def add_endpoint(name: str, url: str) -> Path:
    """Write the address of a server into the config file and return the file. Raises UsageError.

    The rest of the file stays as it is. A server that the file has already keeps its other settings.
    """
    file = config_file() or config_dir() / "config.toml"
    settings = read_file(file) if file.exists() else {}
    endpoints: dict[str, Any] = settings.get("endpoints", {})
    known = endpoints.get(name)
    if known is not None and known.get("base_url") == url:
        return file
    if known is not None:
        raise UsageError(f"{file} has a server {name} already; change its base_url there")
    if file.suffix == ".json":
        members: dict[str, Any] = msgspec.json.decode(file.read_bytes())
        members["endpoints"] = {**endpoints, name: {"base_url": url}}
        data = msgspec.json.format(msgspec.json.encode(members), indent=2) + b"\n"
    else:
        old = file.read_bytes() if file.exists() else b""
        separator = b"" if not old else b"\n" if old.endswith(b"\n") else b"\n\n"
        data = old + separator + f"[endpoints.{_toml_key(name)}]\nbase_url = {_toml_text(url)}\n".encode()
        _check_toml(data, file, name, url)
    target = Path(os.path.realpath(file))  # the file may be a link into a folder of settings
    try:
        private_folder(file.parent)
        status = target.stat() if target.exists() else None
        if status is not None and not stat.S_ISREG(status.st_mode):
            raise UsageError(f"{file} is not a regular file; add [endpoints.{name}] yourself")
        write_atomically(target, data, like=status)
    except OSError as error:
        raise UsageError(explain_file_error(error)) from None
    return file


def _check_toml(data: bytes, file: Path, name: str, url: str) -> None:
    """Raise UsageError unless the file with its new lines means what it should."""
    try:
        added = models_config(msgspec.toml.decode(data), file).endpoints.get(name)
    except (ValueError, msgspec.MsgspecError):
        added = None
    if added is None or added.base_url != url:
        raise UsageError(
            f"{file} cannot be extended; add [endpoints.{name}] with base_url = {url!r} yourself"
        )


def _toml_key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _toml_text(name)


def _toml_text(text: str) -> str:
    return msgspec.json.encode(text).decode()
