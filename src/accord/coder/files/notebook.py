"""Jupyter notebooks: the cells as text for the model, and changes of single cells."""

import base64
import binascii
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from accord.errors import AccordError
from accord.safe_text import one_line

CellType = Literal["code", "markdown", "raw"]
NOTEBOOK_SUFFIX: Final = ".ipynb"
_MAX_OUTPUT_CHARS: Final = 4000
"""How much of the outputs of one cell the model gets."""
_PICTURE_TYPES: Final = ("image/png", "image/jpeg")
_ANSI_CODES: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_INDENT: Final = re.compile(r"\s*\{\r?\n([ \t]+)\S")


class BadNotebook(AccordError):
    """The text is no notebook, or a cell is not in it. The text is the reason."""


@dataclass(frozen=True, slots=True)
class CellText:
    """One cell for the model."""

    text: str
    pictures: list[bytes]
    """The pictures in its outputs, in the order of their marks in the text."""


class Notebook:
    """The cells of a notebook. Whatever is not changed stays as it was in the file."""

    def __init__(self, text: str) -> None:
        """Parse the file. Raises BadNotebook."""
        try:
            content: Any = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise BadNotebook(f"it is not JSON ({one_line(str(error), 100)})") from None
        cells: Any = cast(dict[str, Any], content).get("cells") if isinstance(content, dict) else None
        if not isinstance(cells, list) or not all(map(_is_cell, cast(list[Any], cells))):
            raise BadNotebook("it has no list of cells; only notebooks of format 4 are supported")
        self._content = cast(dict[str, Any], content)
        self._text = text
        self.cells: list[dict[str, Any]] = cells

    def cell_text(self, index: int) -> CellText:
        """Return a cell with its number, type and outputs."""
        cell = self.cells[index]
        name = f"cell {index + 1}: {cell['cell_type']}"
        if isinstance(cell.get("id"), str):
            name += f", id {one_line(cell['id'], 64)}"
        lines, pictures = [f"--- {name}", _joined(cell.get("source"))], list[bytes]()
        if outputs := _outputs(cell, pictures):
            lines += ["--- output", outputs]
        return CellText("\n".join(lines), pictures)

    def find(self, name: str) -> int:
        """Return the index of the cell with this id or number. Raises BadNotebook."""
        for index, cell in enumerate(self.cells):
            if cell.get("id") == name:
                return index
        if name.isdecimal() and len(name) < 10 and 1 <= int(name) <= len(self.cells):
            return int(name) - 1
        raise BadNotebook(f"there is no cell {one_line(name, 64)!r}; it has {len(self.cells)} cells")

    def source(self, index: int) -> str:
        """Return the source of a cell."""
        return _joined(self.cells[index].get("source"))

    def replace(self, index: int, source: str, cell_type: CellType | None = None) -> None:
        """Change the source of a cell. Its outputs no longer belong to it and are removed."""
        cell = self.cells[index]
        kind = cell_type or cell["cell_type"]
        cell["cell_type"] = kind
        cell["source"] = _like(cell.get("source"), source)
        if kind == "code":
            cell["execution_count"], cell["outputs"] = None, []
        else:
            cell.pop("execution_count", None)
            cell.pop("outputs", None)

    def insert(self, index: int, source: str, cell_type: CellType, new_id: str) -> None:
        """Add a cell at this index."""
        cell: dict[str, Any] = {"cell_type": cell_type}
        if cell_type == "code":
            cell["execution_count"] = None
        if (self._content.get("nbformat"), self._content.get("nbformat_minor", 0)) >= (4, 5):
            cell["id"] = new_id
        cell["metadata"] = {}
        if cell_type == "code":
            cell["outputs"] = []
        cell["source"] = _like(self.cells[0].get("source") if self.cells else [], source)
        self.cells.insert(index, cell)

    def delete(self, index: int) -> None:
        """Remove a cell."""
        del self.cells[index]

    def file_text(self) -> str:
        """Return the text of the file, indented as it was."""
        found = _INDENT.match(self._text)
        compact = found is None and '": ' not in self._text[:1000]
        text = json.dumps(
            self._content,
            indent=found[1] if found else None,
            ensure_ascii=self._text.isascii() and "\\u" in self._text,
            separators=(",", ":") if compact else (", " if found is None else ",", ": "),
        )
        return text + self._text[len(self._text.rstrip()) :]


def _is_cell(cell: Any) -> bool:
    return isinstance(cell, dict) and cast(dict[str, Any], cell).get("cell_type") in (
        "code",
        "markdown",
        "raw",
    )


def _joined(value: Any) -> str:
    """Return a text that is in the file as one string or as a list of lines."""
    if isinstance(value, list):
        return "".join(line for line in cast(list[Any], value) if isinstance(line, str))
    return value if isinstance(value, str) else ""


def _like(old: Any, text: str) -> str | list[str]:
    """Return the text in the form of the old one."""
    return text if isinstance(old, str) else text.splitlines(keepends=True)


def _outputs(cell: dict[str, Any], pictures: list[bytes]) -> str:
    outputs: Any = cell.get("outputs")
    if not isinstance(outputs, list):
        return ""
    texts = [text for output in cast(list[Any], outputs) for text in _output_texts(output, pictures)]
    text = "\n".join(text.rstrip("\n") for text in texts if text)
    if len(text) <= _MAX_OUTPUT_CHARS:
        return text
    more = len(text) - _MAX_OUTPUT_CHARS
    return f"{text[:_MAX_OUTPUT_CHARS]}\n[... {more:,} more characters of output]"


def _output_texts(output: Any, pictures: list[bytes]) -> Iterator[str]:
    if not isinstance(output, dict):
        return
    members = cast(dict[str, Any], output)
    if members.get("output_type") == "error":
        trace: Any = members.get("traceback")
        lines = cast(list[Any], trace) if isinstance(trace, list) else []
        text = "\n".join(line for line in lines if isinstance(line, str))
        yield _ANSI_CODES.sub("", text) or f"{members.get('ename')}: {members.get('evalue')}"
        return
    yield _ANSI_CODES.sub("", _joined(members.get("text")))
    data: Any = members.get("data")
    if not isinstance(data, dict):
        return
    shown = cast(dict[str, Any], data)
    for mime in _PICTURE_TYPES:
        if picture := _decoded(_joined(shown.get(mime))):
            pictures.append(picture)
            yield f"[picture {len(pictures)}: {mime}]"
            return
    if "text/plain" in shown:
        yield _joined(shown["text/plain"])
    elif shown:
        yield f"[{one_line(', '.join(map(str, shown)), 200)}]"


def _decoded(text: str) -> bytes | None:
    try:
        return base64.b64decode(text) if text else None
    except (binascii.Error, ValueError):
        return None
