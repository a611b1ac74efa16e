"""Pickers: everything a user can choose in a session, from whichever of its three forms the agent speaks.

Config options are the current form; session modes are shown only where there are none. A list of models, the oldest form,
comes as a config option that says how it is set.
"""

from typing import Literal, TypeAlias

from msgspec import Struct

from accord.schema import (
    SessionConfigBoolean,
    SessionConfigOption,
    SessionConfigSelect,
    SessionConfigSelectGroup,
    SessionConfigSelectOption,
    SessionMode,
)

PickerSource: TypeAlias = Literal["config", "modes", "models"]


class Choice(Struct, frozen=True):
    """One value on offer."""

    value: str
    name: str
    description: str = ""
    group: str = ""


class Picker(Struct, frozen=True):
    """One thing to choose. `source` says by which method a choice is sent; a switch has no choices but True and False."""

    source: PickerSource
    id: str
    name: str
    current: str | bool
    choices: tuple[Choice, ...] = ()
    category: str | None = None
    description: str = ""

    def offers(self, value: str | bool) -> bool:
        """Whether the agent listed this value: nothing else may be sent to it."""
        if isinstance(self.current, bool):
            return isinstance(value, bool)
        return any(choice.value == value for choice in self.choices)


def of_option(option: SessionConfigOption) -> Picker:
    """The picker for one config option."""
    return Picker(
        source="models" if is_legacy(option) else "config",
        id=option.id,
        name=option.name,
        current=option.current_value,
        choices=() if isinstance(option, SessionConfigBoolean) else _choices(option),
        category=option.category or None,
        description=option.description or "",
    )


def is_legacy(option: SessionConfigOption) -> bool:
    """Whether the option was made of a list of models."""
    if not option.meta:
        return False
    from accord.schema.dialects.provenance import set_by  # on first use: correct agents never need it

    return set_by(option) is not None


def of_modes(modes: list[SessionMode], current: str | None) -> Picker:
    """The picker for session modes."""
    choices = tuple([Choice(mode.id, mode.name, mode.description or "") for mode in modes])
    return Picker("modes", "mode", "Mode", current or "", choices, "mode")


def offered_modes(option: SessionConfigSelect) -> list[SessionMode]:
    """The session modes that a mode option stands for."""
    return [
        SessionMode(id=choice.value, name=choice.name, description=choice.description or None)
        for choice in _choices(option)
    ]


def _choices(option: SessionConfigSelect) -> tuple[Choice, ...]:
    found: list[Choice] = []
    for item in option.options:
        if isinstance(item, SessionConfigSelectGroup):
            found += [_choice(inner, item.name) for inner in item.options]
        else:
            found.append(_choice(item))
    return tuple(found)


def _choice(option: SessionConfigSelectOption, group: str = "") -> Choice:
    return Choice(option.value, option.name, option.description or "", group)
