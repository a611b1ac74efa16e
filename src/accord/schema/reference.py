"""Generates the methods reference: `python -m accord.schema.reference docs/methods.md`.

The page is generated from the method table and the shapes of its types.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import accord.schema
from accord.schema.methods import METHODS, Method
from accord.schema.type_shape import (
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

Look up a method of the Agent Client Protocol, its params and its result. All names are those of the JSON
messages:

```json
{
  "jsonrpc": "2.0",
  "id": 1,
  "method": "session/new",
  "params": {"cwd": "/home/me/project", "mcpServers": []}
}
```

<!-- Generated. Do not edit: change src/accord/schema/methods.py and run `make docs`. -->

- `*` marks a required member.
- ◇ marks what is unstable: it may change or be removed.

Every object also accepts `_meta`, which is reserved for extensions. The column *Requires* names the
capability that the other side must have announced before the method may be used.

## All methods
"""


def page() -> str:
    """Return the page as Markdown."""
    lines = [
        HEAD,
        "| Method | Implemented by | Kind | Params | Result | Requires | Status |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += map(_row, METHODS)
    lines += ["", "## Types", ""]
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
    return {id(value): name for name, value in vars(accord.schema).items() if name[0] != "_"}


def _types() -> dict[str, Any]:
    used = [part for method in METHODS for part in (method.params, method.result) if part is not None]
    return {_names()[id(annotation)]: annotation for annotation in used}


def _summary(annotation: Any) -> str:
    is_class = isinstance(annotation, type) and issubclass(annotation, accord.schema.Record)
    return " ".join((annotation.__doc__ or "").split()) if is_class else "One of several variants."


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
                yield "Other variants are accepted and kept unchanged."
        case _:
            yield f"Accepts {_describe(shape)}."


def _member(field: Field, *, mark: bool) -> str:
    return f"- `{field.wire}`{'*' * field.required}{' ◇' * mark}: {_describe(field.shape)}"


def _describe(shape: Shape) -> str:
    match shape:
        case Anything():
            return "any JSON value"
        case Boolean():
            return "boolean"
        case Number():
            return "number"
        case Text():
            return (
                f"string ({', '.join(f'`{value}`' for value in shape.known)} or another)"
                if shape.known
                else "string"
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
