"""The command line of the client under test, with the places where the agent, the prompt and more words go."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Final

from accord.errors import UsageError

PLACES: Final = ("{agent}", "{prompt}", "{folder}", "{options}")


def ready(
    template: Sequence[str], *, agent: Sequence[str], prompt: str, folder: str, options: Sequence[str]
) -> list[str]:
    """The words to start. A place that is a whole word becomes several words, one inside a word becomes quoted text."""
    words = list(template)
    if not any("{options}" in word for word in words):
        words[_before_agent(words) : _before_agent(words)] = ["{options}"]
    many = {"{agent}": list(agent), "{options}": list(options)}
    one = {
        "{agent}": shlex.join(agent),
        "{options}": shlex.join(options),
        "{prompt}": prompt,
        "{folder}": folder,
    }
    return [part for word in words for part in (many[word] if word in many else [_filled(word, one)])]


def check_template(template: Sequence[str]) -> None:
    """Raises `UsageError` where there is no place for the agent."""
    if not any("{agent}" in word for word in template):
        raise UsageError(
            "the client's command needs {agent} where the agent's command goes: "
            "accord check client -- COMMAND ... {agent} ..."
        )


def takes(template: Sequence[str], place: str) -> bool:
    """Whether the command has this place."""
    return any(place in word for word in template)


def _before_agent(words: Sequence[str]) -> int:
    """Options go before the agent, and before the `--` that sets its command apart."""
    place = next(number for number, word in enumerate(words) if "{agent}" in word)
    return place - 1 if place and words[place - 1] == "--" else place


def _filled(word: str, values: Mapping[str, str]) -> str:
    for place, value in values.items():
        word = word.replace(place, value)
    return word
