"""The schema of a registry entry, and the checks that the agent registry applies to it."""

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

_PACKAGE: dict[str, Any] = {
    "type": "object",
    "required": ["package"],
    "additionalProperties": False,
    "properties": {
        "package": {"type": "string", "minLength": 1},
        "args": {"type": "array", "items": {"type": "string"}},
        "env": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
_ARCHIVE: dict[str, Any] = {
    "type": "object",
    "required": ["archive", "cmd"],
    "additionalProperties": False,
    "properties": {
        "archive": {"type": "string", "pattern": "^https://"},
        "cmd": {"type": "string", "minLength": 1},
        "args": {"type": "array", "items": {"type": "string"}},
        "env": {"type": "object", "additionalProperties": {"type": "string"}},
        "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
    },
}
_SYSTEMS = [f"{system}-{chip}" for system in ("darwin", "linux", "windows") for chip in ("aarch64", "x86_64")]
ENTRY: dict[str, Any] = {
    "type": "object",
    "required": ["id", "name", "version", "description", "distribution"],
    "additionalProperties": False,
    "properties": {
        "id": {"type": "string", "pattern": "^[a-z][a-z0-9-]*$"},
        "name": {"type": "string", "minLength": 1},
        "version": {"type": "string", "pattern": r"^\d+\.\d+\.\d+$"},
        "description": {"type": "string", "minLength": 1},
        "repository": {"type": "string", "format": "uri"},
        "website": {"type": "string", "format": "uri"},
        "authors": {"type": "array", "items": {"type": "string", "minLength": 1}},
        "license": {"type": "string", "minLength": 1},
        "license_url": {"type": "string", "format": "uri"},
        "distribution": {
            "type": "object",
            "minProperties": 1,
            "additionalProperties": False,
            "properties": {
                "npx": _PACKAGE,
                "uvx": _PACKAGE,
                "binary": {
                    "type": "object",
                    "minProperties": 1,
                    "additionalProperties": False,
                    "properties": dict.fromkeys(_SYSTEMS, _ARCHIVE),
                },
            },
        },
    },
}

_SVG = "{http://www.w3.org/2000/svg}"


def entry_problems(entry: Any, folder: Path) -> list[str]:
    """Return what the registry would refuse about an entry in this folder."""
    found = [error.message for error in Draft202012Validator(ENTRY).iter_errors(entry)]
    if found:
        return found
    if entry["id"] != folder.name:
        found.append(f"the id {entry['id']} is not the name of its folder, {folder.name}")
    for kind in ("npx", "uvx"):
        package = entry["distribution"].get(kind, {}).get("package")
        if package is not None and re.split(r"==|(?<!^)@", package)[1:] != [entry["version"]]:
            found.append(f"{package} is not pinned to {entry['version']}")
    icon = folder / "icon.svg"
    return [*found, *(icon_problems(icon.read_text()) if icon.exists() else ["there is no icon.svg"])]


def icon_problems(text: str) -> list[str]:
    """Check that an icon is a 16 by 16 SVG that uses only the current color."""
    root = ElementTree.fromstring(text)
    found = [] if root.tag == f"{_SVG}svg" else ["it is no SVG"]
    if (root.get("width"), root.get("height"), root.get("viewBox")) != ("16", "16", "0 0 16 16"):
        found.append("it is not 16 by 16")
    for element in root.iter():
        found += [
            f"{name}={value} on {element.tag.removeprefix(_SVG)}"
            for name, value in element.attrib.items()
            if (name in ("fill", "stroke") and value not in ("currentColor", "none", "inherit"))
            or name == "style"
        ]
    return found
