"""The mutants of the source: one small change of one function each, and the fixed sample of them.

A mutant has a key of its file, function, original text, new text and occurrence. The sample of an area is the
mutants with the smallest hash of seed and key, so that a change elsewhere does not change the sample.
"""

import ast
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SOURCE = ROOT / "src" / "accord"
SEED = "accord-1"
PER_AREA = 100

# The files of each area, relative to `src/accord`.
AREAS: dict[str, tuple[str, ...]] = {
    "consent": (
        "agent/tool_call_scope.py",
        "cli/terminal_user.py",
        "client/agent_requests.py",
        "client/elicitation_forms.py",
        "client/permissions.py",
        "coder/permissions/*.py",
        "coder/turn/user_questions.py",
        "frontend/agent_config/project_trust.py",
        "frontend/consent.py",
        "frontend/policy_handler.py",
        "gateway/access/access_tokens.py",
        "gateway/pending_requests.py",
    ),
    "policy": ("policy/**/*.py",),
    "order": (
        "agent/session_options.py",
        "agent/turn.py",
        "client/agent_handle.py",
        "client/agent_lifecycle.py",
        "client/client_options.py",
        "client/event_stream.py",
        "client/prompt_turn.py",
        "client/session_core.py",
        "client/session_registry.py",
        "clock.py",
        "gateway/live_sessions.py",
        "session/*.py",
        "wire/calls.py",
        "wire/connection.py",
        "wire/dispatch.py",
        "wire/envelope.py",
        "wire/lanes.py",
        "wire/remote/post_queue.py",
        "wire/remote/resume_buffer.py",
    ),
    "store": ("store/*.py", "gateway/session_log.py", "frontend/recording.py", "frontend/stored_sessions.py"),
}

# Mutants that once survived stay in the sample: file, function, original text.
ALWAYS: tuple[tuple[str, str, str], ...] = (
    ("agent/tool_call_scope.py", "ToolCallScope.start", 'self.status == "pending"'),
    ("agent/tool_call_scope.py", "ToolCallScope.finish", 'self.status == "pending"'),
    ("agent/tool_call_scope.py", "ToolCallScope._close", 'self.status == "pending"'),
    ("client/client_options.py", "Restarts.next_pause", "policy is None"),
    ("client/session_registry.py", "_load", "session.replaying"),
    ("wire/envelope.py", "*", "not frame.isascii() and not is_utf8(frame)"),
    ("agent/turn.py", "Turn.set_mode", "await self._core.drain()"),
    ("store/sqlite_store.py", "SqliteStore.close", "self._release(*self._open_sessions)"),
    ("agent/session_options.py", "*", "modes.current_mode_id in _values(option)"),
)

_COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Eq: (r"==", "!="),
    ast.NotEq: (r"!=", "=="),
    ast.Lt: (r"<", "<="),
    ast.LtE: (r"<=", "<"),
    ast.Gt: (r">", ">="),
    ast.GtE: (r">=", ">"),
    ast.Is: (r"\bis\b", "is not"),
    ast.IsNot: (r"\bis\s+not\b", "is"),
    ast.In: (r"\bin\b", "not in"),
    ast.NotIn: (r"\bnot\s+in\b", "in"),
}
_SKIPPED_FUNCTIONS = {"__repr__", "__rich_repr__"}
_LOGGING = re.compile(r"^(await )?(self\.)?_?(log|logger|logging|warnings|trace)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one function. `start` and `end` are byte offsets in the file."""

    area: str
    file: str
    function: str
    original: str
    mutation: str
    occurrence: int
    start: int
    end: int
    lines: tuple[int, ...]  # of the statement, counted from the first line of the function
    function_hash: str

    @property
    def key(self) -> str:
        number = f" #{self.occurrence}" if self.occurrence else ""
        return f"{self.file}::{self.function}: {self.original} -> {' '.join(self.mutation.split())}{number}"

    def apply(self, source: bytes) -> bytes:
        """Return the file with the change."""
        return source[: self.start] + self.mutation.encode() + source[self.end :]


@dataclass(frozen=True, slots=True)
class Function:
    """A function of a file, with its nested functions."""

    name: str
    first: int
    last: int
    hash: str


class _Finder(ast.NodeVisitor):
    """Collects the possible changes in the functions of one file."""

    def __init__(self, source: bytes) -> None:
        self._source = source
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._names: list[str] = []
        self._functions: list[Function] = []
        self._statement: ast.stmt | None = None
        self.functions: list[Function] = []
        self.found: list[tuple[Function, ast.stmt, ast.AST, str]] = []

    def text(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return self._source[start:end].decode()

    def span(self, node: ast.AST) -> tuple[int, int]:
        assert isinstance(node, ast.expr | ast.stmt)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return (
            self._starts[node.lineno - 1] + node.col_offset,
            self._starts[node.end_lineno - 1] + node.end_col_offset,
        )

    def _add(self, node: ast.AST, mutation: str) -> None:
        if self._functions and self._statement is not None:
            self.found.append((self._functions[-1], self._statement, node, mutation))

    # -- scopes --

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._names.append(node.name)
        for child in node.body:
            self.visit(child)
        self._names.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if node.name in _SKIPPED_FUNCTIONS:
            return
        self._names.append(node.name)
        assert node.end_lineno is not None
        digest = hashlib.sha256(ast.dump(node).encode()).hexdigest()[:16]
        function = Function(".".join(self._names), node.lineno, node.end_lineno, digest)
        self.functions.append(function)
        self._functions.append(function)
        for child in node.body:
            self.visit(child)
        self._functions.pop()
        self._names.pop()

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.stmt):
            before, self._statement = self._statement, node
            super().visit(node)
            self._statement = before
        else:
            super().visit(node)

    # -- what is left out --

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Assert(self, node: ast.Assert) -> None:
        """An assertion is for the type checker."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Its parts have no reliable positions, and are texts for people."""

    def visit_arguments(self, node: ast.arguments) -> None:
        """Defaults belong to the signature."""

    # -- statements --

    def visit_Expr(self, node: ast.Expr) -> None:
        value = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(value, ast.Call):
            if _LOGGING.match(self.text(node)):
                return
            self._add(node, "pass")
            self.generic_visit(value)

    def visit_Assign(self, node: ast.Assign) -> None:
        if all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets):
            self._add(node, "pass")
        self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._add(node, "pass")
        self.visit(node.value)

    def visit_Delete(self, node: ast.Delete) -> None:
        self._add(node, "pass")

    def visit_Raise(self, node: ast.Raise) -> None:
        self._add(node, "pass")

    def visit_Continue(self, node: ast.Continue) -> None:
        self._add(node, "break")

    def visit_Break(self, node: ast.Break) -> None:
        self._add(node, "pass")

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None:
            if not isinstance(node.value, ast.Constant):
                self._add(node, "return None")
            self.visit(node.value)

    def visit_If(self, node: ast.If | ast.While) -> None:
        if "TYPE_CHECKING" in self.text(node.test):
            return
        self._negate(node.test)
        if isinstance(node, ast.If):
            self._add(node.test, "True")
        self.visit(node.test)
        for child in [*node.body, *node.orelse]:
            self.visit(child)

    def visit_While(self, node: ast.While) -> None:
        self.visit_If(node)

    # -- expressions --

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def _negate(self, test: ast.expr) -> None:
        """Negate a condition, if no other change does that."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return
        if isinstance(test, ast.Compare) and isinstance(
            test.ops[0], ast.Eq | ast.NotEq | ast.Is | ast.IsNot | ast.In | ast.NotIn
        ):
            return
        self._add(test, f"not ({self.text(test)})")

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._add(node, re.sub(r"^not\b\s*", "", self.text(node)))
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        pattern, other = _COMPARISONS[type(node.ops[0])]
        self._replace_between(node, [(node.left, node.comparators[0])], pattern, other)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        pattern, other = (r"\band\b", "or") if isinstance(node.op, ast.And) else (r"\bor\b", "and")
        self._replace_between(node, list(zip(node.values[:-1], node.values[1:], strict=True)), pattern, other)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        texts = [isinstance(side, ast.JoinedStr) or _is_text(side) for side in (node.left, node.right)]
        if isinstance(node.op, ast.Add | ast.Sub) and not any(texts):
            pattern, other = (r"\+", "-") if isinstance(node.op, ast.Add) else (r"-", "+")
            self._replace_between(node, [(node.left, node.right)], pattern, other)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._add(node, str(not node.value))
        elif isinstance(node.value, int):
            self._add(node, str(node.value + 1))

    def _replace_between(
        self, node: ast.expr, pairs: Iterable[tuple[ast.expr, ast.expr]], pattern: str, other: str
    ) -> None:
        """Replace the operator in the text between neighbors; parentheses and comments stay."""
        start, end = self.span(node)
        text, at = "", start
        for left, right in pairs:
            gap_start, gap_end = self.span(left)[1], self.span(right)[0]
            gap, count = re.subn(pattern, other, self._source[gap_start:gap_end].decode(), count=1)
            if not count:
                return
            text += self._source[at:gap_start].decode() + gap
            at = gap_end
        self._add(node, text + self._source[at:end].decode())


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def functions_of(source: bytes) -> list[Function]:
    """Return the functions of a file; a nested one comes after the function that holds it."""
    finder = _Finder(source)
    finder.visit(ast.parse(source))
    return finder.functions


def mutants_of(area: str, file: Path) -> Iterator[Mutant]:
    """Yield every possible mutant of a file."""
    source = file.read_bytes()
    finder = _Finder(source)
    finder.visit(ast.parse(source))
    counts: Counter[tuple[str, str, str]] = Counter()
    name = file.relative_to(SOURCE).as_posix()
    for function, statement, node, mutation in finder.found:
        original, mutation = finder.text(node), mutation.strip()
        shown = " ".join(original.split())
        place = (function.name, shown, " ".join(mutation.split()))
        assert isinstance(node, ast.expr | ast.stmt)
        assert node.end_lineno is not None
        lines = tuple(
            line - function.first for line in range(min(statement.lineno, node.lineno), node.end_lineno + 1)
        )
        start, end = finder.span(node)
        yield Mutant(
            area, name, function.name, shown, mutation, counts[place], start, end, lines, function.hash
        )
        counts[place] += 1


def source_files(area: str) -> list[Path]:
    """Return the files of an area. A pattern that matches no file is an error."""
    files: set[Path] = set()
    for pattern in AREAS[area]:
        matches = set(SOURCE.glob(pattern))
        if not matches:
            raise FileNotFoundError(f"tests/mutants: the area {area} names no file by {pattern}")
        files |= matches
    return sorted(files)


def rank(mutant: Mutant) -> str:
    """The position of a mutant in the sample order of its area."""
    return hashlib.sha256(f"{SEED}\n{mutant.key}".encode()).hexdigest()


def is_always_taken(mutant: Mutant) -> bool:
    return any(
        mutant.file == file and function in ("*", mutant.function) and mutant.original == original
        for file, function, original in ALWAYS
    )


@cache
def possible_mutants(area: str) -> list[Mutant]:
    """Return all mutants of an area."""
    return [mutant for file in source_files(area) for mutant in mutants_of(area, file)]


def sample() -> list[Mutant]:
    """Return the mutants to run: per area the ones that are always taken and the first of the order."""
    chosen: list[Mutant] = []
    for area in AREAS:
        possible = possible_mutants(area)
        always = [mutant for mutant in possible if is_always_taken(mutant)]
        others = sorted((mutant for mutant in possible if not is_always_taken(mutant)), key=rank)
        chosen += always + others[:PER_AREA]
    return chosen


def explanations() -> dict[str, str]:
    """Return why a surviving mutant is equivalent or harmless, by key."""
    return json.loads((Path(__file__).parent / "explained.json").read_text("utf-8"))
