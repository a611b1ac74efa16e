"""`accord run --output-schema FILE`: asks for an answer in JSON and checks it against a JSON Schema.

Imported on first use: it loads jsonschema.
"""

import json
import math
import os
import re
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec.structs import replace

from accord.errors import AccordError, MissingExtra, UsageError
from accord.schema.content import TextContent, Usage

if TYPE_CHECKING:
    from accord.cli.run_job import RunResult, TurnRun

_MAX_SCHEMA_BYTES: Final = 1024 * 1024
_MAX_PROBLEM_CHARS: Final = 500
_SECONDS: Final = 10.0
_CODE_BLOCK: Final = re.compile(r"^```[^\n]*\n(.*?)^```[ \t]*$", re.DOTALL | re.MULTILINE)


_RETRY_PROMPT: Final = (
    "Your answer does not match the JSON Schema: {}. Answer again, with the JSON value alone."
)
_LOST: Final = "refers to {!r}, which is not in the file"


class OutputMismatch(AccordError):
    """The answer does not match the schema of `--output-schema`."""


class OutputSchema:
    """The schema of an answer."""

    def __init__(self, path: str) -> None:
        """Read the schema. Raises UsageError, or MissingExtra without jsonschema."""
        schema: Any = _read_json(path)
        if not isinstance(schema, dict | bool):
            raise UsageError(f"--output-schema {path!r} is not a JSON Schema: it must be an object")
        try:
            self._validator: Any = _create_validator(schema)
        except ImportError:
            raise MissingExtra("agent", "--output-schema") from None
        except RecursionError:
            raise UsageError(f"--output-schema {path!r} is nested too deeply") from None
        except ValueError as error:
            raise UsageError(f"--output-schema {path!r} {error}") from None
        self._text = json.dumps(schema, ensure_ascii=False)
        self._path = path

    @property
    def instruction(self) -> str:
        """What is added to the prompt."""
        return (
            "When you are done, answer with one JSON value and nothing else: no explanation, no code block. "
            f"It must match this JSON Schema:\n{self._text}"
        )

    async def check(self, turn: "TurnRun", result: "RunResult", note: Callable[[str], None]) -> "RunResult":
        """Add the value in the answer to the result. Asks once more if the answer does not match."""
        from accord.cli.output.json_output import final_answer

        problem = f"the answer does not match --output-schema {self._path}: "
        for is_last in (False, True):
            if result.error is not None or result.ended is None or result.ended.stop_reason != "end_turn":
                return result
            try:
                result.value = self.read(final_answer(turn.session))
                return result
            except UsageError as error:
                result.error = error
            except OutputMismatch as mismatch:
                if is_last:
                    result.error = OutputMismatch(f"{problem}{mismatch}")
                else:
                    note(f"{problem}{mismatch}; asking once more")
                    first = result.ended
                    result = await turn.run([TextContent(_RETRY_PROMPT.format(mismatch))])
                    if result.ended is not None:
                        result.ended = replace(result.ended, usage=_sum(first.usage, result.ended.usage))
        return result

    def read(self, answer: str) -> Any:
        """Return the value in an answer. Raises OutputMismatch."""
        value = _value_in(answer)
        from jsonschema import exceptions
        from referencing.exceptions import Unresolvable

        try:
            with _time_limit(_SECONDS):
                error: Any = cast(Any, exceptions).best_match(self._validator.iter_errors(value))
        except TimeoutError:
            text = f"--output-schema {self._path!r}: the check of the answer took more than {_SECONDS:g} s"
            raise UsageError(f"{text}; simplify its patterns") from None
        except RecursionError:
            raise OutputMismatch("it is nested too deeply to be checked") from None
        except OverflowError:
            raise OutputMismatch("it has a number that is too large to be checked") from None
        except Unresolvable as unresolvable:  # behind a reference to what is no schema
            raise UsageError(f"--output-schema {self._path!r} {_LOST.format(unresolvable.ref)}") from None
        if error is not None:
            raise OutputMismatch(f"at {error.json_path}: {_one_line(error.message)}")
        return value


def _sum(one: Usage | None, other: Usage | None) -> Usage | None:
    """The tokens of two turns."""
    if one is None or other is None:
        return one or other
    counts: dict[str, Any] = {
        name: (getattr(one, name) or 0) + (getattr(other, name) or 0)
        for name in one.__struct_fields__
        if name != "meta" and (getattr(one, name) or getattr(other, name))
    }
    return replace(other, **counts)


@contextmanager
def _time_limit(seconds: float) -> Generator[None]:
    """Raise TimeoutError in the block after this time. A pattern of the schema can take for ever."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def expire(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _create_validator(schema: Any) -> Any:
    """Return a validator that loads no other file or address. Raises ValueError, which says why."""
    from jsonschema import SchemaError
    from jsonschema.validators import validator_for
    from referencing import Registry, Resource
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    if isinstance(schema, dict) and not isinstance(cast(Any, schema).get("$schema", ""), str):
        raise ValueError("is not a JSON Schema: $schema must be a string")
    kind: Any = cast(Any, validator_for)(schema)
    try:
        kind.check_schema(schema)
    except SchemaError as error:
        raise ValueError(f"is not a JSON Schema: {_one_line(error.message)}") from None
    resource: Any = cast(Any, Resource).from_contents(schema, default_specification=DRAFT202012)
    registry: Any = cast(Any, Registry)().with_resource("", resource).crawl()
    try:
        _check_references(resource, registry.resolver_with_root(resource))
    except Unresolvable as error:
        raise ValueError(_LOST.format(error.ref)) from None
    return kind(schema, registry=registry)


def _check_references(resource: Any, resolver: Any) -> None:
    """Look up each reference of a schema. Raises Unresolvable."""
    from referencing.exceptions import Unresolvable

    content: Any = resource.contents
    reference: Any = cast(Any, content).get("$ref") if isinstance(content, dict) else None
    if isinstance(reference, str):
        try:
            resolver.lookup(reference)
        except (ValueError, TypeError):  # a name as the index of a list
            raise Unresolvable(ref=reference) from None
    for part in resource.subresources():
        _check_references(part, resolver.in_subresource(part))


def _read_json(path: str) -> Any:
    try:
        with open(os.path.expanduser(path), "rb") as file:
            data = file.read(_MAX_SCHEMA_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read --output-schema {path!r} ({error.strerror})") from None
    if len(data) > _MAX_SCHEMA_BYTES:
        raise UsageError(f"--output-schema {path!r} is larger than 1 MiB")
    try:
        return json.loads(data, parse_constant=_refuse_constant, parse_float=_read_float)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--output-schema {path!r} is not JSON ({_one_line(str(error))})") from None


def _value_in(answer: str) -> Any:
    """Return the JSON value that is the answer, or that is in its last code block."""
    texts = [answer, *reversed(_CODE_BLOCK.findall(answer))]
    problem = "it is empty"
    for text in texts[:2]:
        try:
            return json.loads(text, parse_constant=_refuse_constant, parse_float=_read_float)
        except (ValueError, RecursionError) as error:
            problem = _one_line(str(error)) if text.strip() else problem
    raise OutputMismatch(f"it is not JSON ({problem})")


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _read_float(text: str) -> float:
    if math.isinf(number := float(text)):  # JSON has no infinity to print it as
        raise ValueError(f"{_one_line(text)} is too large for a number")
    return number


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_PROBLEM_CHARS else f"{line[:_MAX_PROBLEM_CHARS]}…"
