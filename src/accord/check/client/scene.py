"""A scene: one run of the client, or a few, that puts several rules to the test."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeAlias

from accord.check.client.stage import Stage
from accord.check.ledger import Rule

Play: TypeAlias = Callable[[Stage], Awaitable[None]]


class Scene(NamedTuple):
    """Its name, how it goes in a sentence, the rules it can show, and the client's capability without which it is void."""

    name: str
    about: str
    rules: tuple[Rule, ...]
    play: Play
    gate: str = ""
