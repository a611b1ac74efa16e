"""Texts of a file, safe to show: a project's file may be written to deceive whoever looks at it."""


def shown(text: str) -> str:
    """The text with everything made visible that could hide or rewrite something on a terminal."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode("ascii")
        for char in text
    )
