"""What drawing needs for the first time takes a while to import: done in a thread, so that nobody waits for it at a key."""


def warm_up() -> None:
    """Have the parser of Markdown and the lexers at hand."""
    from markdown_it import MarkdownIt
    from pygments.lexers import find_lexer_class_for_filename, get_lexer_by_name  # pyright: ignore[reportUnknownVariableType]

    MarkdownIt("commonmark").parse("warm")
    find_lexer_class_for_filename("a.py")
    for name in ("python", "bash", "json", "diff", "typescript"):
        get_lexer_by_name(name)
