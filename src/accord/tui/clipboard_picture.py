"""Reads a picture from the clipboard with the programs of the system. Imported on first use.

The programs run without a shell, with a time limit; what they print is bounded and must be a picture.
"""

import base64
import binascii
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from accord.errors import UsageError
from accord.frontend.attachments import MAX_MEDIA, picture_type

_SECONDS: Final = 5.0
_POWERSHELL: Final = (
    "Add-Type -AssemblyName System.Windows.Forms; $p = [Windows.Forms.Clipboard]::GetImage(); "
    "if ($p) { $s = New-Object IO.MemoryStream; $p.Save($s, [Drawing.Imaging.ImageFormat]::Png); "
    "[Convert]::ToBase64String($s.ToArray()) }"
)


class _Source(NamedTuple):
    """A program that prints the picture in the clipboard."""

    command: tuple[str, ...]
    decode: Callable[[bytes], bytes] = bytes
    variable: str = ""
    """The variable that must be set for the program to be of use."""


def _from_apple_script(output: bytes) -> bytes:
    found = re.search(rb"PNGf([0-9A-Fa-f]+)", output)
    return binascii.unhexlify(found[1]) if found is not None else b""


def _from_base64(output: bytes) -> bytes:
    return base64.b64decode(b"".join(output.split()))


_SOURCES: Final = (
    _Source(("wl-paste", "--no-newline", "--type", "image/png"), variable="WAYLAND_DISPLAY"),
    _Source(("xclip", "-selection", "clipboard", "-target", "image/png", "-out"), variable="DISPLAY"),
    _Source(("pngpaste", "-")),
    _Source(("osascript", "-e", "the clipboard as «class PNGf»"), _from_apple_script),
    _Source(("powershell.exe", "-NoProfile", "-STA", "-Command", _POWERSHELL), _from_base64),
)


def read_picture(environ: Mapping[str, str] = os.environ) -> bytes | None:
    """The picture in the clipboard; None if it holds none. Blocking. Raises UsageError."""
    usable = [
        source
        for source in _SOURCES
        if (not source.variable or environ.get(source.variable))
        and shutil.which(source.command[0], path=environ.get("PATH")) is not None
    ]
    if not usable:
        raise UsageError(
            "no program here can read a picture from the clipboard; install wl-clipboard, xclip or pngpaste, "
            "or paste the path of a file"
        )
    for source in usable:
        try:
            data = source.decode(_output(source.command))
        except (OSError, ValueError):
            continue
        if data and picture_type(data) is not None:
            return data
    return None


def _output(command: tuple[str, ...]) -> bytes:
    """What a program prints. Raises OSError if it fails, and UsageError if it prints too much."""
    limit = MAX_MEDIA * 2 + 1024  # AppleScript prints two characters for each byte
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        timer = threading.Timer(_SECONDS, process.kill)
        timer.start()
        data = process.stdout.read(limit + 1)
        if len(data) > limit:
            process.kill()
        process.wait()
        timer.cancel()
    if len(data) > limit:
        raise UsageError(f"the picture in the clipboard is larger than {MAX_MEDIA // 1024 // 1024} MiB")
    if process.returncode:
        raise OSError(f"{command[0]} ended with exit code {process.returncode}")
    return data
