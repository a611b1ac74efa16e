"""Encode and decode messages; parse JSON text that may be broken.

A correct message is decoded once, by msgspec, directly into its type. Only if that fails, it is decoded a
second time, leniently; the code for that is imported on first use.

Loaded before `initialize` is answered: keep heavy imports out.
"""

import re
from collections.abc import Iterable
from threading import Lock
from typing import Any, Final, TypeVar, overload

import msgspec

from accord.schema.base import ChoiceType, Mismatch, Unknown

__all__ = ["DECODE_ERRORS", "Mismatch", "decode", "decode_strict", "decoder", "encode", "read", "to_builtins"]


# JSON text to plain values. A lone surrogate, which JavaScript peers send when they cut an emoji, becomes
# U+FFFD.

# An odd number of backslashes and a surrogate: either a whole pair, or (group 2) a lone half.
# Compiled on first use, because every start loads this file.
_SURROGATE = rb"(?i)(?<!\\)((?:\\\\)*)\\u(?:d[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|(d[89a-f][0-9a-f]{2}))"
_LONE_HALF = rb"(?i)\\ud[89a-f]"

_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder()


class NotJson(ValueError):
    """The text is not JSON, or contains values that Python cannot represent. The message is one line."""


def parse_json(raw: bytes | bytearray | memoryview | msgspec.Raw) -> Any:
    """Parse a JSON text to dicts, lists, strings, numbers, booleans and None."""
    try:
        return _decoder.decode(raw)
    except msgspec.ValidationError as error:  # a number beyond what Python takes
        raise NotJson(str(error)) from None
    except UnicodeDecodeError as error:
        raise NotJson(f"not UTF-8: {error.reason}") from None
    except RecursionError:
        raise NotJson("nested too deep") from None
    except msgspec.DecodeError as error:
        repaired = replace_surrogates(raw)
        if repaired is None:
            raise NotJson(str(error)) from None
    return parse_json(repaired)


def replace_surrogates(raw: bytes | bytearray | memoryview | msgspec.Raw) -> bytes | None:
    """Replace every lone surrogate escape with U+FFFD. Returns None if there is none."""
    text = bytes(raw)
    if not re.search(_LONE_HALF, text):
        return None
    repaired = re.sub(_SURROGATE, lambda match: match[1] + rb"\ufffd" if match[2] else match[0], text)
    return None if repaired == text else repaired


def is_utf8(raw: bytes | bytearray) -> bool:
    """Whether the bytes are valid UTF-8. The decoder does not check members that it skips."""
    if raw.isascii():
        return True
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


T = TypeVar("T")

DECODE_ERRORS: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


@overload
def decode_strict(cls: type[T], raw: bytes | msgspec.Raw) -> T: ...
@overload
def decode_strict(cls: Any, raw: bytes | msgspec.Raw) -> Any: ...
def decode_strict(cls: Any, raw: bytes | msgspec.Raw) -> Any:
    """Decode a JSON text that matches the type exactly. Raises `Mismatch`."""
    try:
        return (_decoders.get(cls) or _new_decoder(cls)).decode(raw)
    except DECODE_ERRORS as error:
        reason, _, place = str(error).partition(" - at `")
        raise Mismatch(place.rstrip("`") or "$", reason) from None


@overload
def decode(cls: type[T], raw: bytes | msgspec.Raw) -> T: ...
@overload
def decode(cls: Any, raw: bytes | msgspec.Raw) -> Any: ...
def decode(cls: Any, raw: bytes | msgspec.Raw) -> Any:
    """Decode a JSON text, leniently if needed. Raises `Mismatch`."""
    try:
        return (_decoders.get(cls) or _new_decoder(cls)).decode(raw)
    except DECODE_ERRORS:
        pass
    try:
        value = parse_json(raw)
    except NotJson as error:
        raise Mismatch("$", str(error)) from None
    return read(cls, value)


@overload
def read(cls: type[T], value: Any) -> T: ...
@overload
def read(cls: Any, value: Any) -> Any: ...
def read(cls: Any, value: Any) -> Any:
    """Convert parsed JSON to the type, leniently. Raises `Mismatch`."""
    from accord.schema.validation import read_value

    return read_value(cls, value)


def convert(cls: Any, value: Any) -> Any:
    """The same as `read`, but fast for a value that matches the type exactly."""
    decoder(cls)  # describes the class
    try:
        return msgspec.convert(value, cls, dec_hook=_decode_choice)
    except msgspec.ValidationError:
        return read(cls, value)


def encode(message: Any) -> bytes:
    """Encode a message or plain values. Absent fields are left out; lone surrogates become U+FFFD."""
    try:
        return _encoder.encode(message)
    except UnicodeEncodeError:
        import json

        return _encoder.encode(parse_json(json.dumps(to_builtins(message)).encode()))


def encode_all(messages: Iterable[Any]) -> list[bytes]:
    """Encode each message, as `encode` does."""
    messages = tuple(messages)
    try:
        return list(map(_encoder.encode, messages))
    except UnicodeEncodeError:
        return list(map(encode, messages))


def to_builtins(message: Any) -> Any:
    """Convert a message to dicts, lists, strings and numbers."""
    return msgspec.to_builtins(message, enc_hook=_encode_unknown, str_keys=True)


def check_type(message: object) -> None:
    """Raise an error for a message with values of wrong types. Takes a microsecond, for long texts too."""
    values = msgspec.to_builtins(message, enc_hook=_encode_checked, str_keys=True)
    decoder(type(message))  # describes the class
    msgspec.convert(values, type(message), dec_hook=_decode_choice)


def decoder(cls: Any) -> msgspec.json.Decoder[Any]:
    """Return the decoder of a type, for callers that use it often. It raises one of `DECODE_ERRORS`."""
    return _decoders.get(cls) or _new_decoder(cls)


_creating: Final = Lock()


def _new_decoder(cls: Any) -> msgspec.json.Decoder[Any]:
    # msgspec describes each class while it makes the first decoder for it. A thread that used such a
    # description before it is complete would crash the process.
    with _creating:
        found = _decoders.get(cls)
        if found is None:
            found = _decoders[cls] = msgspec.json.Decoder(cls, dec_hook=_decode_choice)
        return found


def _decode_choice(choice: type[Any], value: Any) -> Any:
    """Decode a `Choice`. msgspec calls this for types that it does not know."""
    assert isinstance(choice, ChoiceType)
    failure = msgspec.ValidationError("unknown variant")
    for candidate in choice.candidates(value):
        if candidate not in _decoders:
            _new_decoder(candidate)  # describes the class
        try:
            return msgspec.convert(value, candidate, dec_hook=_decode_choice)
        except msgspec.ValidationError as error:
            failure = error
    raise failure


def _encode_unknown(value: Any) -> Any:
    if isinstance(value, Unknown):
        return value.raw
    raise TypeError(f"{type(value).__name__} is not part of any message")


def _encode_checked(value: Any) -> Any:
    return None if isinstance(value, msgspec.Raw) else _encode_unknown(value)


_encoder = msgspec.json.Encoder(enc_hook=_encode_unknown)
