"""`accord agent --login` and `--logout`: stores and deletes the API keys of model providers.

Keys are read from the terminal or stdin. They are stored in a file that only its owner can read, and never
printed. All messages go to stderr. `NAME=URL` adds a model server to the user's config file.

Imported on first use: it loads accord.coder.models.
"""

import os
import re
import stat
import sys
from collections.abc import Container
from pathlib import Path
from typing import Any, Final

import msgspec

from accord.cli.command_parser import is_terminal, print_stderr
from accord.coder.models import ModelRegistry
from accord.coder.models.credentials import (
    CredentialsError,
    credentials_file,
    key_variables,
    read_keys,
    remove_key,
    save_key,
)
from accord.coder.models.endpoints import DEFAULT_MODELS, family_of
from accord.coder.models.model_name import REHEARSAL, normalize_provider
from accord.coder.models.model_registry import missing_key
from accord.coder.tools.search_services import SEARCH_SERVICES
from accord.coder.user_config import address_error, config_file, models_config, read_file
from accord.errors import UsageError
from accord.extras import is_installed
from accord.paths import config_dir, explain_file_error
from accord.private_files import private_folder, write_atomically

_MAX_KEY_BYTES: Final = 64 * 1024


def log_in(provider: str | None, model: str | None = None) -> int:
    """Ask for a provider's key, or read it from stdin, and store it. `model` is the agent's `--model`."""
    models = ModelRegistry()
    stored = read_keys()  # fail on an unusable file before the user types a key
    at_terminal = is_terminal(sys.stdin)
    if provider is None and at_terminal:
        provider = _ask_provider(models, stored.keys(), model)
    elif provider is None:
        raise UsageError("missing provider; without a terminal use `accord agent --login PROVIDER < KEY`")
    name, url = _find_server(provider, models, can_ask=at_terminal)
    needs_key = url is None and models.endpoints.get(name).needs_key
    key = _ask_key(name, needs_key) if at_terminal else _read_key(name, needs_key)
    config = None if url is None else add_endpoint(name, url)  # first: the key is for this address only
    if key:
        try:
            file = save_key(name, key)
        except OSError as error:
            raise UsageError(_write_error(credentials_file(), error)) from None
        print_stderr(f"Stored the key of {name} in {file}. Only you can read this file.")
    if config is not None:
        print_stderr(f"Added {name} at {url} to {config}.")
        models = ModelRegistry()
    for variable in _set_variables(name):
        print_stderr(f"{variable} is set in this environment and is used instead of the stored key.")
    print_stderr(_how_to_use(name, models))
    if not is_installed("agent") and name not in SEARCH_SERVICES:
        print_stderr("To use models, also run: pip install 'accord[agent]'")
    return 0


def log_out(provider: str | None) -> int:
    """Delete the key of a provider, or all keys, and say what was deleted."""
    file = credentials_file()
    name = None if provider is None else _key_name(provider)
    try:
        if name is not None and name not in read_keys():
            name = _known_provider(name, ModelRegistry())
        removed = remove_key(name)
    except CredentialsError:
        if provider is not None:
            raise
        removed = _delete_file(file)
    except OSError as error:
        raise UsageError(_write_error(file, error)) from None
    if removed:
        print_stderr(f"Removed from {file}: {', '.join(removed)}.")
    else:
        print_stderr(f"{file} has no key of {name}." if name else f"{file} has no keys.")
    for variable in _set_variables(*([name] if name else ModelRegistry().endpoints.names)):
        print_stderr(f"{variable} is still set in this environment; unset it yourself.")
    return 0


def _find_server(provider: str, models: ModelRegistry, *, can_ask: bool) -> tuple[str, str | None]:
    """Return the name of a server, and its address if it is to be added to the config (`NAME=URL`)."""
    text, equals, url = provider.partition("=")
    name = _key_name(text)
    if not equals and name in SEARCH_SERVICES:
        return name, None
    if not equals and models.endpoints.is_provider(name) and not models.endpoints.get(name).needs_address:
        return _known_provider(provider, models), None
    if not equals and can_ask and name != REHEARSAL:
        print_stderr(f"Address of {name}, such as https://models.example.com/v1: ", end="")
        url = sys.stdin.readline()
    elif not equals and models.endpoints.is_provider(name):
        raise UsageError(missing_key(name, models.endpoints) or "")
    elif not equals:
        return _known_provider(provider, models), None
    url = url.strip()
    check_endpoint(name, url)
    return name, url


def _known_provider(provider: str, models: ModelRegistry) -> str:
    """Return the name under which the provider's key is stored. Raises UsageError for an unknown provider."""
    name = _key_name(provider)
    if name == REHEARSAL:
        raise UsageError(f"{REHEARSAL} needs no key")
    if name in SEARCH_SERVICES:
        return name
    if not models.endpoints.is_provider(name):
        raise UsageError(
            f"unknown provider {provider!r}; use one of: {', '.join(models.endpoints.all_names)}, "
            "or add a server with NAME=URL"
        )
    return name


def _key_name(provider: str) -> str:
    return family_of(normalize_provider(provider))


def _ask_provider(models: ModelRegistry, stored: Container[str], model: str | None) -> str:
    names = models.endpoints.names
    default = _default_provider(model, models)
    print_stderr("Which model provider is the key for?")
    for number, name in enumerate(names, 1):
        print_stderr(f"  {number}  {name:<12} {_provider_state(name, stored, models)}".rstrip())
    others = [name for name in models.endpoints.all_names if name not in names]
    print_stderr(f"Others by name: {', '.join(others)}; a server of your own with NAME=URL")
    print_stderr(f"Number or name [{default}]: " if default else "Number or name: ", end="")
    answer = sys.stdin.readline().strip()
    if not answer and default:
        return default
    if not answer:
        raise UsageError("no provider was chosen; nothing was changed")
    if answer.isdecimal() and 1 <= int(answer) <= len(names):
        return family_of(names[int(answer) - 1])
    return answer


def _default_provider(model: str | None, models: ModelRegistry) -> str | None:
    """Return the provider of the agent's model if the user chose one by option, environment or config."""
    try:
        choice = models.choose(model)
    except UsageError:
        return None
    is_chosen = choice.source in ("flag", "environment", "config") and choice.model.provider != REHEARSAL
    return family_of(choice.model.provider) if is_chosen else None


def _provider_state(name: str, stored: Container[str], models: ModelRegistry) -> str:
    address = models.endpoints.get(name).base_url
    parts = [f"{variable} is set" for variable in _set_variables(name)]
    if name in stored:
        parts.append("a key is stored")
    if address is not None:
        parts.append(address)
    return ", ".join(parts)


def _ask_key(name: str, needed: bool) -> str:
    from getpass import getpass

    try:
        key = getpass(f"Key for {name} (not shown{'' if needed else '; Enter for none'}): ", sys.stderr)
    except EOFError:
        raise UsageError(f"no key entered for {name}; nothing was changed") from None
    if needed and not key.strip():
        raise UsageError(f"the key for {name} is empty")
    return key.strip()


def _read_key(name: str, needed: bool) -> str:
    line = b"" if sys.stdin is None else sys.stdin.buffer.readline(_MAX_KEY_BYTES)
    if needed and not line.strip():
        raise UsageError(f"no key for {name} on stdin; nothing was changed")
    return line.decode("ascii", errors="replace").strip()


def _set_variables(*names: str) -> list[str]:
    return [
        variable for name in names for variable in key_variables(name) if os.environ.get(variable, "").strip()
    ]


def _how_to_use(name: str, models: ModelRegistry) -> str:
    if name in SEARCH_SERVICES:
        return f'To search the web with it, put search = "{name}" under [web] in config.toml.'
    choice = models.choose()
    if family_of(choice.model.provider) == name:
        return f"New sessions of `accord agent` use {choice.model}."
    option = f"--model {name}{'' if models.endpoints.default_model(name) else ':MODEL'}"
    return f"Use it with `accord agent {option}` or ACCORD_MODEL; the current model is {choice.model}."


def _delete_file(file: Path) -> list[str]:
    """Delete a key file that is broken or readable by others."""
    try:
        file.unlink()
    except OSError as error:
        raise UsageError(_write_error(file, error)) from None
    return ["the whole file, which was unusable"]


def _write_error(file: Path, error: OSError) -> str:
    return f"cannot change {file} ({error.strerror}); check the owner of the file and its folder"


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
