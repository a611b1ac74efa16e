"""Dialogs for permissions: the complete request, and the answers that the agent offers.

Imported on first use: it loads accord.client.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from accord.client import PermissionRequest
from accord.frontend.policy_handler import (
    always_note,
    is_command_title,
    option_label,
    reason_note,
    request_details,
    shown_arguments,
    shown_diffs,
    shown_texts,
)
from accord.policy.request import ActionRequest, Decision
from accord.safe_text import one_line, visible
from accord.schema import Diff, PermissionOption
from accord.text_width import count_text
from accord.tui.actions import ANSWER_KEYS, ANSWER_KINDS, REJECT_AND_SAY
from accord.tui.chat_settings import ChatSettings
from accord.tui.dialog import ChoiceDialog
from accord.tui.parts.diff_part import DiffPart, RevealedTextPart
from accord.tui.parts.part import DrawnPart, json_value_text
from accord.tui.parts.tool_parts import KIND_LABELS
from accord.tui.theme import app_of
from accord.tui.transcript.transcript_layout import Item

if TYPE_CHECKING:
    from accord.frontend.consent import AccessQuestion
    from accord.tui.key_footer import KeyHint


class QuestionText(Item):
    """The text of a question."""

    def __init__(self, parts: Sequence[DrawnPart]) -> None:
        super().__init__()
        self.parts: list[DrawnPart] = list(parts)


class OptionDialog(ChoiceDialog):
    """A question with permission options as answers."""

    def __init__(self, title: str, parts: Sequence[DrawnPart], options: Sequence[PermissionOption]) -> None:
        names = [option_label(option) for option in options]
        super().__init__(title, [QuestionText(parts)], names, [option.kind for option in options])
        self.permission_options: list[PermissionOption] = list(options)
        self.tall: bool = any(isinstance(part, DiffPart) for part in parts)
        self.subject: str = ""
        """What was asked, for the conversation."""
        self.say_instead: bool = False
        """Whether the user rejects and says what to do instead."""
        self._keys: dict[str, str] = {}
        """What the letters do, by letter: the kind of an option, or `reject_and_say`."""

    def on_mount(self) -> None:
        chosen: Mapping[str, str] = getattr(app_of(self), "settings", ChatSettings()).keys
        self._keys = {
            chosen.get(name, key): name
            for name, (key, _) in ANSWER_KEYS.items()
            if self._index(name) is not None
        }
        indexes = {self._index(name): key for key, name in self._keys.items() if name != REJECT_AND_SAY}
        self.options.letters = {index: key for index, key in indexes.items() if index is not None}
        super().on_mount()

    def _index(self, name: str) -> int | None:
        """The answer of a letter: the only option of its kind, or the first that is remembered.

        Agents list several that are remembered, the narrowest first: for the session, the project, the user.
        """
        kind = ANSWER_KINDS[name]
        found = [index for index, option in enumerate(self.permission_options) if option.kind == kind]
        return found[0] if len(found) == 1 or (found and kind.endswith("_always")) else None

    @property
    def key_hints(self) -> "Sequence[KeyHint]":
        meanings = [(key, ANSWER_KEYS[name][1]) for key, name in self._keys.items()]
        return [*meanings, *super().key_hints[bool(meanings) :]]

    def letter_pressed(self, letter: str) -> bool:
        name = self._keys.get(letter)
        index = None if name is None else self._index(name)
        if index is None or not self.options.shows(index):
            return False
        if not self.answer.done():  # keys that were typed quickly arrive behind the answer
            self.say_instead = name == REJECT_AND_SAY
        self.choose(index)
        return True

    def choose(self, index: int) -> None:
        self.set_answer(self.permission_options[index])


class PermissionDialog(OptionDialog):
    """Asks for permission for a tool call and shows its command, diff and files."""

    def __init__(self, permission: PermissionRequest, request: ActionRequest, decision: Decision) -> None:
        kind = KIND_LABELS.get(permission.call.display_kind, "")
        title = (
            f"{one_line(permission.session.agent.name, 40)} asks to {kind}"
            if kind
            else f"{permission.session.agent.name} asks"
        )
        if not permission.options:
            title += ": no answers offered, Esc stops the turn"
        super().__init__(title, list(_permission_parts(permission, request, decision)), permission.options)
        self.subject: str = one_line(visible(permission.call.label), 80)


class AccessDialog(OptionDialog):
    """Asks for permission for a file or terminal access through this client."""

    def __init__(
        self, question: "AccessQuestion", decision: Decision, options: Sequence[PermissionOption]
    ) -> None:
        parts: list[DrawnPart] = [_detail_part(line) for line in question.details]
        if question.diff is not None:
            parts.append(_diff_part(question.diff))
        parts += [RevealedTextPart(line) for line in (*question.extras, f"({decision.reason})")]
        super().__init__(question.title, parts, options)
        self.subject: str = one_line(visible(question.title), 80)


def _permission_parts(
    permission: PermissionRequest, request: ActionRequest, decision: Decision
) -> Iterator[DrawnPart]:
    if not is_command_title(permission):
        yield RevealedTextPart(permission.call.label, strong=True)
    yield from map(_detail_part, request_details(permission, request))
    diffs = [_diff_part(diff) for diff in shown_diffs(permission)]
    if len(diffs) > 1:
        yield RevealedTextPart(_file_list(diffs), strong=True)
    yield from diffs
    for text in shown_texts(permission):
        yield RevealedTextPart(text, quoted=True)
    arguments = shown_arguments(permission, request)
    if arguments:
        lines = [f"{name}: {json_value_text(value)}" for name, value in arguments.items()]
        yield RevealedTextPart("\n".join(lines), quoted=True)
    for note in (reason_note(permission, request, decision), always_note(permission, request, decision)):
        if note:
            yield RevealedTextPart(note)


def _detail_part(line: str) -> DrawnPart:
    return RevealedTextPart(line, code=line.startswith("$ "))


def _file_list(diffs: Sequence[DiffPart]) -> str:
    """The changed files with their numbers of lines, one per line."""
    lines = [f"{count_text(len(diffs), 'file')}:"]
    for diff in diffs:
        counts = diff.comparison
        lines.append(
            f"  {diff.path}" + (f"  +{counts.added} −{counts.removed}" if counts is not None else "")
        )
    return "\n".join(lines)


def _diff_part(diff: Diff) -> DiffPart:
    before = _make_visible(diff.old_text) if isinstance(diff.old_text, str) else None
    return DiffPart(visible(diff.path), before, _make_visible(diff.new_text), folded=False, framed=True)


def _make_visible(text: str) -> str:
    """Escape invisible characters and keep the lines."""
    return "\n".join(visible(line.expandtabs(4)) for line in text.split("\n"))
