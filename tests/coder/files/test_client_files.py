"""File tools through the client: unsaved buffers count, and line endings and encodings survive."""

from pathlib import Path
from typing import Any

import pytest
from tests.agent.agent_client import connected_client, make_agent
from tests.coder.tools.harness import ToolHarness, diff_in

from accord.agent import Turn
from accord.coder.files.exact_disk import resolve_path
from accord.coder.files.session_files import SessionFiles
from accord.errors import InvalidParams, NotFound


class Editor:
    """A client with open buffers. `universal` loses CRLF line endings, `strips` loses the byte order mark."""

    def __init__(
        self, *, reads: bool = True, writes: bool = True, universal: bool = False, strips: bool = False
    ) -> None:
        self.can_read_files = reads
        self.can_write_files = writes
        self.buffers: dict[str, str] = {}
        self.read: list[tuple[Any, ...]] = []
        self.written: dict[str, str] = {}
        self._universal = universal
        self._strips = strips

    async def read_text_file(self, path: str, *, line: int | None = None, limit: int | None = None) -> str:
        self.read.append((path, line, limit))
        text = self.buffers.get(path)
        if text is None:
            try:
                text = Path(path).read_bytes().decode()
            except FileNotFoundError:
                raise NotFound("no such file") from None
            except UnicodeDecodeError:
                raise InvalidParams("not text") from None
        if self._universal:
            text = text.replace("\r\n", "\n")
        if self._strips:
            text = text.removeprefix("\ufeff")
        lines = text.splitlines(keepends=True)
        return text if line is None else "".join(lines[line - 1 :][:limit])

    async def write_text_file(self, path: str, content: str) -> None:
        if path.endswith("locked"):
            raise InvalidParams("the user said no")
        self.written[path] = content
        self.buffers.pop(path, None)
        Path(path).write_bytes(content.encode())


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return tmp_path


def tool_harness(editor: Editor, project: Path) -> ToolHarness:
    return ToolHarness(project, files=SessionFiles(editor))


async def test_unsaved_changes_are_read_edited_and_written_back(project: Path) -> None:
    path = project / "a.py"
    path.write_text("saved\n")
    editor = Editor()
    editor.buffers[str(path)] = "not saved yet\n"
    harness = tool_harness(editor, project)
    assert (await harness.done("read_file", path="a.py")).text == "     1\tnot saved yet"
    diff = diff_in(await harness.done("edit_file", path="a.py", old_text="yet", new_text="now"))
    assert (diff.old_text, diff.new_text) == ("not saved yet\n", "not saved now\n")
    assert editor.written == {str(path): "not saved now\n"}


async def test_text_typed_after_the_read_blocks_the_edit(project: Path) -> None:
    path = project / "a.py"
    path.write_text("saved\n")
    editor = Editor()
    harness = tool_harness(editor, project)
    await harness.done("read_file", path="a.py")
    editor.buffers[str(path)] = "typed\n"
    assert "has changed since" in await harness.refused(
        "edit_file", path="a.py", old_text="saved", new_text="x"
    )


async def test_file_that_exists_only_in_the_editor_is_read(project: Path) -> None:
    editor = Editor()
    editor.buffers[str(project / "new")] = "never saved\n"
    harness = tool_harness(editor, project)
    assert "never saved" in (await harness.done("read_file", path="new")).text
    assert "was not read" in await tool_harness(editor, project).refused(
        "write_file", path="new", content="x"
    )


async def test_new_file_is_written_through_the_client(project: Path) -> None:
    editor = Editor()
    await tool_harness(editor, project).done("write_file", path="deep/er/a", content="x\n")
    assert editor.written == {str(project / "deep/er/a"): "x\n"}


async def test_client_that_returns_empty_text_for_missing_files(project: Path) -> None:
    class Empty(Editor):
        async def read_text_file(
            self, path: str, *, line: int | None = None, limit: int | None = None
        ) -> str:
            try:
                return await super().read_text_file(path, line=line, limit=limit)
            except NotFound:
                return ""

    harness = tool_harness(Empty(), project)
    assert "does not exist" in await harness.refused("read_file", path="a")
    await harness.done("write_file", path="a", content="x")


@pytest.mark.parametrize("universal", [True, False])
@pytest.mark.parametrize("strips", [True, False])
@pytest.mark.parametrize("unsaved", [True, False])
async def test_simple_clients_keep_line_endings_and_byte_order_mark(
    project: Path, universal: bool, strips: bool, unsaved: bool
) -> None:
    path = project / "a"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    editor = Editor(universal=universal, strips=strips)
    if unsaved:
        editor.buffers[str(path)] = "\ufeffONE\r\ntwo\r\n"
    harness = tool_harness(editor, project)
    await harness.done("read_file", path="a")
    await harness.done("edit_file", path="a", old_text="two\n", new_text="2\n3\n")
    assert editor.written
    first = b"ONE" if unsaved else b"one"
    assert path.read_bytes() == b"\xef\xbb\xbf" + first + b"\r\n2\r\n3\r\n"
    # The file is still known: the next edit needs no new read.
    await harness.done("edit_file", path="a", old_text="3", new_text="4")
    assert path.read_bytes() == b"\xef\xbb\xbf" + first + b"\r\n2\r\n4\r\n"


async def test_non_utf8_file_is_edited_on_disk(project: Path) -> None:
    path = project / "a"
    path.write_bytes("grün\n".encode("latin-1"))
    editor = Editor()
    harness = tool_harness(editor, project)
    await harness.done("read_file", path="a")
    await harness.done("edit_file", path="a", old_text="grün", new_text="blau")
    assert path.read_bytes() == b"blau\n"
    assert not editor.written


async def test_write_refused_by_the_client_is_not_done_on_disk(project: Path) -> None:
    path = project / "locked"
    path.write_text("old")
    harness = tool_harness(Editor(), project)
    await harness.done("read_file", path="locked")
    assert await harness.refused("write_file", path="locked", content="new") == (
        f"write_file failed: the editor did not write {path}: the user said no"
    )
    assert path.read_text() == "old"


async def test_client_with_only_read_or_only_write_support(project: Path) -> None:
    path = project / "a"
    path.write_text("saved\n")
    reader, writer = Editor(writes=False), Editor(reads=False)
    reader.buffers[str(path)] = "typed\n"
    harness = tool_harness(reader, project)
    await harness.done("read_file", path="a")
    await harness.done("edit_file", path="a", old_text="typed", new_text="edited")
    assert path.read_text() == "edited\n"
    assert not reader.written
    harness = tool_harness(writer, project)
    await harness.done("read_file", path="a")
    await harness.done("edit_file", path="a", old_text="edited", new_text="again")
    assert not writer.read
    assert writer.written == {str(path): "again\n"}


async def test_large_file_is_requested_by_lines(project: Path) -> None:
    from accord.coder.tools.tool_context import ToolLimits

    path = project / "big"
    path.write_text("line\n" * 100)
    editor = Editor()
    harness = ToolHarness(project, files=SessionFiles(editor), limits=ToolLimits(file_bytes=100))
    await harness.done("read_file", path="big", offset=5, limit=2)
    assert editor.read == [(str(path), 5, 2)]


async def test_lines_from_the_client_are_cut_to_the_limit_in_bytes(project: Path) -> None:
    path = project / "big"
    path.write_text("ü" * 100)
    files = SessionFiles(Editor())
    file = resolve_path(str(path), str(project))
    assert await files.read_part(file, 1, 1, 200) == "ü" * 100
    assert await files.read_part(file, 1, 1, 199) == "ü" * 99
    assert await files.read_part(file, 1, 1, 100) == "ü" * 50


async def test_file_tools_use_the_client_of_the_session(project: Path) -> None:
    path = project / "a.py"
    path.write_text("saved\n")
    seen: list[str] = []

    async def answer(turn: Turn) -> None:
        harness = ToolHarness(turn.session.cwd, files=SessionFiles(turn.client))
        seen.append((await harness.done("read_file", path="a.py")).text)
        seen.append((await harness.done("edit_file", path="a.py", old_text="buffer", new_text="edit")).text)

    offered = {"fs": {"readTextFile": True, "writeTextFile": True}}
    async with connected_client(make_agent(answer), capabilities=offered) as client:
        session = await client.new_session(str(project))
        turn = client.prompt(session)
        for _ in range(2):
            asked = await client.asked("fs/read_text_file")
            assert asked["params"]["path"] == str(path)
            client.raw.reply(asked, {"content": "a buffer\n"})
        asked = await client.asked("fs/write_text_file")
        assert asked["params"]["content"] == "a edit\n"
        client.raw.reply(asked, {})
        await client.turn_of(turn)
    assert seen == ["     1\ta buffer", "Edited a.py at line 1."]
    assert path.read_text() == "saved\n"
