"""Encode and decode messages; parse JSON text that may be broken.

Loaded before `initialize` is answered: keep heavy imports out.
"""

import re
from typing import Any, Final, TypeVar, overload

import msgspec

from accord.schema.base import ChoiceType, Mismatch, Unknown

__all__ = ["UNFIT", "Mismatch", "decode", "decoder", "encode", "exact", "read", "to_builtins"]


# MERGED schema.jsontext: JSON text into plain values, whatever the other side wrote: a value, or one clean `NotJson`.
#
# Half of a surrogate pair, which JavaScript peers send when they cut an emoji in two, becomes U+FFFD.

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


# MERGED schema.codec: Messages to bytes and back. `exact` takes what fits as sent, `decode` survives what a reader must survive.
#
# A correct message is decoded once, by msgspec, straight into its type; only when that fails is it read a second time, leniently.
# What only odd messages need is imported when the first of them comes.

T = TypeVar("T")

UNFIT: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


@overload
def exact(cls: type[T], raw: bytes | msgspec.Raw) -> T: ...
@overload
def exact(cls: Any, raw: bytes | msgspec.Raw) -> Any: ...
def exact(cls: Any, raw: bytes | msgspec.Raw) -> Any:
    """The typed form of a JSON text that fits as it stands: nothing skipped, nothing unknown. Raises `Mismatch`."""
    try:
        return (_decoders.get(cls) or _new_decoder(cls)).decode(raw)
    except UNFIT as error:
        reason, _, place = str(error).partition(" - at `")
        raise Mismatch(place.rstrip("`") or "$", reason) from None


@overload
def decode(cls: type[T], raw: bytes | msgspec.Raw) -> T: ...
@overload
def decode(cls: Any, raw: bytes | msgspec.Raw) -> Any: ...
def decode(cls: Any, raw: bytes | msgspec.Raw) -> Any:
    """The typed form of a JSON text, read leniently where it has to be. Raises `Mismatch`."""
    try:
        return (_decoders.get(cls) or _new_decoder(cls)).decode(raw)
    except UNFIT:
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
    """The typed form of parsed JSON, read leniently. Raises `Mismatch`."""
    from accord.schema.validation import read_value

    return read_value(cls, value)


def encode(message: Any) -> bytes:
    """The JSON text of a message, or of plain values. Absent fields are left out; lone surrogates become U+FFFD."""
    try:
        return _encoder.encode(message)
    except UnicodeEncodeError:
        import json

        return _encoder.encode(parse_json(json.dumps(to_builtins(message)).encode()))


def to_builtins(message: Any) -> Any:
    """The message in the dicts, lists, strings and numbers that JSON has."""
    return msgspec.to_builtins(message, enc_hook=_plain, str_keys=True)


def decoder(cls: Any) -> msgspec.json.Decoder[Any]:
    """The decoder behind `exact`, for whoever reads one type all day. What does not fit raises one of `UNFIT`."""
    return _decoders.get(cls) or _new_decoder(cls)


def _new_decoder(cls: Any) -> msgspec.json.Decoder[Any]:
    new = _decoders[cls] = msgspec.json.Decoder(cls, dec_hook=_choose)
    return new


def _choose(choice: type[Any], value: Any) -> Any:
    """Which variant of a `Choice` the value is; msgspec calls this for every type that it does not know itself."""
    assert isinstance(choice, ChoiceType)
    failure = msgspec.ValidationError("unknown variant")
    for candidate in choice.candidates(value):
        try:
            return msgspec.convert(value, candidate, dec_hook=_choose)
        except msgspec.ValidationError as error:
            failure = error
    raise failure


def _plain(value: Any) -> Any:
    if isinstance(value, Unknown):
        return value.raw
    raise TypeError(f"{type(value).__name__} is not part of any message")


_encoder = msgspec.json.Encoder(enc_hook=_plain)
