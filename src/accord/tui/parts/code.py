"""Code with its colours: lexed by pygments, painted with the palette."""

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

if TYPE_CHECKING:
    from accord.tui.palette import Palette

LONGEST: Final = 200_000
"""Characters; more is shown without colours."""
_LONGEST_LINE: Final = 5_000
_KINDS: Final = (
    ("Comment", "comment"), ("Keyword.Type", "type"), ("Keyword.Constant", "number"), ("Keyword", "keyword"),
    ("Name.Class", "type"), ("Name.Builtin", "name"), ("Name.Function", "name"), ("Name.Decorator", "type"),
    ("Name.Tag", "keyword"), ("Name.Attribute", "name"), ("Name.Exception", "type"),
    ("Literal.String", "string"), ("Literal.Number", "number"), ("Literal", "string"),
    ("Operator.Word", "keyword"), ("Operator", "operator"),
    ("Generic.Heading", "keyword"), ("Generic.Inserted", "string"), ("Generic.Deleted", "number"),
)  # fmt: skip


def highlighted(code: str, language: str, palette: "Palette") -> list[Text]:
    """The lines of some code, which has been cleaned. A language that nobody knows stays plain."""
    code = code.expandtabs(4)
    lexer = _lexer(language) if language and len(code) <= LONGEST else None
    plain = palette.tokens["plain"]
    if lexer is None or _has_endless_line(code):
        return [Text(line, plain) for line in code.split("\n")]
    lines = [Text(style=plain)]
    for kind, value in lexer.get_tokens(code):
        style = palette.tokens.get(_kind(kind))
        pieces = value.split("\n")
        for number, piece in enumerate(pieces):
            if number:
                lines.append(Text(style=plain))
            if piece:
                lines[-1].append(piece, style)
    wanted = code.count("\n") + 1
    del lines[wanted:]
    lines += [Text(style=plain) for _ in range(wanted - len(lines))]
    return lines


@lru_cache(maxsize=512)
def language_of(path: str) -> str:
    """The name of the language a file is in, by its name; "" where nobody knows."""
    from pygments.lexers import find_lexer_class_for_filename

    found = find_lexer_class_for_filename(path.rpartition("/")[2][:200])
    return found.aliases[0] if found is not None and found.aliases else ""


def _has_endless_line(code: str) -> bool:
    return len(code) > _LONGEST_LINE and any(len(line) > _LONGEST_LINE for line in code.split("\n"))


@lru_cache(maxsize=64)
def _lexer(language: str) -> Any:
    from pygments.lexers import get_lexer_by_name  # pyright: ignore[reportUnknownVariableType]
    from pygments.util import ClassNotFound

    try:
        return get_lexer_by_name(language[:40].lower(), stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


@lru_cache(maxsize=512)
def _kind(token: Any) -> str:
    name = str(token).removeprefix("Token.")
    return next((kind for prefix, kind in _KINDS if name.startswith(prefix)), "plain")
