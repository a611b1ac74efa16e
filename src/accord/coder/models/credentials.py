"""API keys of model providers: from the environment, else from a file that only its owner can read.

Keys go to their provider and nowhere else. A `Secret` keeps its key out of text, logs and tracebacks.

Loaded before `initialize` is answered: keep heavy imports out.
"""

import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from accord.errors import BadSettings
from accord.paths import config_dir

FILE_NAME: Final[str] = "credentials.json"

_EXTRA_KEY_VARIABLES: Final[dict[str, tuple[str, ...]]] = {
    "google": ("GEMINI_API_KEY",),
    "azure": ("AZURE_OPENAI_API_KEY",),
    "bedrock": ("AWS_BEARER_TOKEN_BEDROCK",),
    "llamacpp": ("LLAMA_API_KEY",),
}
_MIN_SECRET_CHARS: Final = 4


class Secret:
    """A key whose `str` and `repr` are masked."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the key itself, for the request that needs it."""
        return self._value

    def redact(self, text: str) -> str:
        """Return the text with the key masked. A placeholder such as `x` stays: it would mask letters."""
        return text.replace(self._value, "***") if len(self._value) >= _MIN_SECRET_CHARS else text

    def __repr__(self) -> str:
        return "Secret(***)"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)


class CredentialsError(BadSettings):
    """The credentials file cannot be used. The message names the file and what to do, never a key."""


class _CredentialsFile(msgspec.Struct):
    keys: dict[str, str]


def credentials_file() -> Path:
    return config_dir() / FILE_NAME


def provider_variable(provider: str, suffix: str) -> str:
    """Return the name of a provider's environment variable: `MY_SERVER_API_KEY` for `my-server` and
    `API_KEY`.
    """
    return f"{re.sub(r'[^A-Z0-9]', '_', provider.upper())}_{suffix}"


def key_variables(provider: str) -> tuple[str, ...]:
    """Return the environment variables that may hold the provider's key. The first one that is set wins."""
    return (provider_variable(provider, "API_KEY"), *_EXTRA_KEY_VARIABLES.get(provider, ()))


def find_key(provider: str, environment: Mapping[str, str], file: Path | None = None) -> Secret | None:
    """Return the provider's key from the environment, else from the credentials file."""
    for name in key_variables(provider):
        if key := environment.get(name, "").strip():
            return Secret(key)
    return read_keys(file).get(provider)


def read_keys(file: Path | None = None) -> dict[str, Secret]:
    """Return all keys of the file, or none without a file.

    Raises CredentialsError if other users can read it, and NewerFormat.
    """
    file = file or credentials_file()
    try:
        stream = file.open("rb")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise CredentialsError(f"cannot read {file} ({error.strerror})") from None
    with stream:
        mode = stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
        if os.name == "posix" and mode & 0o077:
            raise CredentialsError(
                f"{file}: other users can read or write it (mode {mode:04o}), so its keys are not used: "
                f"chmod 600 {file}"
            )
        data = stream.read()
    from accord.file_format import FileFormat  # every start loads this file

    try:
        content = FileFormat().decode(data, _CredentialsFile, file)
        return {provider: Secret(key) for provider, key in content.keys.items()}
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise CredentialsError(
            f'{file}: not of the form {{"keys": {{"PROVIDER": "KEY"}}}}: run `accord agent --logout`, '
            "then sign in again"
        ) from None


def save_key(provider: str, key: str, file: Path | None = None) -> Path:
    """Store the provider's key. Replaces the file in one step; only its owner can ever read it."""
    key = key.strip()
    if not key:
        raise CredentialsError(f"the key for {provider} is empty")
    if re.search(r"[^\x21-\x7e]", key):
        raise CredentialsError(
            f"the key for {provider} contains spaces or characters that keys never have: copy it again"
        )
    file = file or credentials_file()
    return _write_keys(file, {**read_keys(file), provider: Secret(key)})


def remove_key(provider: str | None = None, file: Path | None = None) -> list[str]:
    """Remove the key of a provider, or all keys. Return the providers whose keys were removed."""
    file = file or credentials_file()
    keys = read_keys(file)
    removed = [name for name in keys if provider in (None, name)]
    if len(removed) == len(keys):
        with suppress(FileNotFoundError):
            file.unlink()
    elif removed:
        _write_keys(file, {name: key for name, key in keys.items() if name not in removed})
    return removed


def _write_keys(file: Path, keys: Mapping[str, Secret]) -> Path:
    from accord.file_format import FileFormat  # every start loads this file
    from accord.private_files import private_folder

    private_folder(file.parent)
    FileFormat().write(file, _CredentialsFile({name: key.reveal() for name, key in keys.items()}))
    return file
