"""Parses the arguments of a program by a list of known options. An unknown option makes the result None."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from accord.policy.shell.syntax import Word, literal


def option_names(text: str) -> frozenset[str]:
    """Options written together: `-abc --long` is `-a`, `-b`, `-c` and `--long`."""
    found: set[str] = set()
    for item in text.split():
        if item.startswith("--") or len(item) == 2 or not item.startswith("-"):
            found.add(item)
        else:
            found.update(f"-{letter}" for letter in item[1:])
    return frozenset(found)


@dataclass(slots=True)
class ParsedArguments:
    """Options and operands of a command."""

    options: list[tuple[str, Word | None]] = field(default_factory=list[tuple[str, Word | None]])
    operands: list[Word] = field(default_factory=list[Word])

    def has(self, *options: str) -> bool:
        """Whether one of these options is present."""
        return any(name in options for name, _ in self.options)

    def values(self, *options: str) -> list[Word]:
        """Return the values of these options."""
        return [value for name, value in self.options if name in options and value is not None]


def parse_arguments(
    arguments: Sequence[Word],
    flags: frozenset[str],
    valued: frozenset[str],
    *,
    digits: bool = False,
    first_operand_ends: bool = False,
) -> ParsedArguments | None:
    """Separate options from operands. Returns None if an option is unknown or not certain.

    An option in `valued` takes the rest of its word or the next word as its value. An option in both sets
    takes only the rest of its word. `digits` accepts `-20`.
    """
    parsed = ParsedArguments()
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        text = word.text
        if text == "--":
            parsed.operands.extend(rest)
            break
        if text is None and not _is_certain_operand(word):
            return None
        if text is None or text == "-" or not text.startswith("-"):
            parsed.operands.append(word)
            if first_operand_ends:
                parsed.operands.extend(rest)
                break
        elif text.startswith("--"):
            if not _parse_long_option(text, rest, flags, valued, parsed):
                return None
        elif digits and text[1:].isdecimal():
            parsed.options.append(("-#", literal(text[1:])))
        elif not _parse_short_options(text, rest, flags, valued, parsed):
            return None
    return parsed


def _is_certain_operand(word: Word) -> bool:
    """Whether an uncertain word cannot be an option, because its first characters are certain."""
    first = word.parts[0]
    if first.kind != "text":
        return first.kind == "variable" and first.text in ("HOME", "PWD")
    # A glob may match a file called `-x`. The code that expands the glob checks that.
    return not word.has_braces and bool(first.text) and not first.text.startswith("-")


def _parse_long_option(
    text: str, rest: list[Word], flags: frozenset[str], valued: frozenset[str], parsed: ParsedArguments
) -> bool:
    name, equals, value = text.partition("=")
    if equals:
        parsed.options.append((name, literal(value)))
        return name in valued
    if name in flags:
        parsed.options.append((name, None))
        return True
    return name in valued and _take_next_value(name, rest, parsed)


def _take_next_value(name: str, rest: list[Word], parsed: ParsedArguments) -> bool:
    """Take the next word as the value. It must be certain: several words would shift all that follow.

    It must not look like an option, which would otherwise pass without a check.
    """
    text = rest[0].text if rest else None
    if text is None or (text.startswith("-") and not text[1:].isdecimal()):
        return False
    parsed.options.append((name, rest.pop(0)))
    return True


def _parse_short_options(
    text: str, rest: list[Word], flags: frozenset[str], valued: frozenset[str], parsed: ParsedArguments
) -> bool:
    for position, letter in enumerate(text[1:], 2):
        name = f"-{letter}"
        if name in valued and not (name in flags and not text[position:]):
            if not text[position:]:
                return _take_next_value(name, rest, parsed)
            parsed.options.append((name, literal(text[position:])))
            return True
        if name not in flags:
            return False
        parsed.options.append((name, None))
    return True
