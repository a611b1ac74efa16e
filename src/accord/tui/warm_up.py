"""Slow imports in advance, and garbage collection that does not delay key presses."""

import gc


def warm_up() -> None:
    """Import the Markdown parser and the lexers in advance. Blocking: run it in a thread."""
    from markdown_it import MarkdownIt
    from pygments.lexers import (
        find_lexer_class_for_filename,  # pyright: ignore[reportUnknownVariableType]
        get_lexer_by_name,  # pyright: ignore[reportUnknownVariableType]
    )

    MarkdownIt("commonmark").parse("warm")
    find_lexer_class_for_filename("a.py")
    for name in ("python", "bash", "json", "diff", "typescript"):
        get_lexer_by_name(name)
    exempt_from_gc()


def exempt_from_gc() -> None:
    """Exclude all current objects from garbage collection, which would delay key presses."""
    gc.freeze()


def end_gc_exemption() -> None:
    """Include all objects in garbage collection again, after a session has closed."""
    gc.unfreeze()
