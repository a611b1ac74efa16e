"""What a peer sends, in official shape: what is right already stays the bytes it was, a dialect is written anew.

One of these stands for each peer, since a dialect is noted once per peer.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from msgspec import Raw

from accord.errors import InvalidParams
from accord.schema.codec import UNFIT, decoder, encode
from accord.schema.dialects.names import Alias
from accord.schema.dialects.telltales import PARAMS_TELLTALES, RESULT_TELLTALES
from accord.schema.jsontext import NotJson, is_utf8, parse_json
from accord.schema.methods import Method
from accord.schema.reader import Reader, Several

_DIGITS: Final = 19
"""More than any number of ours has."""


class Read(NamedTuple):
    """One message's parameters or result, as it goes on and as we understand it."""

    body: bytes
    value: Any


class Official:
    """Reads parameters and results of one peer."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._params: dict[tuple[Method, str], Callable[[Raw | None], Any]] = {}
        self._results: dict[Method, Callable[[Raw], Any]] = {}

    def params(self, method: Method, raw: Raw | None, alias: Alias | None = None) -> Read:
        """The parameters of a method of the table. Raises InvalidParams."""
        if raw is not None and alias is None and not _tells(raw, PARAMS_TELLTALES.get(method.name, ())):
            try:
                return Read(line(raw), decoder(method.params).decode(raw))
            except UNFIT:
                pass
        key = (method, alias.sent if alias else "")
        read = self._params.get(key)
        if read is None:
            read = self._params[key] = self._reader.params_reader(method, alias)
        value = read(raw)
        return Read(b"" if isinstance(value, Several) else encode(value), value)

    def result(self, method: Method, raw: Raw) -> Read:
        """The result of a method of the table. Raises BadAnswer."""
        if not _tells(raw, RESULT_TELLTALES.get(method.name, ())):
            try:
                return Read(line(raw), decoder(method.result).decode(raw))
            except UNFIT:
                pass
        read = self._results.get(method)
        if read is None:
            read = self._results[method] = self._reader.result_reader(method)
        value = read(raw)
        return Read(encode(value), value)


def line(raw: Raw) -> bytes:
    """The JSON text on one line, as pipes and event streams want it. Raises one of `UNFIT` where it is not UTF-8."""
    text = bytes(raw)
    if not text.isascii() and not is_utf8(text):
        text.decode()
    if b"\n" in text or b"\r" in text:
        return encode(parse_json(text))
    return text


def plain(raw: Raw | None) -> Read:
    """The parameters or result of a method that is in no table. Raises InvalidParams."""
    if raw is None:
        return Read(b"", None)
    try:
        return Read(line(raw), parse_json(raw))
    except (NotJson, *UNFIT) as error:
        raise InvalidParams(f"Invalid params: {error}") from None


def our_id(id: Any) -> int | None:
    """The number that an answer names: we number our requests, and some peers give numbers back as texts."""
    if isinstance(id, str) and len(id) < _DIGITS and id.isascii() and id.isdecimal():
        return int(id)
    return id if isinstance(id, int) and not isinstance(id, bool) else None


def _tells(raw: Raw, telltales: tuple[bytes, ...]) -> bool:
    return bool(telltales) and any(telltale in bytes(raw) for telltale in telltales)
