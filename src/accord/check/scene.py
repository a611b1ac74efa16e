"""A scene: one conversation, or a few, that puts several rules to the test."""

from collections.abc import Awaitable, Callable
from typing import Generic, NamedTuple, TypeVar

from accord.check.ledger import Rule

StageT = TypeVar("StageT")


class Missing(Exception):
    """The scene cannot go on: the script says nothing that brings it about, or the program did not do what it says."""


class Scene(NamedTuple, Generic[StageT]):
    """Its name, how it goes in a sentence, the rules it can show, and the capability without which it is void."""

    name: str
    about: str
    rules: tuple[Rule, ...]
    play: Callable[[StageT], Awaitable[None]]
    gate: str = ""
