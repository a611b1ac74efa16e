"""Signing in and out at model providers: keys go from the terminal, or from stdin, into the file that only its owner reads.

All that is said goes to stderr; a key is said nowhere.
"""

import os
import sys
from collections.abc import Container
from pathlib import Path
from typing import Final

from accord.coder.models import ModelRegistry
from accord.coder.models.credentials import (
    CredentialsError,
    credentials_file,
    key_variables,
    read_keys,
    remove_key,
    save_key,
)
from accord.coder.models.endpoints import family_of
from accord.coder.models.model_name import REHEARSAL, normalize_provider
from accord.errors import UsageError
from accord.extras import is_installed

_LONGEST: Final = 64 * 1024


def log_in(provider: str | None, model: str | None = None) -> int:
    """Ask for a provider's key, or read it from stdin, and keep it. `model` is what the agent is started with."""
    models = ModelRegistry()
    kept = read_keys()  # a file that cannot be used is told before anybody has typed a key
    at_terminal = sys.stdin is not None and sys.stdin.isatty()
    if provider is not None:
        name = _known(provider, models)
    elif at_terminal:
        name = _ask_provider(models, kept.keys(), model)
    else:
        raise UsageError("without a terminal the provider must be named: accord agent --login PROVIDER < KEY")
    key = _ask_key(name) if at_terminal else _read_key(name)
    try:
        file = save_key(name, key)
    except OSError as error:
        raise UsageError(_unwritable(credentials_file(), error)) from None
    _say(f"The key of {name} is kept in {file}, which only you can read.")
    for variable in _set_variables(name):
        _say(f"{variable} is set in this environment: where it is, it is used instead of the kept key.")
    _say(_how_to_use(name, models))
    if not is_installed("agent"):
        _say("Speaking to models needs one thing more: pip install 'accord[agent]'")
    return 0


def log_out(provider: str | None) -> int:
    """Forget the key of a provider, or all of them, and say what is gone and what is not."""
    file = credentials_file()
    name = None if provider is None else _name_of(provider)
    try:
        if name is not None and name not in read_keys():
            name = _known(name, ModelRegistry())
        gone = remove_key(name)
    except CredentialsError:
        if provider is not None:
            raise
        gone = _remove_unread(file)
    except OSError as error:
        raise UsageError(_unwritable(file, error)) from None
    if gone:
        _say(f"Removed from {file}: {', '.join(gone)}.")
    else:
        _say(f"No key of {name} is kept in {file}." if name else f"No keys are kept in {file}.")
    for variable in _set_variables(*([name] if name else ModelRegistry().endpoints.names)):
        _say(f"{variable} is still set in this environment; only you can take it out.")
    return 0


def _known(provider: str, models: ModelRegistry) -> str:
    """The name under which the provider's key is kept. Raises UsageError, with the names there are."""
    name = _name_of(provider)
    if name == REHEARSAL:
        raise UsageError(f"{REHEARSAL} is part of Accord and needs no key")
    if not models.endpoints.is_provider(name):
        raise UsageError(
            f"no provider is called {provider!r}; there are: {', '.join(models.endpoints.names)}, "
            "and what [endpoints] in the config names"
        )
    return name


def _name_of(provider: str) -> str:
    return family_of(normalize_provider(provider))


def _ask_provider(models: ModelRegistry, kept: Container[str], model: str | None) -> str:
    names = models.endpoints.names
    usual = _provider_of(model, models)
    _say("Which model provider is the key for?")
    for number, name in enumerate(names, 1):
        _say(f"  {number}  {name:<12} {_state(name, kept, models)}".rstrip())
    _say(f"Number or name [{usual}]: " if usual else "Number or name: ", end="")
    answer = sys.stdin.readline().strip()
    if not answer and usual:
        return usual
    if not answer:
        raise UsageError("no provider was chosen; nothing was changed")
    if answer.isdecimal() and 1 <= int(answer) <= len(names):
        return family_of(names[int(answer) - 1])
    return _known(answer, models)


def _provider_of(model: str | None, models: ModelRegistry) -> str | None:
    """The provider of the model that the agent would start with, where somebody chose one."""
    try:
        choice = models.choose(model)
    except UsageError:
        return None
    chosen = choice.source in ("flag", "environment", "config") and choice.model.provider != REHEARSAL
    return family_of(choice.model.provider) if chosen else None


def _state(name: str, kept: Container[str], models: ModelRegistry) -> str:
    address = models.endpoints.get(name).base_url
    parts = [f"{variable} is set" for variable in _set_variables(name)]
    if name in kept:
        parts.append("a key is kept")
    if address is not None:
        parts.append(address)
    return ", ".join(parts)


def _ask_key(name: str) -> str:
    from getpass import getpass

    try:
        return getpass(f"Key for {name} (it is not shown): ", sys.stderr)
    except EOFError:
        raise UsageError(f"no key was given for {name}; nothing was changed") from None


def _read_key(name: str) -> str:
    line = b"" if sys.stdin is None else sys.stdin.buffer.readline(_LONGEST)
    if not line.strip():
        raise UsageError(f"no key for {name} came on stdin; nothing was changed")
    return line.decode("ascii", errors="replace")


def _set_variables(*names: str) -> list[str]:
    return [
        variable for name in names for variable in key_variables(name) if os.environ.get(variable, "").strip()
    ]


def _how_to_use(name: str, models: ModelRegistry) -> str:
    choice = models.choose()
    if family_of(choice.model.provider) == name:
        return f"New sessions of `accord agent` think with {choice.model}."
    model = models.endpoints.default_model(name)
    return f"Use it with `accord agent --model {name}{'' if model else ':MODEL'}`, or ACCORD_MODEL; now {choice.model} is chosen."


def _remove_unread(file: Path) -> list[str]:
    """All keys of a file that is broken or open to others: it goes as a whole."""
    try:
        file.unlink()
    except OSError as error:
        raise UsageError(_unwritable(file, error)) from None
    return ["the whole file, which could not be used"]


def _unwritable(file: Path, error: OSError) -> str:
    return f"{file}: cannot be changed ({error.strerror}): check that it and its folder are yours"


def _say(text: str, end: str = "\n") -> None:
    print(text, end=end, file=sys.stderr, flush=True)
