"""A message as hooks see it, typed, and as it is forwarded: unchanged bytes, or only the changes applied."""

from typing import Any, Final, Literal, cast

from msgspec import Raw

from accord.errors import BadAnswer, InternalError
from accord.schema.base import Mismatch
from accord.schema.codec import DECODE_ERRORS, decode, decoder, encode, parse_json
from accord.schema.message_reader import PARAMS_TELLTALES, RESULT_TELLTALES, MessageReader, SplitUpdate
from accord.schema.methods import Alias, Method
from accord.wire.envelope import ABSENT, ENCODE_ERRORS, RequestId, Success

Member = Literal["params", "result"]
_EMPTY: Final = Raw(b"{}")


class TypedMessage:
    """The typed `params` or `result` of one frame."""

    __slots__ = ("_before", "_frame", "_member", "_type", "value")

    def __init__(self, frame: bytes, member: Member, value: Any, type: Any, *, official: bool) -> None:
        self.value: Any = value
        self._type = type
        self._member = member
        # A message in a dialect is sent in official form once it is changed: nothing of its frame is kept.
        self._frame = frame if official else b""
        self._before = encode(value)

    def is_unchanged(self, value: Any) -> bool:
        """Whether a value that a hook returned says the same. Raises InternalError if it is not JSON."""
        return self._encoded(value) == self._before

    def changed_frame(self, value: Any, message: dict[str, Any]) -> bytes:
        """Return the frame with a changed value and these envelope members.

        Members that the type does not know stay. Raises InternalError if the value does not have the type.
        """
        text = self._encoded(value)
        try:
            decode(self._type, text)
        except Mismatch as error:
            raise InternalError(data=f"a middleware returned an invalid value: {error}") from None
        after = parse_json(text)
        if self._frame:
            original = cast("dict[str, Any]", parse_json(self._frame))
            after = apply_changes(original.get(self._member), parse_json(self._before), after)
            message = {**original, **message}
        return encode({**message, self._member: after})

    def _encoded(self, value: Any) -> bytes:
        try:
            return encode(value)
        except ENCODE_ERRORS as error:
            raise InternalError(data=f"a middleware returned a value that is not JSON ({error})") from None


class TypedReader:
    """Decodes the messages of one peer for hooks; repairs known dialects."""

    def __init__(self) -> None:
        self.messages: MessageReader = MessageReader()

    def params(self, method: Method, raw: Raw, frame: bytes, alias: Alias | None) -> list[TypedMessage]:
        """Decode params: one message, or several if one update has several blocks. Raises InvalidParams."""
        raw = _EMPTY if raw is ABSENT else raw
        if alias is None and not _contains_any(raw, PARAMS_TELLTALES.get(method.name, ())):
            try:
                value = decoder(method.params).decode(raw)
                return [TypedMessage(frame, "params", value, method.params, official=True)]
            except DECODE_ERRORS:
                pass
        read = self.messages.params_reader(method, alias)(raw)
        values = read if isinstance(read, SplitUpdate) else (read,)
        return [TypedMessage(frame, "params", value, method.params, official=False) for value in values]

    def result(self, method: Method, raw: Raw, frame: bytes) -> TypedMessage:
        """Decode a result. Raises BadAnswer."""
        if raw is ABSENT:
            raise BadAnswer(f"{method.name}: the response has neither result nor error")
        if not _contains_any(raw, RESULT_TELLTALES.get(method.name, ())):
            try:
                value = decoder(method.result).decode(raw)
                return TypedMessage(frame, "result", value, method.result, official=True)
            except DECODE_ERRORS:
                pass
        value = self.messages.result_reader(method)(raw)
        return TypedMessage(frame, "result", value, method.result, official=False)


def encode_result(id: RequestId, value: Any, type: Any) -> bytes:
    """Encode the response of a hook that did not call the next one. Raises InternalError."""
    try:
        text = encode(value)
        decode(type, text)
    except (Mismatch, *ENCODE_ERRORS) as error:
        raise InternalError(data=f"a middleware returned an invalid value: {error}") from None
    return encode(Success(id, Raw(text)))


def apply_changes(original: Any, before: Any, after: Any) -> Any:
    """Return `original` with what differs between `before` and `after`, which lack members without a type."""
    if before == after:
        return original
    values = (original, before, after)
    if all(isinstance(value, dict) for value in values):
        old, was, now = cast("tuple[dict[str, Any], ...]", values)
        kept = {name: value for name, value in old.items() if name in now or name not in was}
        changed = {name: apply_changes(old.get(name), was.get(name), value) for name, value in now.items()}
        return {**kept, **changed}
    if all(isinstance(value, list) for value in values) and len(original) == len(before):
        return _changed_items(*cast("tuple[list[Any], list[Any], list[Any]]", values))
    return after


def _changed_items(original: list[Any], before: list[Any], after: list[Any]) -> list[Any]:
    """Keep the items that are still there; in a list of equal length, change items at their place."""
    unused: dict[bytes, list[int]] = {}
    for index in reversed(range(len(before))):
        unused.setdefault(encode(before[index]), []).append(index)
    items: list[Any] = []
    for place, item in enumerate(after):
        if same := unused.get(encode(item)):
            items.append(original[same.pop()])
        elif len(after) == len(before):
            items.append(apply_changes(original[place], before[place], item))
        else:
            items.append(item)
    return items


def _contains_any(raw: Raw, telltales: tuple[bytes, ...]) -> bool:
    return bool(telltales) and any(telltale in bytes(raw) for telltale in telltales)
