"""Keys of model providers: from the environment, else from a file that only its owner can read.

Keys go to their provider and nowhere else: a `Secret` shows itself only when it is asked to.
"""

import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from accord.errors import UsageError
from accord.paths import config_dir, private_folder

FILE_NAME: Final = "credentials.json"

_OTHER_NAMES: Final = {"google": ("GEMINI_API_KEY",)}


class Secret:
    """A key that does not show in text, logs or tracebacks."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The key itself, for the request that needs it."""
        return self._value

    def hide_in(self, text: str) -> str:
        """The text without the key."""
        return text.replace(self._value, "***") if self._value else text

    def __repr__(self) -> str:
        return "Secret(***)"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)


class CredentialsError(UsageError):
    """The file of keys cannot be used as it is. Names the file and says what to do, never what is in it."""


class _Keys(msgspec.Struct):
    keys: dict[str, str]


def credentials_file() -> Path:
    """Where the keys are kept."""
    return config_dir() / FILE_NAME


def variable(provider: str, what: str) -> str:
    """The environment variable of a provider: `MY_SERVER_API_KEY` for `my-server`."""
    return f"{re.sub(r'[^A-Z0-9]', '_', provider.upper())}_{what}"


def key_variables(provider: str) -> tuple[str, ...]:
    """The environment variables that may hold the provider's key, in the order in which they count."""
    return (variable(provider, "API_KEY"), *_OTHER_NAMES.get(provider, ()))


def find_key(provider: str, environment: Mapping[str, str], file: Path | None = None) -> Secret | None:
    """The provider's key, if there is one."""
    for name in key_variables(provider):
        if key := environment.get(name, "").strip():
            return Secret(key)
    return read_keys(file).get(provider)


def read_keys(file: Path | None = None) -> dict[str, Secret]:
    """All keys of the file; none if there is no file. Raises CredentialsError for one that others can read."""
    file = file or credentials_file()
    try:
        descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise CredentialsError(f"{file}: cannot be read ({error.strerror})") from None
    with os.fdopen(descriptor, "rb") as stream:
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        if os.name == "posix" and mode & 0o077:
            raise CredentialsError(
                f"{file}: others may read or write it (mode {mode:04o}), so its keys are not used: chmod 600 {file}"
            )
        data = stream.read()
    try:
        return {provider: Secret(key) for provider, key in msgspec.json.decode(data, type=_Keys).keys.items()}
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise CredentialsError(
            f'{file}: not of the form {{"keys": {{"PROVIDER": "KEY"}}}}: run `accord agent --logout`, then sign in again'
        ) from None


def save_key(provider: str, key: str, file: Path | None = None) -> Path:
    """Keep a key for the provider. The file stays whole and closed to others at every moment."""
    key = key.strip()
    if not key:
        raise CredentialsError(f"no key was given for {provider}")
    if re.search(r"[^\x21-\x7e]", key):
        raise CredentialsError(
            f"the key given for {provider} has blanks or characters that no key has: copy it again"
        )
    file = file or credentials_file()
    return _write(file, {**read_keys(file), provider: Secret(key)})


def remove_key(provider: str | None = None, file: Path | None = None) -> list[str]:
    """Forget the key of a provider, or all keys; whose keys are gone."""
    file = file or credentials_file()
    keys = read_keys(file)
    gone = [name for name in keys if provider in (None, name)]
    if len(gone) == len(keys):
        with suppress(FileNotFoundError):
            file.unlink()
    elif gone:
        _write(file, {name: key for name, key in keys.items() if name not in gone})
    return gone


def _write(file: Path, keys: Mapping[str, Secret]) -> Path:
    folder = private_folder(file.parent)
    content = msgspec.json.format(
        msgspec.json.encode(_Keys({name: key.reveal() for name, key in keys.items()})), indent=2
    )
    import tempfile  # only where a key is kept: every start reads them

    descriptor, draft = tempfile.mkstemp(dir=folder, prefix=f".{file.name}.")  # made with mode 0600
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content + b"\n")
            stream.flush()
            os.fsync(descriptor)
        os.replace(draft, file)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(draft)
        raise
    return file
