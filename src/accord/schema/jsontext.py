"""JSON text into plain values, whatever the other side wrote: a value, or one clean `NotJson`.

Half of a surrogate pair, which JavaScript peers send when they cut an emoji in two, becomes U+FFFD.
"""

import re
from typing import Any

import msgspec

# An odd run of backslashes and a surrogate: either a whole pair, or (group 2) one half alone.
_SURROGATE = re.compile(
    rb"(?<!\\)((?:\\\\)*)\\u(?:d[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|(d[89a-f][0-9a-f]{2}))", re.IGNORECASE
)
_HALF = re.compile(rb"\\ud[89a-f]", re.IGNORECASE)

_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder()


class NotJson(ValueError):
    """The text is not JSON, or not JSON that can be taken in. The message says why, in one line."""


def parse_json(raw: bytes | bytearray | memoryview | msgspec.Raw) -> Any:
    """The value of a JSON text, in plain dicts, lists, strings, numbers, booleans and None."""
    try:
        return _decoder.decode(raw)
    except msgspec.ValidationError as error:  # a number beyond what Python takes
        raise NotJson(str(error)) from None
    except UnicodeDecodeError as error:
        raise NotJson(f"not UTF-8: {error.reason}") from None
    except RecursionError:
        raise NotJson("nested too deep") from None
    except msgspec.DecodeError as error:
        mended = mend_surrogates(raw)
        if mended is None:
            raise NotJson(str(error)) from None
    return parse_json(mended)


def mend_surrogates(raw: bytes | bytearray | memoryview | msgspec.Raw) -> bytes | None:
    """The same JSON text with U+FFFD for every lone surrogate escape; None where there is nothing to mend."""
    text = bytes(raw)
    if not _HALF.search(text):
        return None
    mended = _SURROGATE.sub(lambda found: found[1] + rb"\ufffd" if found[2] else found[0], text)
    return None if mended == text else mended


def is_utf8(raw: bytes | bytearray) -> bool:
    """Whether the bytes are valid UTF-8. Members that nobody decodes are not checked by the decoder."""
    if raw.isascii():
        return True
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True
