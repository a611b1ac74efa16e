"""Pasted blocks as chips, and pictures from the clipboard, read with a stand-in program on PATH."""

import base64
import shutil
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.tui.chat import DEMO_AGENT, Chat, running_chat
from tests.tui.test_chat_command import terminal
from textual import events

from accord.errors import UsageError
from accord.tui import clipboard_picture
from accord.tui.clipboard_picture import read_picture
from accord.tui.picture_preview import decode_png, picture_protocol, show_sequence

LINES = "\n".join(f"line {number} of @secret.txt" for number in range(12))


def png(width: int = 4, height: int = 2) -> bytes:
    """A red picture."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + b"\xff\0\0" * width for _ in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


async def paste(chat: Chat, text: str) -> None:
    chat.view.prompt.editor.post_message(events.Paste(text))
    await chat.pilot.pause()


async def test_a_pasted_block_is_a_chip_that_is_sent_whole(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("not asked for")
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.type("say ")
        await paste(chat, LINES.replace("\n", "\r\n"))
        await chat.type(" end")
        assert chat.view.prompt.editor.text == "say [Pasted 1: 12 lines] end"
        await chat.pilot.press("enter")
        await chat.wait_for_text("line 11 of @secret.txt end")
        assert "not asked for" not in chat.text
        assert "with" not in chat.text, "a pasted text attaches no files"
        await chat.pilot.press("up")
        assert chat.view.prompt.editor.text == f"say {LINES} end", "the history keeps the text"


async def test_a_chip_can_be_removed_unfolded_and_put_aside(tmp_path: Path) -> None:
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        editor = chat.view.prompt.editor
        await paste(chat, LINES)
        await paste(chat, "x" * 1_500)
        assert editor.text == "[Pasted 1: 12 lines][Pasted 2: 1500 characters]"
        await chat.pilot.press("backspace")
        assert editor.text == "[Pasted 1: 12 lines]"
        await chat.pilot.press("alt+s")
        await chat.wait_until(lambda: not editor.text)
        await chat.pilot.press("alt+s")
        await chat.wait_until(lambda: editor.text == "[Pasted 1: 12 lines]")
        await chat.pilot.press("ctrl+o")
        assert editor.text == LINES
        await paste(chat, "two\nlines")
        assert editor.text == f"{LINES}two\nlines", "a short text is no chip"


@pytest.fixture
def clipboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, bytes], None]:
    """Puts a stand-in for a clipboard program on PATH that prints these bytes."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("sh", "cat", "git"):
        found = shutil.which(name)
        if found is not None:
            (folder / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    monkeypatch.setenv("DISPLAY", ":0")

    def put(program: str, output: bytes) -> None:
        (folder / f"{program}.data").write_bytes(output)
        path = folder / program
        path.write_text(f"#!/bin/sh\nexec cat '{folder / program}.data'\n")
        path.chmod(0o755)

    return put


@pytest.mark.parametrize(
    ("program", "encode"),
    [
        ("wl-paste", bytes),
        ("xclip", bytes),
        ("pngpaste", bytes),
        ("osascript", lambda data: b"\xc2\xabdata PNGf" + data.hex().upper().encode() + b"\xc2\xbb\n"),
        ("powershell.exe", lambda data: base64.b64encode(data) + b"\r\n"),
    ],
)
def test_each_program_gives_the_picture(
    clipboard: Callable[[str, bytes], None], program: str, encode: Callable[[bytes], bytes]
) -> None:
    clipboard(program, encode(png()))
    assert read_picture() == png()
    clipboard(program, b"only text")
    assert read_picture() is None


def test_too_much_and_a_missing_program_are_refused_in_one_line(
    clipboard: Callable[[str, bytes], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="install wl-clipboard, xclip or pngpaste"):
        read_picture()
    monkeypatch.setattr(clipboard_picture, "MAX_MEDIA", 10)
    clipboard("pngpaste", png() + bytes(5_000))
    with pytest.raises(UsageError, match="is larger than"):
        read_picture()


async def test_ctrl_v_attaches_the_picture_and_it_is_sent(
    tmp_path: Path, clipboard: Callable[[str, bytes], None]
) -> None:
    clipboard("xclip", png(640, 480))
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await chat.pilot.press("ctrl+v")
        await chat.wait_until(lambda: "picture 1 (PNG, 640×480" in chat.screen)
        await chat.send("look")
        await chat.wait_for_text("with image:")
        await paste(chat, "")  # how some terminals paste a picture
        await chat.wait_until(lambda: "picture 2" in chat.screen)
        await chat.pilot.press("backspace")
        await chat.wait_until(lambda: "picture 2" not in chat.screen)
        clipboard("xclip", b"text")
        await chat.pilot.press("ctrl+v")
        await chat.wait_until(lambda: "The clipboard holds no picture" in chat.notifications)


async def test_a_picture_by_path_is_described(tmp_path: Path) -> None:
    (tmp_path / "shot.png").write_bytes(png(20, 10))
    async with running_chat(tmp_path) as chat:
        await chat.wait_ready()
        await paste(chat, str(tmp_path / "shot.png"))
        await chat.wait_until(lambda: "shot.png (PNG, 20×10" in chat.screen)


@pytest.mark.parametrize(
    ("environ", "protocol"),
    [
        ({"TERM": "xterm-kitty"}, "kitty"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "ghostty"}, "kitty"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "WezTerm"}, "iterm2"),
        ({"TERM": "foot"}, "sixel"),
        ({"TERM": "xterm-256color"}, ""),
        ({"TERM": "tmux-256color", "TERM_PROGRAM": "ghostty"}, ""),
        ({"TERM": "xterm-kitty", "TMUX": "1"}, ""),
    ],
)
def test_the_protocol_of_the_terminal(environ: dict[str, str], protocol: str) -> None:
    assert picture_protocol(environ) == protocol


def test_the_sequences_hold_the_picture() -> None:
    kitty = show_sequence("kitty", png(80, 40), 40, 8)
    assert kitty.startswith("\x1b_Ga=T,f=100,")
    assert "c=32,r=8" in kitty, "the shape is kept"
    sent = "".join(part.partition(";")[2] for part in kitty.split("\x1b_G")).replace("\x1b\\", "")
    assert base64.b64decode(sent) == png(80, 40)
    iterm = show_sequence("iterm2", png(), 40, 8)
    assert base64.b64decode(iterm.rpartition(":")[2].removesuffix("\x07")) == png()
    sixel = show_sequence("sixel", png(80, 40), 40, 8)
    assert sixel.startswith('\x1bPq"1;1;256;128#180;2;100;0;0')
    assert "#180" + "~" * 256 in sixel, "a band of red"
    assert show_sequence("sixel", png()[:40], 40, 8) == "", "a broken picture is only described"
    assert show_sequence("kitty", b"\xff\xd8\xff" + bytes(60), 40, 8) == ""


@pytest.mark.parametrize("kind", [0, 1, 2, 3, 4])
def test_all_filters_of_a_png_are_decoded(kind: int) -> None:
    rows = [bytes(range(12)), bytes(range(40, 52))]
    encoded = _filtered(kind, rows)
    head = struct.pack(">IIBBBBB", 4, 2, 8, 2, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n"
    for name, body in ((b"IHDR", head), (b"IDAT", zlib.compress(encoded)), (b"IEND", b"")):
        data += struct.pack(">I", len(body)) + name + body + bytes(4)
    assert decode_png(data) == rows


def _filtered(kind: int, rows: list[bytes]) -> bytes:
    out, above = b"", bytes(12)
    for row in rows:
        out += bytes((kind,))
        for x, value in enumerate(row):
            left, corner = (row[x - 3], above[x - 3]) if x >= 3 else (0, 0)
            up = above[x]
            guess = left + up - corner
            nearest = min((left, up, corner), key=lambda one: abs(guess - one))
            out += bytes(((value - (0, left, up, (left + up) // 2, nearest)[kind]) & 255,))
        above = row
    return out


async def test_the_picture_is_drawn_above_the_prompt_and_removed_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-kitty")
    monkeypatch.delenv("TMUX", raising=False)
    monkeypatch.delenv("STY", raising=False)
    (tmp_path / "shot.png").write_bytes(png(80, 40))
    written: list[str] = []
    async with running_chat(tmp_path, size=(80, 40), app={"write": written.append}) as chat:
        await chat.wait_ready()
        await paste(chat, str(tmp_path / "shot.png"))
        await chat.wait_until(lambda: any("a=T,f=100" in text for text in written))
        assert "shot.png (PNG, 80×40" in chat.screen
        await chat.pilot.press("backspace")
        await chat.wait_until(lambda: any("a=d,d=I" in text for text in written))
        await chat.wait_until(lambda: not chat.view.prompt.query_one("PicturePreview").display)


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_a_pasted_block_on_a_terminal(tmp_path: Path, home: Path) -> None:
    block = tmp_path / "block.txt"
    block.write_text(LINES)
    with terminal(tmp_path, home, (80, 24), "--", *DEMO_AGENT) as tmux:
        tmux.wait_for_text("ready")
        tmux.type("-l", "say ")
        tmux.run("load-buffer", str(block))
        tmux.run("paste-buffer", "-p", "-t", "chat")
        tmux.wait_for_text("say [Pasted 1: 12 lines]")
        tmux.type("Enter")
        tmux.wait_for_text("line 11 of @secret.txt", "done")
