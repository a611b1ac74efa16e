"""`edit_file`: replaces texts that occur exactly once, or every occurrence; also edits cells of a notebook.

Hunks of a patch arrive here, too (`patch_calls`).
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal
from uuid import uuid4

from msgspec import Meta, Struct

from accord.coder.files.notebook import NOTEBOOK_SUFFIX, BadNotebook, CellType, Notebook
from accord.coder.files.patch_text import BadPatch, apply_hunks, parse_hunks
from accord.coder.files.session_files import encode_text
from accord.coder.files.text_document import Document, diff_of, normalize_line_ends, with_line_end
from accord.coder.files.text_match import (
    explain_mismatch,
    find_all,
    find_another,
    find_loosely,
    line_number_at,
    replace_matches,
)
from accord.coder.model_history import TextPart
from accord.coder.tools.builtin_tool import BuiltInTool, ToolArguments
from accord.coder.tools.changed_file import ChangedFile
from accord.coder.tools.tool import BadArguments, CallSubject, PreparedCall, Report, ToolFailure, ToolOutcome
from accord.coder.tools.tool_context import ToolContext
from accord.safe_text import one_line
from accord.schema.content import Content, TextContent, ToolCallContent, ToolCallLocation

_MAX_LOCATIONS: Final = 10


class TextEdit(Struct, omit_defaults=True):
    """One replacement."""

    old_text: str
    new_text: str
    replace_all: bool = False


class EditFileArguments(ToolArguments):
    path: Annotated[str, Meta(min_length=1, description="The file, absolute or from the working folder.")]
    old_text: Annotated[
        str | None,
        Meta(description="The text to replace, exactly as it is in the file, without line numbers."),
    ] = None
    new_text: Annotated[str | None, Meta(description="The text to put in its place; empty to remove it.")] = (
        None
    )
    replace_all: Annotated[
        bool, Meta(description="Replace every occurrence; else there must be exactly one.")
    ] = False
    edits: Annotated[
        Annotated[list[TextEdit], Meta(min_length=1)] | None,
        Meta(description="Several replacements instead of one, made in this order; all or none."),
    ] = None
    patch: Annotated[str | None, Meta(description="Instead: hunks for this file, as in apply_patch.")] = None
    cell: Annotated[
        str | None, Meta(description="Of a notebook: the number or id of the cell; 0 is before the first.")
    ] = None
    cell_action: Annotated[
        Literal["replace", "insert", "delete"] | None,
        Meta(description="Replace the cell by new_text (if left out), insert one after it, or delete it."),
    ] = None
    cell_type: Annotated[
        CellType | None, Meta(description="The type of a new cell, code if left out; or a new type.")
    ] = None

    def replacements(self) -> list[TextEdit]:
        """Return the replacements; none for a patch. Raises BadArguments."""
        if self.cell is not None and self._changes_whole_cell():
            return []
        given = [self.old_text is not None or self.new_text is not None, self.edits is not None]
        if self.edits is not None and not self.old_text and not self.new_text:
            given[0] = False  # some models send empty texts beside `edits`
        if sum((*given, self.patch is not None)) != 1:
            raise BadArguments("edit_file was not run: give old_text and new_text, or edits, or patch")
        if self.patch is not None:
            return []
        if given[1]:
            return self.edits or []
        if self.old_text is None or self.new_text is None:
            missing = "old_text" if self.old_text is None else "new_text"
            raise BadArguments(f"edit_file was not run: `{missing}` is missing: a string")
        return [TextEdit(self.old_text, self.new_text, self.replace_all)]

    def _changes_whole_cell(self) -> bool:
        """Whether the cell is inserted, deleted or replaced, and not a text in it. Raises BadArguments."""
        if self.patch is not None:
            raise BadArguments("edit_file was not run: a patch cannot be applied to a cell")
        if self.cell_action in (None, "replace") and (self.old_text or self.edits):
            return False
        if self.cell_action != "delete" and self.new_text is None:
            raise BadArguments("edit_file was not run: `new_text` is missing: the source of the cell")
        return True


@dataclass(slots=True)
class EditedText:
    """A text after its edits."""

    text: str
    lines: list[int] = field(default_factory=list[int])
    """The lines of the changes, in the order of the edits."""
    differences: list[str] = field(default_factory=list[str])
    """How texts to replace differed from the file, for edits that matched loosely."""

    def note(self) -> str:
        """Say what did not match exactly; empty if everything did."""
        if not self.differences:
            return ""
        return f"The text to replace differs from the file in {', '.join(dict.fromkeys(self.differences))}."


async def prepare(arguments: EditFileArguments, context: ToolContext) -> PreparedCall:
    file = await context.resolve(arguments.path)
    changed = ChangedFile(file, context)
    edits = arguments.replacements()
    new_id = uuid4().hex[:8]  # the same in the diff and in the file

    async def edited(before: Document) -> EditedText:
        if arguments.cell is not None:
            return await asyncio.to_thread(_apply_to_cell, file.path, before, arguments, edits, new_id)
        if arguments.patch is not None:
            return await asyncio.to_thread(_apply_patch, file.path, before.text, arguments.patch)
        after = await asyncio.to_thread(_apply_edits, file.path, before.text, edits)
        if file.name.lower().endswith(NOTEBOOK_SUFFIX):
            _check_notebook(before.text, after.text)
        return after

    async def edit() -> tuple[Document, EditedText]:
        before = await changed.read()
        if before is None:
            raise ToolFailure(f"{file.path} does not exist", "create it with write_file")
        return before, await edited(before)

    async def check() -> None:
        before, after = await edit()
        encode_text(file, after.text, before.encoding)

    async def preview() -> Sequence[ToolCallContent]:
        before = changed.last_read or await changed.read()
        if before is None:
            return ()
        after = await edited(before)
        diff = diff_of(file.path, before.text, after.text, context.limits.diff_chars)
        if not (note := after.note()):
            return (diff,)
        return (diff, Content(TextContent(f"{note} The diff shows the real change.")))

    async def run(report: Report) -> ToolOutcome:
        before, after = await edit()
        written = await context.files.write(file, after.text, before)
        context.read_files.record(file, written.digest)
        raw: dict[str, object] = {"path": file.path, "replacements": len(after.lines), "lines": after.lines}
        if after.differences:
            raw["differences"] = after.differences
        return ToolOutcome(
            (TextPart(_summary(context.display_path(file.path), after, single=len(edits) == 1)),),
            (diff_of(file.path, before.text, after.text, context.limits.diff_chars),),
            raw,
            locations=[ToolCallLocation(file.path, line) for line in after.lines[:_MAX_LOCATIONS]],
        )

    return PreparedCall(
        title=f"Edit {one_line(context.display_path(file.path))}",
        subject=CallSubject(paths=(file.real,)),
        run=run,
        check=check,
        preview=preview,
        locations=(ToolCallLocation(file.path),),
    )


def _summary(path: str, after: EditedText, *, single: bool) -> str:
    first, *more = after.lines
    if single:
        times = f", {len(after.lines)} times" if more else ""
        text = f"Edited {path} at line {first}{times}."
    else:
        text = f"Edited {path} at {_listed(after.lines)}."
    return f"{text} {after.note()}".rstrip()


def _listed(lines: Sequence[int]) -> str:
    more = ", ..." if len(lines) > _MAX_LOCATIONS else ""
    return f"line{'s' * (len(lines) > 1)} {', '.join(map(str, lines[:_MAX_LOCATIONS]))}{more}"


def _apply_edits(path: str, text: str, edits: Sequence[TextEdit]) -> EditedText:
    """Return the text after the edits. Can be slow if it has to explain a mismatch. Raises ToolFailure."""
    after = EditedText(text)
    for number, edit in enumerate(edits, 1):
        try:
            _apply_edit(path, after, edit)
        except ToolFailure as failure:
            if len(edits) == 1:
                raise
            place = f"edit {number} of {len(edits)}: "
            nothing = ToolFailure(f"{place}{failure}\nNone of the edits was made.")
            nothing.shown = place + failure.shown
            raise nothing from None
    return after


def _apply_edit(path: str, after: EditedText, edit: TextEdit) -> None:
    text, old, new = after.text, edit.old_text, edit.new_text
    if not old:
        raise ToolFailure("old_text is empty", "give the text to replace; to create a file, use write_file")
    if normalize_line_ends(old) == normalize_line_ends(new):
        raise ToolFailure("old_text and new_text are the same; there is nothing to change")
    matches = find_all(text, old)
    if not matches:
        loose = find_loosely(text, old, new)
        if loose is None:
            raise ToolFailure(f"old_text is not in {path}. {explain_mismatch(text, old)}")
        matches, new = [loose.match], loose.replacement
        after.differences.append(loose.difference)
    elif len(matches) == 1 and not edit.replace_all and (another := find_another(text, old, matches[0])):
        matches.append(another)  # overlaps the first one
    lines = [line_number_at(text, match.start) for match in matches]
    if len(matches) > 1 and not edit.replace_all:
        raise ToolFailure(
            f"old_text is in {path} {len(matches)} times, at {_listed(lines)}",
            "give more of the lines around the one you mean, or set replace_all",
        )
    after.text = replace_matches(text, matches, new)
    added = new.count("\n") - text.count("\n", matches[0].start, matches[0].end)
    after.lines = [line + added * sum(changed < line for changed in lines) for line in after.lines] + lines


def _apply_to_cell(
    path: str, before: Document, arguments: EditFileArguments, edits: Sequence[TextEdit], new_id: str
) -> EditedText:
    """Return the text of the notebook after the change of a cell. Raises ToolFailure."""
    name, action, kind = arguments.cell or "", arguments.cell_action, arguments.cell_type
    differences: list[str] = []
    try:
        notebook = Notebook(before.text)
        index = -1 if action == "insert" and name == "0" else notebook.find(name)
        if action == "insert":
            notebook.insert(index + 1, arguments.new_text or "", kind or "code", new_id)
        elif action == "delete":
            notebook.delete(index)
        elif edits:
            inner = _apply_edits(f"cell {name} of {path}", notebook.source(index), edits)
            notebook.replace(index, inner.text, kind)
            differences = inner.differences
        else:
            notebook.replace(index, arguments.new_text or "", kind)
    except BadNotebook as error:
        raise ToolFailure(f"{path} was not edited: {error}") from None
    text = with_line_end(notebook.file_text(), before.line_end)
    pairs = zip(before.text.split("\n"), text.split("\n"), strict=False)
    changed = next((line for line, (old, new) in enumerate(pairs, 1) if old != new), None)
    if changed is None:
        raise ToolFailure(f"cell {name} of {path} is like this already; there is nothing to change")
    return EditedText(text, [changed], differences)


def _check_notebook(before: str, after: str) -> None:
    """Refuse an edit of the file's JSON that would break it."""
    try:
        Notebook(before)
    except BadNotebook:
        return  # perhaps this is a repair
    try:
        Notebook(after)
    except BadNotebook as error:
        raise ToolFailure(f"the notebook would be broken: {error}", "edit it by `cell`") from None


def _apply_patch(path: str, text: str, patch: str) -> EditedText:
    try:
        hunks = parse_hunks(patch)
    except BadPatch as error:
        raise ToolFailure(f"the patch for {path} cannot be read: {error}") from None
    try:
        return EditedText(*apply_hunks(text, hunks))
    except BadPatch as error:
        raise ToolFailure(
            f"the patch does not fit {path}: {error}", "read the file, then repeat it"
        ) from None


EDIT_FILE: Final = BuiltInTool("edit_file", "edit", "write", EditFileArguments, prepare)
