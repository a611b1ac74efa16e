"""Messages to bytes and back. `exact` takes what fits as sent, `decode` survives what a reader must survive.

A correct message is decoded once, by msgspec, straight into its type; only when that fails is it read a second time, leniently.
What only odd messages need is imported when the first of them comes.
"""

from typing import Any, Final, TypeVar, overload

import msgspec

from .jsontext import NotJson, parse_json
from .marks import ChoiceType
from .mismatch import Mismatch
from .unknown import Unknown

__all__ = ["UNFIT", "Mismatch", "decode", "decoder", "encode", "exact", "read", "to_builtins"]

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
    from .reading import read_value

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
