"""What would hold the keys up if it happened at its own time: imports, done in a thread, and the collection of garbage."""

import gc


def warm_up() -> None:
    """Have the parser of Markdown and the lexers at hand."""
    from markdown_it import MarkdownIt
    from pygments.lexers import find_lexer_class_for_filename, get_lexer_by_name  # pyright: ignore[reportUnknownVariableType]

    MarkdownIt("commonmark").parse("warm")
    find_lexer_class_for_filename("a.py")
    for name in ("python", "bash", "json", "diff", "typescript"):
        get_lexer_by_name(name)
    leave_alone()


def leave_alone() -> None:
    """What is there now stays: the collector, which stops everything while it looks, need not look at it again."""
    gc.freeze()


def let_go() -> None:
    """A session is over: what it held may go."""
    gc.unfreeze()
