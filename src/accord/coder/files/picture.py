"""Pictures for models: recognizes their formats and scales what is larger than providers accept.

Pillow is imported with the first picture. It is part of the `agent` extra; without it, only small files pass.
"""

import io
import threading
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from accord.errors import AccordError

if TYPE_CHECKING:
    from PIL import Image

MAX_SIDE: Final = 2000
"""The longest side, in pixels, that every provider accepts, also of many pictures in one request."""
MAX_PICTURE_BYTES: Final = 5 * 1024 * 1024 // 4 * 3
"""The largest file that every provider accepts: 5 MiB in base64."""
MAX_SOURCE_BYTES: Final = 32 * 1024 * 1024
"""The largest file that is scaled."""
_MAX_PIXELS: Final = 50_000_000
"""The largest picture that is decoded: a small file can hold a huge one."""
_HEADERS: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_FORMATS: Final = ("PNG", "JPEG", "GIF", "WEBP")
_MAX_SHRINKS: Final = 4
_ONE_AT_A_TIME: Final = threading.Lock()
"""Two large pictures would need twice the memory."""


class BadPicture(AccordError):
    """The picture cannot be sent to a model. The text is the reason."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that every provider accepts."""

    data: bytes
    mime_type: str
    note: str = ""
    """How it was scaled; empty if it is the original."""


def image_type(data: bytes) -> str | None:
    """Return the MIME type of a picture that models accept; None for other data."""
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    return next((mime for magic, mime in _HEADERS if data.startswith(magic)), None)


def fit_picture(data: bytes, max_bytes: int = MAX_PICTURE_BYTES) -> Picture:
    """Return the picture, scaled down if it is too large. Can take a second. Raises BadPicture."""
    mime_type = image_type(data)
    if mime_type is None:
        raise BadPicture("it is not PNG, JPEG, GIF or WebP")
    if len(data) > MAX_SOURCE_BYTES:
        raise BadPicture(f"{len(data):,} bytes are too many; at most {MAX_SOURCE_BYTES:,} are scaled")
    try:
        from PIL import Image
    except ImportError:
        if len(data) <= max_bytes:
            return Picture(data, mime_type)
        raise BadPicture(
            f"{len(data):,} bytes are too many, and scaling needs Pillow; install accord[agent]"
        ) from None
    warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)  # we have our own limit
    try:
        with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
            if len(data) <= max_bytes and max(image.size) <= MAX_SIDE:
                return Picture(data, mime_type)
            with _ONE_AT_A_TIME:
                return _scaled(image, max_bytes)
    except BadPicture:
        raise
    except Image.DecompressionBombError:
        raise BadPicture("it has too many pixels") from None
    except Exception:  # noqa: BLE001 - decoders raise many kinds of errors for broken files
        pass
    if len(data) > max_bytes:
        raise BadPicture(f"{len(data):,} bytes are too many, and it cannot be decoded to scale it")
    return Picture(data, mime_type)  # the provider may know more of the format


def _scaled(image: "Image.Image", max_bytes: int) -> Picture:
    from PIL import ImageOps

    size = image.size
    image.draft(None, (MAX_SIDE, MAX_SIDE))  # a JPEG file is decoded at a fraction of its size
    # A progressive one keeps the coefficients of all its pixels all the same.
    decoded = size if image.info.get("progressive") else image.size
    if decoded[0] * decoded[1] > _MAX_PIXELS:
        raise BadPicture(f"it has {size[0]:,} x {size[1]:,} pixels; at most {_MAX_PIXELS:,} are decoded")
    is_photo = image.format == "JPEG"
    small: Image.Image = image
    if image.mode not in ("RGB", "L"):
        small = image.convert("RGBA" if image.has_transparency_data else "RGB")
        image.close()  # a decoded picture can take hundreds of megabytes
    small.thumbnail((MAX_SIDE, MAX_SIDE))
    turned = ImageOps.exif_transpose(small)
    if turned.size != small.size:
        size = (size[1], size[0])
    small = turned.convert("RGBA" if turned.has_transparency_data else "RGB")
    side = MAX_SIDE
    for _ in range(_MAX_SHRINKS):
        small.thumbnail((side, side))
        for mime_type, encoded in _encodings(small, is_photo):
            if len(encoded) <= max_bytes:
                note = f"scaled from {size[0]} x {size[1]} to {small.size[0]} x {small.size[1]} pixels"
                return Picture(encoded, mime_type, note)
        side = max(small.size) // 2
    raise BadPicture(f"scaled to {small.size[0]} x {small.size[1]} it is still over {max_bytes:,} bytes")


def _encodings(image: "Image.Image", is_photo: bool) -> "list[tuple[str, bytes]]":
    """Return the picture as files, the best first: drawings as PNG, which keeps text sharp."""
    from PIL import Image

    files: list[tuple[str, bytes]] = []
    if not is_photo:
        files.append(("image/png", _file_of(image, "PNG")))
    if image.mode == "RGBA":
        opaque = Image.new("RGB", image.size, "white")
        opaque.paste(image, mask=image.getchannel("A"))
        image = opaque
    files.append(("image/jpeg", _file_of(image, "JPEG")))
    return files


def _file_of(image: "Image.Image", file_format: str) -> bytes:
    file = io.BytesIO()
    image.save(file, file_format, quality=85)
    return file.getvalue()
