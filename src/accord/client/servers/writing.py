"""Agents put into a file of agents and taken out of it, in the form it has; everything else in it stays as it is."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accord.client.catalogue import identity
from accord.client.servers.edit import append, drop, put
from accord.client.servers.forms import FormEntry
from accord.client.servers.reading import ServersFile, read_content, read_file
from accord.client.servers.saving import held, write_whole
from accord.client.servers.server import Origin
from accord.errors import UsageError


@dataclass(frozen=True, slots=True)
class Change:
    """What was changed: exactly what was read became what was written."""

    before: ServersFile | None
    after: ServersFile


def add(
    path: Path,
    origin: Origin,
    name: str,
    entry: dict[str, Any],
    *,
    default: bool = False,
    replace: bool = False,
) -> Change:
    """Put an agent into the file, which is made if it is missing. Raises UsageError for a name that is taken, BadServers."""
    with held(path, private=origin == "user"):
        return _added(path, origin, name, entry, default, replace)


def _added(
    path: Path, origin: Origin, name: str, entry: dict[str, Any], default: bool, replace: bool
) -> Change:
    file = read_file(path, origin)
    text = _text(file)
    before = None if file is None else _entry(file, name)
    if before is not None and not replace:
        raise UsageError(
            f"{path}: {before.key}: there already is {before.name!r}; --replace puts the new one in its place"
        )
    if file is not None and file.form.is_list:
        assert file.form.container is not None
        if before is not None:
            text = drop(text, [file.form.container], file.form.entries.index(before))
        text = append(text, [file.form.container], {"name": name, **entry})
    else:
        container = (None if file is None else file.form.container) or "servers"
        text = put(text, [container, name if before is None else before.name], entry)
    if default:
        text = put(text, ["defaultServer"], name)
    return _write(path, origin, file, text)


def remove(path: Path, origin: Origin, name: str) -> Change:
    """Take an agent out of the file. Raises UsageError if it is not there, BadServers."""
    if not path.parent.is_dir():
        raise UsageError(f"{path}: no agent is called {name!r} there")
    with held(path):
        return _removed(path, origin, name)


def _removed(path: Path, origin: Origin, name: str) -> Change:
    file = read_file(path, origin)
    found = None if file is None else _entry(file, name)
    if file is None or found is None:
        raise UsageError(f"{path}: no agent is called {name!r} there")
    container = file.form.container
    assert container is not None
    which = file.form.entries.index(found) if file.form.is_list else found.name
    text = drop(_text(file), [container], which)
    if file.form.default is not None and identity(file.form.default[1]) == identity(found.name):
        text = drop(text, [], file.form.default[0])
    return _write(path, origin, file, text)


def _entry(file: ServersFile, name: str) -> FormEntry | None:
    return next((entry for entry in file.form.entries if identity(entry.name) == identity(name)), None)


def _text(file: ServersFile | None) -> str:
    # As it is, byte order mark and line endings and all.
    return json.dumps({"servers": {}}, indent=2) + "\n" if file is None else file.content.decode()


def _write(path: Path, origin: Origin, file: ServersFile | None, text: str) -> Change:
    content = text.encode()
    changed = read_content(path, content, origin)  # what cannot be read again is never written
    if file is None or content != file.content:
        mode = 0o600 if origin == "user" else 0o644
        write_whole(path, None if file is None else file.content, content, mode=mode)
    return Change(file, changed)
