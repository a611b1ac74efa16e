"""A recording as lines of text, as JSON objects and as one self-contained HTML page.

The page works without scripts; its one script only filters.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from html import escape
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from accord.text_width import count_text, cut_to_width
from accord.trace.message_judge import Judgment, MessageJudge
from accord.trace.step_summary import (
    escape_controls,
    escape_lines,
    format_duration,
    format_size,
    summarize_step,
)
from accord.trace.trace_format import DamagedLine, TraceEntry, TraceStart
from accord.trace.trace_reader import StepFilter, start_time
from accord.trace.trace_steps import CallTracker, TraceFault, TraceStep, at
from accord.trace.wire_line import WireLine

if TYPE_CHECKING:
    from accord.trace.message_judge_v2 import MessageJudgeV2

_MAX_NAMES: Final = 50
_MAX_FAULTS: Final = 5
"""Faults shown per message."""
_ARROWS: Final = {"client": "→", "agent": "←", "stderr": "·"}
_COLORS: Final = {
    "client": "36",
    "agent": "32",
    "stderr": "2",
    "fault": "33",
    "error": "31",
    "head": "1",
    "dim": "2",
}


class TimelineStyle(Struct, frozen=True):
    """How a timeline looks."""

    width: int = 0
    """Characters of a line; 0 for no limit."""
    colors: bool = False
    full: bool = False
    """Whether to print every message in full below its line."""
    ascii_only: bool = False
    """Whether to use only ASCII."""

    def paint(self, text: str, color: str) -> str:
        """Return the text in a color, if colors are on."""
        return f"\x1b[{_COLORS[color]}m{text}\x1b[0m" if self.colors and text else text


class _RunState:
    def __init__(self, number: int, start: TraceStart | None, version: int | None) -> None:
        self.number = number
        self.start = start
        self._tracker = CallTracker()
        self._version = version
        """The version of the messages; None until `initialize` is answered."""
        self._judge = MessageJudge("client", "agent")
        self._judge_v2: MessageJudgeV2 | None = None
        if version == 2:
            self._start_judge_v2()

    def add(self, entry: TraceEntry) -> TraceStep:
        """Turn the next entry into a step, with its faults."""
        step = self._tracker.add(entry)
        if step.side is not None and entry.kind == "frame":
            line = WireLine("", step.number, step.side, entry.data, step.message)
            step.faults = [TraceFault(one.reason, one.rule) for one in self._judgments(step, line)]
        return step

    def _judgments(self, step: TraceStep, line: WireLine) -> list[Judgment]:
        """Judge a line in its version. One that precedes the choice of a version counts as the later one."""
        if self._version is None and step.method == "initialize":
            version = at(step.params if step.kind == "request" else step.result, "protocolVersion")
            newer = isinstance(version, int) and version >= 2
            if step.kind == "request" and newer and self._judge_v2 is None:
                self._start_judge_v2()
            elif step.kind == "answer":
                self._version = 2 if newer else 1
        found_v2 = None if self._judge_v2 is None else self._judge_v2.judge(line)
        found = [] if self._version == 2 else self._judge.judge(line)
        return (found if found_v2 is None or self._version == 1 else found_v2)[:_MAX_FAULTS]

    def _start_judge_v2(self) -> None:
        from accord.trace.message_judge_v2 import MessageJudgeV2

        self._judge_v2 = MessageJudgeV2()

    @property
    def _prefix(self) -> str:
        return "" if self._judge_v2 is None or self._version == 1 else "v2-"

    def unanswered(self) -> Iterator[tuple[TraceStep, TraceFault]]:
        """Yield the requests without a response at the end of the run."""
        for step in self._tracker.unanswered():
            receiver = "agent" if step.side == "client" else "client"
            yield (
                step,
                TraceFault(
                    f"{step.method} was never answered", f"{self._prefix}framing.{receiver}-one-answer"
                ),
            )


class Timeline:
    """Turns the lines of a recording into the steps to show, with their faults."""

    def __init__(
        self,
        step_filter: StepFilter = StepFilter(),  # noqa: B008 - it is frozen
        *,
        run: int | None = None,
        version: int | None = None,
    ) -> None:
        """`version` is that of all messages; None: each run's `initialize` says it."""
        self.filter: StepFilter = step_filter
        self.faults: int = 0
        self.damaged: list[DamagedLine] = []
        self._run_number = run
        self._version = version
        self._runs: dict[str, _RunState] = {}
        self._total = self._shown = 0
        self._methods: dict[str, None] = {}
        self._sessions: dict[str, None] = {}

    def steps(
        self, lines: Iterable[TraceStart | TraceEntry | DamagedLine]
    ) -> Iterator[tuple[int, TraceStart | TraceStep]]:
        """Yield run numbers with the start of the run or with a step that the filter accepts."""
        for line in lines:
            if isinstance(line, DamagedLine):
                self.damaged.append(line)
                continue
            run = self._runs.get(line.run)
            if run is None:
                run = self._runs[line.run] = _RunState(
                    len(self._runs) + 1, line if isinstance(line, TraceStart) else None, self._version
                )
            if self._run_number is not None and run.number != self._run_number:
                continue
            if isinstance(line, TraceStart):
                run.start = line
                yield run.number, line
                continue
            step = run.add(line)
            self.faults += len(step.faults)
            self._total += 1
            for known_names, name in ((self._methods, step.method), (self._sessions, step.session)):
                if name and len(known_names) < _MAX_NAMES:
                    known_names[name] = None
            if self.filter.accepts(step, run.start):
                self._shown += 1
                yield run.number, step

    def unanswered_calls(self) -> list[tuple[int, TraceStep, TraceFault]]:
        """Return the requests without a response, with their run numbers. Call it after the last step."""
        unanswered: list[tuple[int, TraceStep, TraceFault]] = []
        for run in self._runs.values():
            for step, fault in run.unanswered():
                step.faults.append(fault)
                if self.filter.accepts(step, run.start):
                    unanswered.append((run.number, step, fault))
        self.faults += len(unanswered)
        return unanswered

    def remarks(self) -> list[str]:
        """Return messages about the file itself: damaged lines, missing runs, filters without a match."""
        remarks: list[str] = []
        cut_off = sum(not line.complete for line in self.damaged)
        invalid = len(self.damaged) - cut_off
        if cut_off:
            remarks.append("the last line of the recording is cut off")
        if invalid:
            remarks.append(
                f"{count_text(invalid, 'line')} of the file could not be read: {self.damaged[0].reason}"
            )
        if self._run_number is not None and all(
            run.number != self._run_number for run in self._runs.values()
        ):
            remarks.append(f"the file has no run {self._run_number}; it has {len(self._runs)}")
        elif self._total and not self._shown:
            remarks.append(self._explain_no_match())
        return remarks

    def _explain_no_match(self) -> str:
        """Say why no step is shown."""
        step_filter, sentence = self.filter, f"none of {self._total} messages matches"
        if step_filter.only_faults and not self.faults:
            return f"{sentence}: none breaks a rule"
        for patterns, known_names, filter_name in (
            (step_filter.methods, self._methods, "methods"),
            (step_filter.sessions, self._sessions, "sessions"),
        ):
            if patterns and not any(step_filter.matches(name, filter_name) for name in known_names):
                names = ", ".join(cut_to_width(escape_controls(name), 60) for name in known_names)
                wanted = escape_controls(" or ".join(patterns))
                return f"{sentence}: no {wanted}; the {filter_name} are {names or 'none'}"
        return sentence


def run_line(number: int, start: TraceStart, style: TimelineStyle) -> str:
    """Return the headline of a run."""
    began = start_time(start)
    started = f"{began:%Y-%m-%d %H:%M:%S}" if began else start.started
    words = [f"run {number}", started, escape_controls(" ".join(start.command) or start.by)]
    if not start.redacted:
        words.append("not redacted")
    line = (" - " if style.ascii_only else " · ").join(word for word in words if word)
    return style.paint(_limit_width(line, style), "head")


def step_lines(step: TraceStep, style: TimelineStyle) -> list[str]:
    """Return the line of a step, the message if wanted, and a line for each fault."""
    entry = step.entry
    arrow = _ARROWS.get(entry.sender or "", "×") if entry.kind in ("frame", "cut", "stderr") else "×"
    if style.ascii_only:
        arrow = {"→": "->", "←": "<-", "·": "| ", "×": "x "}[arrow]
    duration = "" if step.duration is None else format_duration(step.duration)
    size = format_size(entry.size) if entry.kind in ("frame", "cut", "stderr") else ""
    session = f"[{escape_controls(step.session)[-6:]}] " if step.session else ""
    head = f"{entry.at:>10.3f}  {arrow}  {cut_to_width(_step_name(step), 34):<34} {duration:>9} {size:>8}  "
    # Clean only what can be shown of a long message.
    content = summarize_step(step)[: style.width or 2000]
    line = _limit_width(head + session + escape_controls(content), style).rstrip()
    color = "error" if step.kind in ("error", "exit", "lost") else entry.sender or "dim"
    if style.colors and len(line) > len(head):
        line = style.paint(line[: len(head)], color) + line[len(head) :]
    lines = [_to_ascii(line) if style.ascii_only else line]
    if style.full and step.message is not None:
        body = json.dumps(step.message, indent=2, ensure_ascii=style.ascii_only)
        lines += [f"{'':>14} {part}" for part in escape_lines(body).split("\n")]
    return lines + [fault_line(fault, style) for fault in step.faults]


def fault_line(fault: TraceFault, style: TimelineStyle, where: str = "") -> str:
    line = f"{where:>10}  {'! ' if style.ascii_only else '!'}  {escape_controls(str(fault))}"
    return style.paint(_limit_width(_to_ascii(line) if style.ascii_only else line, style), "fault")


def step_as_json(number: int, step: TraceStep) -> dict[str, Any]:
    """Return a step as JSON values."""
    entry = step.entry
    members: dict[str, Any] = {
        "run": number,
        "step": step.number,
        "t": round(entry.at, 6),
        "from": entry.sender,
        "kind": step.kind,
        "method": step.method or None,
        "id": step.id,
        "session": step.session or None,
        "size": entry.size,
        "ms": None if step.duration is None else round(step.duration * 1000, 3),
        "message": step.message,
        "text": entry.text if step.message is None and entry.kind in ("frame", "cut", "stderr") else None,
        "summary": summarize_step(step) if step.kind in ("closed", "exit", "lost") else None,
        "faults": [fault.as_json() for fault in step.faults] or None,
    }
    return {name: value for name, value in members.items() if value is not None}


def unanswered_as_json(number: int, step: TraceStep, fault: TraceFault) -> dict[str, Any]:
    """Return a request without a response as JSON values."""
    members = step_as_json(number, step)
    common = {
        name: members[name]
        for name in ("run", "step", "t", "from", "method", "id", "session")
        if name in members
    }
    return {**common, "kind": "unanswered", "faults": [fault.as_json()]}


def _step_name(step: TraceStep) -> str:
    suffix = {"answer": " =", "error": " ="}.get(step.kind, "")
    name = step.method or {"answer": "answer", "error": "error"}.get(
        step.kind, "" if step.kind != "noise" else "no message"
    )
    if step.entry.kind == "stderr":
        name = "stderr"
    elif step.entry.kind != "frame":
        name = step.kind
    id = f" #{escape_controls(str(step.id))}" if step.id is not None else ""
    return f"{escape_controls(name)}{suffix}{id}"


def _limit_width(line: str, style: TimelineStyle) -> str:
    return cut_to_width(line, style.width) if style.width else line


def _to_ascii(line: str) -> str:
    return line.replace("µ", "u").replace("…", "~").encode("ascii", "backslashreplace").decode()


_HEAD: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>%s</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<style>
:root { color-scheme: light dark; --line: #8884; --client: #0a7ea4; --agent: #2b8a3e; --bad: #c92a2a;
 --warn: #b35c00 }
@media (prefers-color-scheme: dark) {
 :root { --client: #4cc3e8; --agent: #69d07f; --bad: #ff8787; --warn: #ffb057 } }
body { font: 14px/1.45 ui-monospace, Menlo, Consolas, monospace; margin: 0 auto; max-width: 90rem;
 padding: 1rem }
h1 { font-size: 1.1rem } h2 { font-size: 1rem; margin: 1.5rem 0 .3rem }
form { position: sticky; top: 0; background: Canvas; padding: .5rem 0; display: flex; gap: .6rem;
 flex-wrap: wrap; z-index: 1 }
input, select { font: inherit; padding: .15rem .4rem }
details { border-top: 1px solid var(--line) }
summary { display: grid; grid-template-columns: 6rem 1.5rem 20rem 5rem 5rem 1fr; gap: 0 .6rem;
 cursor: pointer; list-style: none; padding: .1rem 0 }
summary span { overflow: hidden; text-overflow: ellipsis; white-space: nowrap } .n { text-align: right }
.client .who, .client .name { color: var(--client) }
.agent .who, .agent .name { color: var(--agent) } .stderr { opacity: .75 }
.error .said, .exit .said, .lost .said { color: var(--bad) }
.fault { color: var(--warn); margin: 0 0 .2rem 8.5rem }
pre { margin: .3rem 0 .8rem 8.5rem; white-space: pre-wrap; overflow-wrap: anywhere }
[hidden] { display: none }
.session { opacity: .65 }
@media (max-width: 60rem) { summary { grid-template-columns: 4.5rem 1rem 1fr }
 .took, .size { display: none } .said { grid-column: 3; white-space: normal } .fault, pre { margin-left: 0 } }
</style></head><body>
<h1>%s</h1>
<form onsubmit="return false">
<label>method <input id="method" list="methods" placeholder="session/*"></label>
<label>session <input id="session"></label>
<label>text <input id="text"></label>
<label>from <select id="from">
<option value="">all</option><option>client</option><option>agent</option>
<option>stderr</option></select></label>
<label><input type="checkbox" id="faults"> only what breaks a rule</label> <output id="count"></output>
</form>
"""
_TAIL: Final = """<script>
const $ = id => document.getElementById(id), rows = [...document.querySelectorAll(".step")];
function filter() {
  const glob = $("method").value.trim(), session = $("session").value.trim(), from = $("from").value;
  const text = $("text").value.toLowerCase(), faults = $("faults").checked;
  const wanted = glob &&
    new RegExp("^" + glob.replace(/[.+^${}()|[\\]\\\\]/g, "\\\\$&")
      .replace(/\\*/g, ".*").replace(/\\?/g, "."));
  let shown = 0;
  for (const row of rows) {
    const data = row.dataset;
    const fits = (!wanted || wanted.test(data.method)) && (!session || data.session.includes(session))
      && (!from || data.from === from)
      && (!faults || "faults" in data) && (!text || row.textContent.toLowerCase().includes(text));
    row.hidden = !fits;
    shown += fits;
  }
  $("count").textContent = shown + " of " + rows.length;
}
// A link can contain the filter: #method=session/*&faults=1
const params = new URLSearchParams(location.hash.slice(1));
for (const id of ["method", "session", "text", "from", "faults"]) {
  if (params.has(id)) id === "faults" ? $(id).checked = true : $(id).value = params.get(id);
  $(id).addEventListener("input", filter);
}
filter();
</script></body></html>
"""


def html_page(
    title: str,
    steps: Iterable[tuple[int, TraceStart | TraceStep]],
    unanswered_calls: Callable[[], list[tuple[int, TraceStep, TraceFault]]],
) -> Iterator[str]:
    """Yield the page piece by piece. `unanswered_calls` is called after the last step."""
    escaped_title = escape(escape_controls(title))
    yield _HEAD % (escaped_title, escaped_title)
    methods: set[str] = set()
    for number, step in steps:
        if isinstance(step, TraceStart):
            began = start_time(step)
            started = f"{began:%Y-%m-%d %H:%M:%S %Z}" if began else step.started
            redaction_note = "" if step.redacted else " · not redacted"
            recorded_by = escape_controls(" ".join(step.command) or step.by)
            yield f"<h2>run {number} · {escape(started)} · {escape(recorded_by)}{redaction_note}</h2>\n"
        else:
            methods.add(step.method)
            yield _html_row(step)
    unanswered = unanswered_calls()
    if unanswered:
        yield "<h2>never answered</h2>\n"
    for number, step, fault in unanswered:
        yield f'<div class="fault">! run {number}, {step.entry.at:.3f}: {_escape_html(str(fault))}</div>\n'
    options = "".join(
        f'<option value="{escape(escape_controls(method))}">' for method in sorted(methods) if method
    )
    yield f'<datalist id="methods">{options}</datalist>\n'
    yield _TAIL


def _html_row(step: TraceStep) -> str:
    entry = step.entry
    name = step.method or ("no message" if step.kind == "noise" else step.kind)
    has_data = entry.kind in ("frame", "cut", "stderr")
    if step.message is not None:
        body = json.dumps(step.message, indent=2, ensure_ascii=False)
    else:
        body = entry.text if has_data else ""
    session = f'<span class="session">[{_escape_html(step.session[-6:])}]</span> ' if step.session else ""
    cells = (
        f'<span class="n">{entry.at:.3f}</span>',
        f'<span class="who">{_ARROWS.get(entry.sender or "", "×") if has_data else "×"}</span>',
        f'<span class="name">{_escape_html(name + (" =" if step.kind in ("answer", "error") else ""))}'
        f"{_escape_html(f' #{step.id}') if step.id is not None else ''}</span>",
        f'<span class="n took">{"" if step.duration is None else format_duration(step.duration)}</span>',
        f'<span class="n size">{format_size(entry.size) if has_data else ""}</span>',
        f'<span class="said">{session}{_escape_html(cut_to_width(summarize_step(step), 300))}</span>',
    )
    faults = "".join(f'<div class="fault">! {_escape_html(str(fault))}</div>' for fault in step.faults)
    data = (
        f'data-method="{_escape_html(step.method)}" data-session="{_escape_html(step.session)}" '
        f'data-from="{entry.sender or ""}"'
        f"{' data-faults=1' if step.faults else ''}"
    )
    full_message = f"<pre>{escape(escape_lines(body))}</pre>" if body else ""
    return (
        f'<div class="step {entry.sender or ""} {step.kind}" {data}>'
        f"<details><summary>{''.join(cells)}</summary>{full_message}</details>{faults}</div>\n"
    )


def _escape_html(text: str) -> str:
    return escape(escape_controls(text))
