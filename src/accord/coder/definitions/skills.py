"""Skills: instructions for special tasks in `SKILL.md` files, which the model loads when a task needs them.

The model knows names and descriptions. Skills of a project count once the user trusts their file; until then
only their name is shown. A skill permits nothing: what it asks the model to do needs the usual permissions.
"""

import re
import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from accord.coder.bounded_text import escape_attribute, truncate, wrap_in_tag
from accord.coder.context.history_summary import loaded_skills
from accord.coder.definitions.definition_files import (
    DefinitionFile,
    DefinitionSet,
    UnusableDefinition,
    files_in,
    unreadable_header,
)
from accord.coder.definitions.definition_folders import skill_folders
from accord.coder.definitions.front_matter import read_markdown
from accord.coder.mcp.server_interface import clean, clean_line
from accord.coder.model_history import Message
from accord.coder.permissions.project_files import ProjectFile
from accord.coder.tools.tool import ToolFailure

_FILE_NAME: Final = "SKILL.md"
_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_UNUSABLE_CHARACTERS: Final = re.compile(r"[^A-Za-z0-9_-]+")
_NAME_CHARS: Final = 64
_DESCRIPTION_CHARS: Final = 1024
_SHORT_DESCRIPTION: Final = 60
_LINE_CHARS: Final = 500
_LISTED_FILES: Final = 10
_CHARS_PER_TOKEN: Final = 4
_CATALOG_SHARE: Final = 50
"""The catalog uses at most one part in this many of the model's context."""
_BODY_SHARE: Final = 5
"""The same for the text of one skill."""


@dataclass(frozen=True, slots=True)
class Skill:
    """One skill."""

    name: str
    description: str
    body: str
    path: str
    """The path of its `SKILL.md`, with links resolved."""
    folder: str
    """Where its relative paths begin."""
    display_path: str
    project: bool
    hint: str | None = None
    for_model: bool = True
    """Whether the model may load it."""
    for_user: bool = True
    """Whether it is a slash command."""
    allowed_tools: str = ""
    """The tools that its author wants to be used without a question. Only shown: it permits nothing."""
    remarks: tuple[str, ...] = ()
    """What is wrong with the file, although it is used."""
    untrusted: ProjectFile | None = None
    """The file, if the user has to trust it first."""

    @property
    def heading(self) -> str:
        """What the first line of its prompt contains."""
        return f'name="{self.name}" folder="{escape_attribute(self.folder)}"'

    def prompt(self, arguments: str, window: int) -> str:
        """The skill as the model reads it, with a fixed share of a context of `window` tokens."""
        body = fill_prompt(self.body, arguments) if arguments or has_placeholder(self.body) else self.body
        text = truncate(body, _CHARS_PER_TOKEN * window // _BODY_SHARE, f"read {self.path} for the rest")
        lines = [wrap_in_tag("skill", text, name=self.name, folder=self.folder)]
        if files := files_in(self.folder, _LISTED_FILES, besides=_FILE_NAME):
            lines.append(f"Its paths begin at {self.folder}. Files there: {', '.join(files)}")
        return "\n".join(lines)


def parse_skill(file: DefinitionFile) -> Skill:
    """Parse a skill. Raises UnusableDefinition if it has no description."""
    content = read_markdown(file.text)
    if file.untrusted is not None:
        name, path, shown = _usable_name(file.name), file.path, file.display_path
        return Skill(name, "", "", path, file.folder, shown, True, untrusted=file.untrusted)
    if not content.has_header:
        raise UnusableDefinition("it does not begin with a `---` header that has a description")
    description = clean(content.text("description"), _DESCRIPTION_CHARS).strip()
    if not description:
        raise UnusableDefinition("its header has no description", content.problem)
    name = clean_line(content.text("name"), 2 * _NAME_CHARS) or file.name
    remarks: list[str] = []
    if not _NAME.fullmatch(name) or len(name) > _NAME_CHARS:
        remarks.append(
            f"its name `{name}` is not lower-case letters, digits and single `-`, {_NAME_CHARS} at most"
        )
    if name != file.name:
        remarks.append(f"its name `{name}` differs from that of its folder")
    if content.problem:
        remarks.append(unreadable_header(content.problem))
    return Skill(
        _usable_name(name),
        " ".join(description.split()),
        content.body,
        file.path,
        file.folder,
        file.display_path,
        file.project,
        clean_line(content.text("argument-hint"), 200) or None,
        not content.is_true("disable-model-invocation"),
        not content.is_false("user-invocable"),
        clean_line(content.text("allowed-tools"), _LINE_CHARS),
        tuple(remarks),
    )


def _usable_name(name: str) -> str:
    return _UNUSABLE_CHARACTERS.sub("-", name)[:_NAME_CHARS].strip("-") or "skill"


class SkillSet(DefinitionSet[Skill]):
    """The skills of one session."""

    def __init__(self) -> None:
        super().__init__(skill_folders(), parse_skill)

    @property
    def for_model(self) -> list[Skill]:
        """The skills that the model may load."""
        return [skill for skill in self.usable.values() if skill.for_model]

    def catalog(self, window: int, *, besides: Collection[str] = ()) -> str:
        """Names and descriptions for the model, without some names; empty without skills.

        It has a fixed share of a context of `window` tokens: descriptions are shortened, then skills left
        out.
        """
        skills = [skill for skill in self.for_model if skill.name not in besides]
        max_chars = _CHARS_PER_TOKEN * window // _CATALOG_SHARE
        lines: list[str] = []
        for chars in (_DESCRIPTION_CHARS, max_chars // (len(skills) or 1) - _NAME_CHARS, _SHORT_DESCRIPTION):
            lines = [_catalog_line(skill, max(chars, _SHORT_DESCRIPTION)) for skill in skills]
            if sum(map(len, lines)) <= max_chars:
                break
        return "\n".join(_lines_within(lines, max_chars))

    def load_for_model(
        self, name: str, arguments: str, messages: Sequence[Message], window: int
    ) -> tuple[Skill, str]:
        """The skill and its text for the model. Raises ToolFailure."""
        skill = next(
            (skill for skill in self.for_model if skill.name == name.strip().removeprefix("/")), None
        )
        if skill is None:
            names = ", ".join(skill.name for skill in self.for_model) or "none"
            raise ToolFailure(f"there is no skill {name[:100]!r}; the skills are: {names}")
        text = skill.prompt(arguments, window)
        if text in loaded_skills(messages):
            return skill, f"The skill {skill.name} is loaded already: follow its text above."
        return skill, text


def _catalog_line(skill: Skill, chars: int) -> str:
    return f"- {skill.name}: {clean_line(skill.description, chars)}"


def _lines_within(lines: Sequence[str], max_chars: int) -> Iterator[str]:
    for number, line in enumerate(lines):
        max_chars -= len(line)
        if max_chars < 0:
            yield f"- and {len(lines) - number} more, which do not fit: the user can name them"
            return
        yield line


_PLACEHOLDER: Final = re.compile(r"(?P<escaped>\\)?\$(?:(?P<all>ARGUMENTS\b)|(?P<number>[1-9])(?!\d))")


def has_placeholder(prompt: str) -> bool:
    """Whether the prompt has a place for the typed text."""
    return any(not match["escaped"] for match in _PLACEHOLDER.finditer(prompt))


def fill_prompt(prompt: str, text: str) -> str:
    """Insert the typed text into a command's prompt. Nothing is ever executed.

    `$ARGUMENTS` is the whole text, `$1` to `$9` are its words; without any of them the text follows the
    prompt. A backslash before the dollar sign keeps it.
    """
    words = _split_arguments(text)

    def replacement(match: re.Match[str]) -> str:
        if match["escaped"]:
            return match[0][1:]
        if match["all"]:
            return text
        number = int(match["number"])
        return words[number - 1] if number <= len(words) else ""

    filled = _PLACEHOLDER.sub(replacement, prompt)
    return filled if has_placeholder(prompt) or not text else f"{filled}\n\n{text}"


def _split_arguments(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()  # an unmatched quote, such as an apostrophe
