"""`_agentao.cn/ask_user`, an extension by which some agents put a plain question to the user."""

from typing import Any, Final, cast

ASK_USER: Final = "_agentao.cn/ask_user"
UNAVAILABLE: Final = "(user unavailable)"
"""What that extension's agents take for: nobody was there."""

_MOST_OPTIONS: Final = 100


def read_question(params: Any) -> tuple[str, list[str]] | None:
    """The question and the answers it suggests; None where nothing is asked."""
    asked = cast("dict[str, Any]", params) if isinstance(params, dict) else {}
    text = asked.get("question")
    if not isinstance(text, str) or not text.strip():
        return None
    said = asked.get("options")
    items = cast("list[Any]", said) if isinstance(said, list) else []
    return text, [item for item in items if isinstance(item, str) and item.strip()][:_MOST_OPTIONS]


def answer_to(text: str | None) -> dict[str, Any]:
    """What is sent back; None stands for nobody who could answer."""
    return {"answer": text or UNAVAILABLE}
