"""Shows the picture that is attached to the prompt, in terminals that can: Kitty, iTerm2 and Sixel.

Other terminals show only the line that describes it. Imported on first use.
"""

import asyncio
import base64
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final, Literal, TypeAlias

from textual.widget import Widget

from accord.tui.picture_info import picture_info
from accord.tui.theme import app_of

PictureProtocol: TypeAlias = Literal["", "kitty", "iterm2", "sixel"]
ROWS: Final = 8
COLUMNS: Final = 40
MAX_BYTES: Final = 2 * 1024 * 1024
"""Larger pictures are only described: a terminal behind a slow connection would stand still."""
_MIN_HEIGHT: Final = 30
"""Lines of the screen from which on pictures are shown."""
_MAX_PIXELS: Final = 1_000_000
_TICK: Final = 0.2
"""Seconds between two looks at whether the picture has moved."""
_IMAGE_ID: Final = 4242
_CHUNK: Final = 4096
_CELL: Final = (8, 16)
"""The usual size of a cell in pixels, for Sixel."""
_LEVELS: Final = 6
"""Shades of each color in a Sixel picture."""


def picture_protocol(environ: Mapping[str, str]) -> PictureProtocol:
    """How this terminal shows pictures; empty if it cannot, also inside of tmux and screen."""
    term, program = environ.get("TERM", ""), environ.get("TERM_PROGRAM", "")
    if "TMUX" in environ or "STY" in environ or term.startswith(("tmux", "screen")):
        return ""
    if "kitty" in term or "KITTY_WINDOW_ID" in environ or program == "ghostty":
        return "kitty"
    if program in ("iTerm.app", "WezTerm") or environ.get("LC_TERMINAL") == "iTerm2":
        return "iterm2"
    return "sixel" if term.startswith(("foot", "mlterm", "contour", "yaft")) else ""


def show_sequence(protocol: PictureProtocol, data: bytes, columns: int, rows: int) -> str:
    """The escape sequences that draw a picture at the cursor; empty if the terminal cannot show it."""
    info = picture_info(data)
    if info is None or not info.width or not info.height:
        return ""
    columns, rows = fit(info.width, info.height, columns, rows)
    if protocol == "kitty" and info.format == "PNG":
        return _kitty(data, columns, rows)
    if protocol == "iterm2":
        name = f"inline=1;size={len(data)};width={columns};height={rows};doNotMoveCursor=1"
        return f"\x1b]1337;File={name}:{base64.b64encode(data).decode()}\x07"
    if protocol == "sixel" and info.format == "PNG":
        try:
            return _sixel(decode_png(data), columns * _CELL[0], rows * _CELL[1])
        except (ValueError, IndexError, zlib.error):
            return ""
    return ""


def hide_sequence(protocol: PictureProtocol) -> str:
    """Removes the picture; the other terminals lose it when the lines are drawn again."""
    return f"\x1b_Ga=d,d=I,i={_IMAGE_ID},q=2\x1b\\" if protocol == "kitty" else ""


def fit(width: int, height: int, columns: int, rows: int) -> tuple[int, int]:
    """The cells of a picture that keeps its shape within these."""
    by_height = max(round(width / height * rows * _CELL[1] / _CELL[0]), 1)
    if by_height <= columns:
        return by_height, rows
    return columns, max(round(height / width * columns * _CELL[0] / _CELL[1]), 1)


def _kitty(data: bytes, columns: int, rows: int) -> str:
    text = base64.b64encode(data).decode()
    parts = [text[at : at + _CHUNK] for at in range(0, len(text), _CHUNK)]
    out: list[str] = []
    for number, part in enumerate(parts):
        more = int(number < len(parts) - 1)
        head = f"a=T,f=100,i={_IMAGE_ID},c={columns},r={rows},C=1,q=2," if number == 0 else ""
        out.append(f"\x1b_G{head}m={more};{part}\x1b\\")
    return "".join(out)


Pixels: TypeAlias = list[bytes]
"""The rows of a picture, three bytes for each pixel."""


def decode_png(data: bytes) -> Pixels:
    """The pixels of a usual PNG: 8 bits, not interlaced. Raises ValueError for others."""
    width, height = int.from_bytes(data[16:20]), int.from_bytes(data[20:24])
    depth, color, interlaced = data[24], data[25], data[28]
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}.get(color, 0)
    if depth != 8 or interlaced or not channels or not 0 < width * height <= _MAX_PIXELS:
        raise ValueError("the picture cannot be decoded here")
    chunks = list(_chunks(data))
    packed = b"".join(body for kind, body in chunks if kind == b"IDAT")
    palette = next((body for kind, body in chunks if kind == b"PLTE"), b"")
    stride = width * channels
    raw = zlib.decompressobj().decompress(packed, (stride + 1) * height)
    if len(raw) < (stride + 1) * height:
        raise ValueError("the picture is cut off")
    rows: Pixels = []
    above = bytearray(stride)
    for y in range(height):
        start = y * (stride + 1)
        above = _unfiltered(raw[start], bytearray(raw[start + 1 : start + 1 + stride]), above, channels)
        rows.append(_rgb(above, color, palette))
    return rows


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 8
    while at + 8 <= len(data):
        length = int.from_bytes(data[at : at + 4])
        yield data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        at += length + 12


def _unfiltered(kind: int, line: bytearray, above: bytearray, step: int) -> bytearray:
    for x in range(len(line)):
        left = line[x - step] if x >= step else 0
        up, corner = above[x], above[x - step] if x >= step else 0
        if kind == 1:
            line[x] = (line[x] + left) & 255
        elif kind == 2:
            line[x] = (line[x] + up) & 255
        elif kind == 3:
            line[x] = (line[x] + (left + up) // 2) & 255
        elif kind == 4:
            guess = left + up - corner
            nearest = min((left, up, corner), key=lambda value: abs(guess - value))
            line[x] = (line[x] + nearest) & 255
    return line


def _rgb(line: bytearray, color: int, palette: bytes) -> bytes:
    if color == 2:
        return bytes(line)
    if color == 3:
        return b"".join(palette[index * 3 : index * 3 + 3].ljust(3, b"\0") for index in line)
    if color == 6:
        return b"".join(bytes(line[x : x + 3]) for x in range(0, len(line), 4))
    return b"".join(bytes((gray, gray, gray)) for gray in line[:: 1 if color == 0 else 2])


def _sixel(rows: Pixels, width: int, height: int) -> str:
    """The picture in 216 colors, scaled to this size in pixels."""
    out = [f'\x1bPq"1;1;{width};{height}']
    steps = _LEVELS - 1
    used: set[int] = set()
    bands: list[str] = []
    for top in range(0, height, 6):
        colors: dict[int, bytearray] = {}
        for offset in range(min(6, height - top)):
            source = rows[(top + offset) * len(rows) // height]
            for x in range(width):
                at = x * (len(source) // 3) // width * 3
                red, green, blue = ((value * steps + 127) // 255 for value in source[at : at + 3])
                index = (red * _LEVELS + green) * _LEVELS + blue
                colors.setdefault(index, bytearray(width))[x] |= 1 << offset
        used |= colors.keys()
        lines = (f"#{index}{bytes(63 + bits for bits in line).decode()}" for index, line in colors.items())
        bands.append("$".join(lines))
    for index in sorted(used):
        red, rest = divmod(index, _LEVELS * _LEVELS)
        green, blue = divmod(rest, _LEVELS)
        levels = ";".join(str(level * 100 // steps) for level in (red, green, blue))
        out.append(f"#{index};2;{levels}")
    return "".join(out) + "-".join(bands) + "\x1b\\"


class PicturePreview(Widget):
    """The room above the prompt in which the terminal draws the picture."""

    DEFAULT_CSS: ClassVar[str] = """
    PicturePreview { display: none; height: 8; }
    PicturePreview.some { display: block; }
    """

    def __init__(self, protocol: PictureProtocol) -> None:
        super().__init__()
        self._protocol: PictureProtocol = protocol
        self._sequence = ""
        self._drawn: tuple[Any, ...] | None = None
        """Where the picture was drawn last."""

    def on_mount(self) -> None:
        self.set_interval(_TICK, self._draw)

    def show(self, data: bytes) -> None:
        """Show this picture; empty bytes show none."""
        self.run_worker(self._show(data), group="picture", exclusive=True)

    async def _show(self, data: bytes) -> None:
        room = self.screen.size.height >= _MIN_HEIGHT and 0 < len(data) <= MAX_BYTES
        sequence = ""
        if room:
            sequence = await asyncio.to_thread(show_sequence, self._protocol, data, COLUMNS, ROWS)
        if sequence != self._sequence:
            self._hide()
            self._sequence = sequence
            self.set_class(bool(sequence), "some")

    def render(self) -> str:
        return ""

    @property
    def _place(self) -> tuple[Any, ...] | None:
        """Where the picture is to be drawn; None while another screen is above it."""
        visible = self.app.screen is self.screen and self.region.height == ROWS  # pyright: ignore
        return (self.region, self.screen.size) if visible and self._sequence else None

    def _hide(self) -> None:
        if self._drawn is not None:
            self._drawn = None
            app: Any = app_of(self)
            app.write_sequence(hide_sequence(self._protocol))
            app.redraw()

    def _draw(self) -> None:
        """Draw the picture, or draw it again after it has moved: first the lines, then the picture."""
        if self._drawn is not None:
            if self._drawn != self._place:
                self._hide()
        elif (place := self._place) is not None:
            self._drawn = place
            x, y = self.region.offset
            app: Any = app_of(self)
            app.write_sequence(f"\x1b7\x1b[{y + 1};{x + 1}H{self._sequence}\x1b8")
