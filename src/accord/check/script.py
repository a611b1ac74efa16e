"""Scripts: what a checker must know of one program so that it does what rules are about. What both kinds have in common."""

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import msgspec
from msgspec import Struct, field

from accord.errors import UsageError


class Script(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A script; `ACTS` says what each act of its kind makes a program do."""

    ACTS: ClassVar[Mapping[str, str]] = {}

    name: str
    ours: bool = False
    """It is for one of Accord's own programs, which Accord's choices bind."""
    environment: dict[str, str] = field(default_factory=dict[str, str])


ScriptT = TypeVar("ScriptT", bound=Script)


def fill(text: str, values: Mapping[str, str]) -> str:
    """The text with `{name}` replaced; other braces stay."""
    for name, value in values.items():
        text = text.replace("{" + name + "}", value)
    return text


def read_script(path: Path, kind: type[ScriptT]) -> ScriptT:
    """The script in a file; raises `UsageError` where it is none."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read the script {path}: {error.strerror}") from None
    return _parse(data, str(path), kind)


def shipped(name: str, kind: type[ScriptT]) -> ScriptT:
    """A script of the package."""
    file = f"{name}.json"
    return _parse(files("accord.check").joinpath("scripts", file).read_bytes(), file, kind)


def _parse(data: bytes, where: str, kind: type[ScriptT]) -> ScriptT:
    try:
        script = msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"the script {where} cannot be used: {error}") from None
    acts: Mapping[str, Any] = getattr(script, "acts", {})
    unknown = [name for name in acts if name not in kind.ACTS]
    if unknown:
        raise UsageError(
            f"the script {where} has an unknown act {unknown[0]!r}; there are: {', '.join(kind.ACTS)}"
        )
    return script
