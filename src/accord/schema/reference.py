"""The reference page of the methods: `python -m accord.schema.reference docs/methods.md`.

Everything on it comes from the method table and the shapes of its types.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import accord.schema

from .methods import METHODS, Method
from .shape import (
    Anything,
    Boolean,
    Constants,
    Field,
    Integer,
    ListOf,
    MapOf,
    Nullable,
    Number,
    ObjectOf,
    Shape,
    Text,
    UnionOf,
    shape_of,
)

HEAD: Final = """# Methods

This page is made from the method table by `make docs`; edit `src/accord/schema/methods.py` instead.

`*` marks a member that must be there, ◇ what is unstable: it may change or vanish. Every object also takes `_meta`, free for
extensions. A gate is what the other side must have offered before the method may be used.
"""


def page() -> str:
    """The whole page, as Markdown."""
    lines = [
        HEAD,
        "| Method | Served by | Kind | Params | Result | Gate | Status |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += map(_row, METHODS)
    lines += ["", "## Their types", ""]
    for name, annotation in sorted(_types().items()):
        lines += [f"### {name}", "", _summary(annotation), ""]
        members = list(_members(shape_of(annotation)))
        lines += [*members, ""] if members else []
    return "\n".join(lines).rstrip() + "\n"


def _row(method: Method) -> str:
    cells = [
        f"`{method.name}`",
        method.served_by,
        method.kind,
        _link(method.params),
        _link(method.result) if method.kind == "request" else "",
        " or ".join(f"`{gate}`" for gate in method.gates),
        "stable" if method.stable else "unstable ◇",
    ]
    return f"| {' | '.join(cells)} |".replace("|  |", "| |").replace("|  |", "| |")


def _link(annotation: Any) -> str:
    name = _names()[id(annotation)]
    return f"[{name}](#{name.lower()})"


def _names() -> dict[int, str]:
    return {id(getattr(accord.schema, name)): name for name in accord.schema.__all__}


def _types() -> dict[str, Any]:
    used = [part for method in METHODS for part in (method.params, method.result) if part is not None]
    return {_names()[id(annotation)]: annotation for annotation in used}


def _summary(annotation: Any) -> str:
    is_class = isinstance(annotation, type) and issubclass(annotation, accord.schema.Record)
    return " ".join((annotation.__doc__ or "").split()) if is_class else "One of several forms."


def _members(shape: Shape) -> Iterator[str]:
    match shape:
        case ObjectOf():
            if shape.tag is not None:
                yield f"- `{shape.tag_field}`*: `{shape.tag}`"
            for field in shape.fields:
                if field.wire != "_meta":
                    yield _member(field, mark=field.unstable and not shape.unstable)
        case UnionOf():
            for variant in shape.variants:
                assert isinstance(variant, ObjectOf)
                yield f"{variant.cls.__doc__}\n"
                yield from _members(variant)
                yield ""
            if shape.open:
                yield "Further forms are possible; they are kept as they came."
        case _:
            yield f"Takes {_describe(shape)}."


def _member(field: Field, *, mark: bool) -> str:
    return f"- `{field.wire}`{'*' * field.required}{' ◇' * mark}: {_describe(field.shape)}"


def _describe(shape: Shape) -> str:
    match shape:
        case Anything():
            return "any JSON"
        case Boolean():
            return "true or false"
        case Number():
            return "number"
        case Text():
            return (
                f"text ({', '.join(f'`{value}`' for value in shape.known)} or another)"
                if shape.known
                else "text"
            )
        case Integer():
            return shape.format
        case Constants():
            return " or ".join(f"`{value}`" for value in shape.values)
        case Nullable():
            return f"{_describe(shape.inner)}, or null"
        case ListOf():
            return f"list of {_describe(shape.item)}"
        case MapOf():
            return f"map of {_describe(shape.value)}"
        case ObjectOf():
            return f"`{shape.cls.__name__}`"
        case UnionOf():
            return " or ".join(map(_describe, shape.variants))


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
