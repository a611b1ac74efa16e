"""Pictures are scaled to what providers accept; broken and huge ones are refused with a reason."""

import builtins
import io
import random
from typing import Any

import pytest
from PIL import Image

from accord.coder.files.picture import MAX_PICTURE_BYTES, MAX_SIDE, BadPicture, Picture, fit_picture


def file_of(size: tuple[int, int], file_format: str, mode: str = "RGB", **options: Any) -> bytes:
    file = io.BytesIO()
    Image.new(mode, size).save(file, file_format, **options)
    return file.getvalue()


def noise(side: int, file_format: str) -> bytes:
    """A picture that no format can compress."""
    file = io.BytesIO()
    Image.frombytes("RGB", (side, side), random.Random(1).randbytes(side * side * 3)).save(file, file_format)
    return file.getvalue()


def test_a_small_picture_stays_as_it_is() -> None:
    data = file_of((MAX_SIDE, 10), "PNG")
    assert fit_picture(data) == Picture(data, "image/png")


@pytest.mark.parametrize(
    ("file_format", "mode", "scaled_type"),
    [
        ("PNG", "RGBA", "image/png"),
        ("PNG", "P", "image/png"),
        ("PNG", "I;16", "image/png"),
        ("JPEG", "RGB", "image/jpeg"),
        ("JPEG", "CMYK", "image/jpeg"),
        ("GIF", "P", "image/png"),
        ("WEBP", "RGB", "image/png"),
    ],
)
def test_a_large_picture_is_scaled(file_format: str, mode: str, scaled_type: str) -> None:
    picture = fit_picture(file_of((5000, 100), file_format, mode))
    assert picture.note == "scaled from 5000 x 100 to 2000 x 40 pixels"
    assert picture.mime_type == scaled_type
    with Image.open(io.BytesIO(picture.data)) as image:
        assert image.size == (2000, 40)
        assert f"image/{(image.format or '').lower()}" == scaled_type


def test_a_turned_photo_is_scaled_upright() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90 degrees
    picture = fit_picture(file_of((4000, 100), "JPEG", exif=exif))
    assert picture.note == "scaled from 100 x 4000 to 50 x 2000 pixels"


def test_a_large_file_becomes_smaller() -> None:
    data = noise(300, "PNG")
    picture = fit_picture(data, 60_000)
    assert len(picture.data) <= 60_000 < len(data)
    assert picture.mime_type == "image/jpeg"
    with pytest.raises(BadPicture, match="it is still over 100 bytes"):
        fit_picture(data, 100)


def test_a_picture_with_too_many_pixels_is_not_decoded() -> None:
    bomb = file_of((8000, 8000), "PNG", "1")
    assert len(bomb) < 10_000
    with pytest.raises(BadPicture, match=r"8,000 x 8,000 pixels; at most 50,000,000 are decoded"):
        fit_picture(bomb)
    with pytest.raises(BadPicture, match="too many pixels"):
        fit_picture(file_of((20_000, 20_000), "PNG", "1"))


def test_a_photo_of_108_megapixels_is_decoded_at_a_fraction_of_its_size() -> None:
    assert (
        fit_picture(file_of((12_000, 9000), "JPEG")).note == "scaled from 12000 x 9000 to 2000 x 1500 pixels"
    )


def test_a_progressive_photo_of_108_megapixels_is_not_decoded() -> None:
    with pytest.raises(BadPicture, match="12,000 x 9,000 pixels; at most 50,000,000 are decoded"):
        fit_picture(file_of((12_000, 9000), "JPEG", progressive=True))


def test_a_damaged_picture_is_left_to_the_provider_unless_it_is_too_large() -> None:
    damaged = noise(60, "PNG")[:5000]
    assert fit_picture(damaged) == Picture(damaged, "image/png")
    with pytest.raises(BadPicture, match="5,000 bytes are too many, and it cannot be decoded"):
        fit_picture(damaged, 1000)
    with pytest.raises(BadPicture, match="not PNG, JPEG, GIF or WebP"):
        fit_picture(b"BM bitmap")
    with pytest.raises(BadPicture, match="at most 33,554,432 are scaled"):
        fit_picture(damaged + bytes(33_554_432))


def test_without_pillow_small_files_pass_and_the_reason_names_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real_import = builtins.__import__

    def without_pillow(name: str, *rest: Any) -> Any:
        if name.partition(".")[0] == "PIL":
            raise ImportError(name)
        return real_import(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_pillow)
    data = b"\x89PNG\r\n\x1a\n"
    assert fit_picture(data) == Picture(data, "image/png")
    with pytest.raises(BadPicture, match=r"scaling needs Pillow; install accord\[agent\]"):
        fit_picture(data + bytes(MAX_PICTURE_BYTES))
