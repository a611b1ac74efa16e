"""Decode one peer's messages: official form first, then dialect repair, else a clear error.

A correct message costs one decode. A strict reader does not repair, but keeps the leniency that the schema
requires. There is one reader per peer; it reports every dialect row once.

Loaded before `initialize` is answered: keep heavy imports out.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import UNSET, Raw, defstruct

from accord.errors import BadAnswer, InvalidParams
from accord.schema.base import Mismatch
from accord.schema.client_requests import PermissionOption
from accord.schema.codec import DECODE_ERRORS, NotJson, decoder, is_utf8, parse_json, read
from accord.schema.methods import Alias, Kind, Method, Side, aliases

if TYPE_CHECKING:
    from accord.schema.dialects import PermissionDecision, RepairedMessage


# Text in a raw message that requires a repair although the official form decodes: these members replace
# optional official ones. Only methods that the user waits for are checked, never updates.

PARAMS_TELLTALES: Final[Mapping[str, tuple[bytes, ...]]] = {
    "initialize": (b'"capabilities"', b'"planCapabilities"'),
    "session/request_permission": (b'"input"', b'"raw_input"', b'"args"'),
}

RESULT_TELLTALES: Final[Mapping[str, tuple[bytes, ...]]] = {
    "initialize": (b'"env_var"',),
    "session/new": (b'"models"',),
    "session/load": (b'"models"',),
    "session/resume": (b'"models"',),
    "session/fork": (b'"models"',),
    "session/prompt": (b'"content"',),
}


RawJson = Raw | bytes

_EMPTY = b"{}"
_MAX_LENGTH = 200


class SplitUpdate(tuple[Any, ...]):
    """The parameters of one `session/update` that became several: a chunk with a list of blocks (row 9).

    They belong to one session. A handler processes them in order.
    """

    __slots__ = ()

    @property
    def session_id(self) -> str:
        """The session of all of them."""
        return self[0].session_id


class MessageReader:
    """Reads the messages of one peer. Its functions are created once per connection and method."""

    def __init__(
        self,
        *,
        strict: bool = False,
        report: Callable[[int, str], None] | None = None,
        active_session: Callable[[], str | None] | None = None,
    ) -> None:
        """`report` is called with the number and text of a dialect row when this peer first uses it.

        `active_session` returns the session of the only running turn, or None if there are none or several:
        some agents request permission without a session id (row 22).
        """
        self.strict = strict
        self._report = report
        self._active_session = active_session
        self._reported_rows: set[int] = set()

    def aliases(self, side: Side, kind: Kind) -> tuple[Alias, ...]:
        """Return the other names of this side's methods; none for a strict reader."""
        return () if self.strict else aliases(side, kind)

    def params_reader(self, method: Method, alias: Alias | None = None) -> Callable[[RawJson | None], Any]:
        """Return a function that decodes a method's raw parameters. It raises InvalidParams.

        Absent parameters and null are read as `{}`. For `session/update` it may return a `SplitUpdate`. With
        an `alias`, the parameters are those of that name.
        """
        cls = method.params
        name = method.name if alias is None else alias.sent
        telltales = () if self.strict else PARAMS_TELLTALES.get(method.name, ())

        def decode_with_repair(raw: RawJson) -> Any:
            try:
                return self._params(cls, name, raw)
            except Mismatch as error:
                raise InvalidParams(f"Invalid params of {name}: {_describe(error)}") from None

        decode: Callable[[RawJson], Any] | None = None

        def decode_official(raw: RawJson | None) -> Any:
            nonlocal decode
            if decode is None:  # created on first use, because most methods are never called
                decode = decoder(cls).decode
            try:
                return decode(_EMPTY if raw is None else raw)
            except DECODE_ERRORS:
                return decode_with_repair(_EMPTY if raw is None else raw)

        def check_and_decode(raw: RawJson | None) -> Any:
            if alias is not None:
                self._report_rows(alias.row)
            if raw is not None and _contains(raw, telltales):
                return decode_with_repair(raw)
            return decode_official(raw)

        return check_and_decode if telltales or alias is not None else decode_official

    def line_reader(self, method: Method) -> Callable[[bytes], Any]:
        """Return a function that decodes a whole notification line in one pass.

        It returns the parameters, or None if the line needs the normal path.
        """
        decode: Callable[[bytes], Any] | None = None

        def decode_line(line: bytes) -> Any:
            nonlocal decode
            if decode is None:
                decode = _line_decoder(method)
            try:
                message = decode(line)
            except DECODE_ERRORS:
                return None
            return message.params if message.id is UNSET and (line.isascii() or is_utf8(line)) else None

        return decode_line

    def lines_reader(self, method: Method) -> Callable[[list[Any]], list[Any]]:
        """Return the same function for several lines, whose result has None for each that it cannot decode.

        A frame that is too long is such a line.
        """
        decode: Callable[[bytes], Any] | None = None

        def decode_lines(lines: list[Any]) -> list[Any]:
            nonlocal decode
            if decode is None:
                decode = _line_decoder(method)
            try:
                params = [message.params for message in map(decode, lines) if message.id is UNSET]
                if len(params) == len(lines) and is_utf8(b"\n".join(lines)):
                    return params
            except (TypeError, *DECODE_ERRORS):
                pass
            half = len(lines) // 2
            return decode_lines(lines[:half]) + decode_lines(lines[half:]) if half else [None] * len(lines)

        return decode_lines

    def result_reader(self, method: Method) -> Callable[[RawJson], Any]:
        """Return a function that decodes a method's raw result. It raises BadAnswer.

        `outcome_reader` decodes permission answers, because it knows the options.
        """
        cls = method.result
        name = method.name
        telltales = () if self.strict else RESULT_TELLTALES.get(name, ())

        def decode_with_repair(raw: RawJson) -> Any:
            try:
                return self._result(cls, name, raw)
            except Mismatch as error:
                raise BadAnswer(f"{name}: the result cannot be read: {_describe(error)}") from None

        decode = decoder(cls).decode

        def decode_result(raw: RawJson) -> Any:
            if telltales and _contains(raw, telltales):
                return decode_with_repair(raw)
            try:
                return decode(raw)
            except DECODE_ERRORS:
                return decode_with_repair(raw)

        return decode_result

    def outcome_reader(
        self, options: Iterable[PermissionOption]
    ) -> "Callable[[RawJson], PermissionDecision]":
        """Return a function that decodes a permission answer.

        It never raises: an unreadable answer is a refusal.
        """
        from accord.schema.dialects.permission_outcome import NO_DECISION, read_outcome

        offered = [(option.option_id, option.kind) for option in options]

        def decode_outcome(raw: RawJson) -> "PermissionDecision":
            try:
                decision = read_outcome(parse_json(raw), offered, strict=self.strict)
            except NotJson:
                return NO_DECISION
            self._report_rows(*decision.rows)
            return decision

        return decode_outcome

    def _params(self, cls: Any, name: str, raw: RawJson) -> Any:
        value = _parse(raw)
        if value is None:
            value = {}
        if not self.strict:
            from accord.schema.dialects.repairs import repair_params

            session = self._active_session() if self._active_session else None
            repaired = repair_params(name, value, session=session)
            if repaired.rows and (messages := self._read_repaired(cls, repaired)):
                return messages[0] if len(messages) == 1 else SplitUpdate(messages)
        return read(cls, value)

    def _result(self, cls: Any, name: str, raw: RawJson) -> Any:
        from accord.schema.dialects.repairs import VOID_RESULTS, repair_result

        value = _parse(raw)
        # The official documentation shows null where the schema requires an empty object.
        if not self.strict or (value is None and name in VOID_RESULTS):
            repaired = repair_result(name, value)
            if repaired.rows and (messages := self._read_repaired(cls, repaired)):
                return messages[0]
        return read(cls, value)

    def _read_repaired(self, cls: Any, repaired: "RepairedMessage") -> list[Any]:
        """Decode the repaired messages. Returns an empty list if the repair did not help."""
        messages: list[Any] = []
        for value in (repaired.value, *repaired.more):
            try:
                messages.append(read(cls, value))
            except Mismatch:
                continue
        if messages:
            self._report_rows(*repaired.rows)
        return messages

    def _report_rows(self, *rows: int) -> None:
        for row in rows:
            if row not in self._reported_rows:
                self._reported_rows.add(row)
                if self._report is not None:
                    from accord.schema.dialects.dialect_table import DIALECTS

                    self._report(row, str(DIALECTS[row]))


def _parse(raw: RawJson) -> Any:
    try:
        return parse_json(raw)
    except NotJson as error:
        raise Mismatch("$", str(error)) from None


def _line_decoder(method: Method) -> Callable[[bytes], Any]:
    """Return a function that decodes a whole notification line; only its `params` and `id` are kept."""
    members = [("jsonrpc", Literal["2.0"]), ("method", Literal[method.name]), ("params", method.params)]
    return decoder(defstruct("Line", [*members, ("id", Any, UNSET)], gc=False)).decode


def _contains(raw: RawJson, telltales: tuple[bytes, ...]) -> bool:
    text = bytes(raw)
    return any(telltale in text for telltale in telltales)


def _describe(error: Mismatch) -> str:
    """Describe the mismatch without the root sign, shortened."""
    path = error.path.removeprefix("$").lstrip(".")
    text = f"{path}: {error.reason}" if path else error.reason
    return text if len(text) <= _MAX_LENGTH else f"{text[:_MAX_LENGTH]}..."
