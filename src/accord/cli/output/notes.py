"""What is told on stderr: notes and errors, cleaned, since both may quote the agent."""

from accord.cleaning import clean_line, clean_text
from accord.errors import AccordError


def note_line(text: str, command: str = "run") -> str:
    """One line for people."""
    return f"accord {command}: {clean_line(text).strip()}\n"


def error_text(error: AccordError, command: str = "run") -> str:
    """The error; the last words of an agent that died stand on lines of their own."""
    return f"accord {command}: {clean_text(str(error)).strip()}\n"
