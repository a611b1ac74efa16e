"""Reading PDF files and notebooks, and editing notebooks by cell."""

import base64
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.coder.tools.harness import ToolHarness

from accord.coder.model_history import ImagePart
from accord.coder.tools.tool import BadArguments
from accord.coder.tools.tool_context import ToolLimits
from accord.schema.content import Diff

Write = Callable[..., Path]


def pdf(*texts: str) -> bytes:
    """A PDF file with one page for each text."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", ""]
    for text in texts:
        stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET"
        objects.append(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 << /Type /Font "
            f"/Subtype /Type1 /BaseFont /Helvetica >> >> >> /Contents {len(objects) + 2} 0 R >>"
        )
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    kids = " ".join(f"{3 + 2 * number} 0 R" for number in range(len(texts)))
    objects[1] = f"<< /Type /Pages /Kids [{kids}] /Count {len(texts)} >>"
    data, places = b"%PDF-1.4\n", list[int]()
    for number, text in enumerate(objects, 1):
        places.append(len(data))
        data += f"{number} 0 obj\n{text}\nendobj\n".encode()
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    size = len(objects) + 1
    return (
        data
        + (
            f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer\n<< /Size {size} /Root 1 0 R >>\n"
            f"startxref\n{len(data)}\n%%EOF\n"
        ).encode()
    )


async def test_pages_of_a_pdf_file_are_read(harness: ToolHarness, write: Write) -> None:
    write("a.pdf", pdf(*(f"Page number {n}" for n in range(1, 31)), ""))
    call = await harness.prepare("read_file", {"path": "a.pdf"})
    outcome = await harness.run(call)
    assert outcome.text.startswith("--- page 1\nPage number 1\n\n--- page 2\nPage number 2\n")
    assert outcome.text.endswith("Page number 20\n\n(pages 1-20 of 31; read on with offset=21)")
    call = await harness.prepare("read_file", {"path": "a.pdf", "offset": 30, "limit": 5})
    assert call.title == "Read a.pdf (pages 30-34)"
    outcome = await harness.run(call)
    assert (
        outcome.text == "--- page 30\nPage number 30\n\n--- page 31\n(no text; it may be a scanned picture)"
    )
    assert "a.pdf has 31 pages; there is no page 32" in await harness.refused(
        "read_file", path="a.pdf", offset=32
    )


async def test_the_text_of_a_pdf_file_is_bounded(project: Path, write: Write) -> None:
    write("a.pdf", pdf("a" * 300, "b" * 300))
    harness = ToolHarness(project, limits=ToolLimits(output_chars=200))
    text = (await harness.done("read_file", path="a.pdf")).text
    assert text == f"--- page 1\n{'a' * 200}\n\n(pages 1-1 of 2; read on with offset=2)"


async def test_a_pdf_file_larger_than_any_text_is_read(project: Path, write: Write) -> None:
    write("a.PDF", pdf("Large"))
    harness = ToolHarness(project, limits=ToolLimits(file_bytes=100))
    assert "Large" in (await harness.done("read_file", path="a.PDF")).text


@pytest.mark.parametrize("data", [b"%PDF-1.7 text", pdf("x").replace(b"/Pages 2 0 R", b"/Pages 9 0 R")])
async def test_a_damaged_pdf_file_is_refused_in_one_line(
    harness: ToolHarness, write: Write, data: bytes
) -> None:
    write("a.pdf", data)
    reason = await harness.refused("read_file", path="a.pdf")
    assert "a.pdf is a PDF file that cannot be read: it is damaged (" in reason
    assert "\n" not in reason


def png(side: int = 4) -> str:
    file = io.BytesIO()
    Image.new("RGB", (side, side)).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def notebook(**top: Any) -> dict[str, Any]:
    cells: list[dict[str, Any]] = [
        {"cell_type": "markdown", "id": "intro", "metadata": {}, "source": ["# Title\n", "Text"]},
        {
            "cell_type": "code",
            "execution_count": 3,
            "id": "plot",
            "metadata": {"tags": ["x"]},
            "outputs": [
                {"name": "stdout", "output_type": "stream", "text": ["1\n", "2\n"]},
                {"data": {"image/png": png(), "text/plain": "<Figure>"}, "output_type": "display_data"},
                {"ename": "E", "evalue": "v", "output_type": "error", "traceback": ["\x1b[31mE: v\x1b[0m"]},
            ],
            "source": ["x = 1\n", "plot(x)"],
        },
    ]
    return {"cells": cells, "metadata": {"größe": 1}, "nbformat": 4, "nbformat_minor": 5, **top}


def jupyter_text(content: Any) -> str:
    """The text as Jupyter writes it."""
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


async def test_cells_and_outputs_of_a_notebook_are_read(project: Path, write: Write) -> None:
    write("a.ipynb", jupyter_text(notebook()))
    outcome = await ToolHarness(project, sees_images=True).done("read_file", path="a.ipynb")
    assert outcome.text == (
        "--- cell 1: markdown, id intro\n# Title\nText\n\n"
        "--- cell 2: code, id plot\nx = 1\nplot(x)\n--- output\n1\n2\n[picture 1: image/png]\nE: v\n"
        "[a picture of cell 2]"
    )
    assert outcome.parts[-1] == ImagePart(base64.b64decode(png()), "image/png")
    blind = await ToolHarness(project).done("read_file", path="a.ipynb", offset=2)
    assert "[picture 1: image/png]" in blind.text
    assert not [part for part in blind.parts if isinstance(part, ImagePart)]
    assert "has 2 cells; there is no cell 3" in await ToolHarness(project).refused(
        "read_file", path="a.ipynb", offset=3
    )


async def test_long_notebooks_are_read_in_parts(project: Path, write: Write) -> None:
    cell = {"cell_type": "raw", "metadata": {}, "source": "y" * 90}
    write("a.ipynb", jupyter_text(notebook(cells=[cell] * 5)))
    harness = ToolHarness(project, limits=ToolLimits(output_chars=250))
    text = (await harness.done("read_file", path="a.ipynb")).text
    assert text.endswith("(cells 1-2 of 5; read on with offset=3)")


async def test_a_cell_is_edited_and_nothing_else_changes(harness: ToolHarness, write: Write) -> None:
    path = write("a.ipynb", jupyter_text(notebook()))
    await harness.done("read_file", path="a.ipynb")
    expected = notebook()
    outcome = await harness.done("edit_file", path="a.ipynb", cell="2", old_text="x = 1", new_text="x = 2")
    expected["cells"][1] |= {"source": ["x = 2\n", "plot(x)"], "outputs": [], "execution_count": None}
    assert path.read_text() == jupyter_text(expected)
    assert isinstance(outcome.content and outcome.content[0], Diff)
    await harness.done("edit_file", path="a.ipynb", cell="intro", new_text="New\n")
    expected["cells"][0]["source"] = ["New\n"]
    assert path.read_text() == jupyter_text(expected)
    await harness.done("edit_file", path="a.ipynb", cell=2, cell_action="delete")
    del expected["cells"][1]
    assert path.read_text() == jupyter_text(expected)


async def test_cells_are_inserted(harness: ToolHarness, write: Write) -> None:
    path = write("a.ipynb", jupyter_text(notebook()))
    await harness.done("read_file", path="a.ipynb")
    await harness.done("edit_file", path="a.ipynb", cell="0", cell_action="insert", new_text="a\nb")
    await harness.done(
        "edit_file", path="a.ipynb", cell="3", cell_action="insert", cell_type="markdown", new_text="end"
    )
    cells = json.loads(path.read_text())["cells"]
    assert [cell["cell_type"] for cell in cells] == ["code", "markdown", "code", "markdown"]
    assert cells[0]["source"] == ["a\n", "b"]
    assert cells[0]["outputs"] == []
    assert len({cell["id"] for cell in cells}) == 4
    assert "outputs" not in cells[3]


async def test_the_diff_of_the_question_is_the_change_that_is_made(
    harness: ToolHarness, write: Write
) -> None:
    path = write("a.ipynb", jupyter_text(notebook()))
    await harness.done("read_file", path="a.ipynb")
    arguments = {"path": "a.ipynb", "cell": "1", "cell_action": "insert", "new_text": "z"}
    call = await harness.prepare("edit_file", arguments)
    (shown,) = await call.preview()
    await harness.run(call)
    assert isinstance(shown, Diff)
    assert shown.new_text == path.read_text()


@pytest.mark.parametrize("style", [{"indent": 4}, {}, {"separators": (",", ":")}, {"indent": "\t"}])
async def test_the_style_of_the_file_is_kept(
    harness: ToolHarness, write: Write, style: dict[str, Any]
) -> None:
    content = notebook()
    path = write("a.ipynb", json.dumps(content, **style).replace("\n", "\r\n"))
    await harness.done("read_file", path="a.ipynb")
    await harness.done("edit_file", path="a.ipynb", cell="1", new_text="Text")
    content["cells"][0]["source"] = ["Text"]
    assert path.read_bytes().decode() == json.dumps(content, **style).replace("\n", "\r\n")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"cell": "7", "new_text": "x"}, "there is no cell '7'; it has 2 cells"),
        ({"cell": "0", "new_text": "x"}, "there is no cell '0'"),
        ({"cell": "1", "new_text": "# Title\nText"}, "there is nothing to change"),
        ({"cell": "2", "old_text": "gone", "new_text": "x"}, "old_text is not in cell 2 of "),
        ({"old_text": '"cells": [', "new_text": '"cells": ['[:-1]}, "the notebook would be broken"),
    ],
)
async def test_wrong_edits_of_a_notebook_are_refused(
    harness: ToolHarness, write: Write, arguments: dict[str, Any], reason: str
) -> None:
    path = write("a.ipynb", jupyter_text(notebook()))
    await harness.done("read_file", path="a.ipynb")
    assert reason in await harness.refused("edit_file", path="a.ipynb", **arguments)
    assert path.read_text() == jupyter_text(notebook())


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"cell": "1"}, "`new_text` is missing"),
        ({"cell": "1", "patch": "@@\n-a\n+b"}, "a patch cannot be applied to a cell"),
    ],
)
async def test_incomplete_edits_of_a_cell_are_bad_arguments(
    harness: ToolHarness, arguments: dict[str, Any], reason: str
) -> None:
    with pytest.raises(BadArguments, match=reason):
        await harness.prepare("edit_file", {"path": "a.ipynb", **arguments})


async def test_a_cell_of_a_text_file_cannot_be_edited(harness: ToolHarness, write: Write) -> None:
    write("a.ipynb", "not JSON\n")
    assert (await harness.done("read_file", path="a.ipynb")).text == "     1\tnot JSON"
    assert "was not edited: it is not JSON" in await harness.refused(
        "edit_file", path="a.ipynb", cell="1", new_text="x"
    )
    await harness.done("edit_file", path="a.ipynb", old_text="not JSON", new_text=jupyter_text(notebook()))


async def test_an_unread_notebook_is_not_edited(harness: ToolHarness, write: Write) -> None:
    write("a.ipynb", jupyter_text(notebook()))
    assert "was not read" in await harness.refused("edit_file", path="a.ipynb", cell="1", new_text="x")
