"""A recording as one page of HTML that needs nothing else: a row a step, each opening to the whole message.

It reads without scripts; the one in it only filters.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from html import escape
from typing import Final

from accord.trace.exchange import Fault, Step
from accord.trace.filters import began_at
from accord.trace.lines import Start
from accord.trace.summary import clean, clean_lines, cut, duration, size, summary

_HEAD: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>%s</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<style>
:root { color-scheme: light dark; --line: #8884; --client: #0a7ea4; --agent: #2b8a3e; --bad: #c92a2a; --warn: #b35c00 }
@media (prefers-color-scheme: dark) { :root { --client: #4cc3e8; --agent: #69d07f; --bad: #ff8787; --warn: #ffb057 } }
body { font: 14px/1.45 ui-monospace, Menlo, Consolas, monospace; margin: 0 auto; max-width: 90rem; padding: 1rem }
h1 { font-size: 1.1rem } h2 { font-size: 1rem; margin: 1.5rem 0 .3rem }
form { position: sticky; top: 0; background: Canvas; padding: .5rem 0; display: flex; gap: .6rem; flex-wrap: wrap; z-index: 1 }
input, select { font: inherit; padding: .15rem .4rem }
details { border-top: 1px solid var(--line) } summary { display: grid; grid-template-columns: 6rem 1.5rem 20rem 5rem 5rem 1fr; gap: 0 .6rem; cursor: pointer; list-style: none; padding: .1rem 0 }
summary span { overflow: hidden; text-overflow: ellipsis; white-space: nowrap } .n { text-align: right }
.client .who, .client .name { color: var(--client) } .agent .who, .agent .name { color: var(--agent) } .stderr { opacity: .75 }
.error .said, .exit .said, .lost .said { color: var(--bad) } .fault { color: var(--warn); margin: 0 0 .2rem 8.5rem }
pre { margin: .3rem 0 .8rem 8.5rem; white-space: pre-wrap; overflow-wrap: anywhere } [hidden] { display: none }
.session { opacity: .65 }
@media (max-width: 60rem) { summary { grid-template-columns: 4.5rem 1rem 1fr } .took, .size { display: none } .said { grid-column: 3; white-space: normal } .fault, pre { margin-left: 0 } }
</style></head><body>
<h1>%s</h1>
<form onsubmit="return false">
<label>method <input id="method" list="methods" placeholder="session/*"></label>
<label>session <input id="session"></label>
<label>text <input id="text"></label>
<label>from <select id="from"><option value="">all</option><option>client</option><option>agent</option><option>stderr</option></select></label>
<label><input type="checkbox" id="faults"> only what breaks a rule</label> <output id="count"></output>
</form>
"""
_TAIL: Final = """<script>
const $ = id => document.getElementById(id), rows = [...document.querySelectorAll(".step")];
function filter() {
  const glob = $("method").value.trim(), session = $("session").value.trim(), from = $("from").value;
  const text = $("text").value.toLowerCase(), faults = $("faults").checked;
  const wanted = glob && new RegExp("^" + glob.replace(/[.+^${}()|[\\]\\\\]/g, "\\\\$&").replace(/\\*/g, ".*").replace(/\\?/g, "."));
  let shown = 0;
  for (const row of rows) {
    const data = row.dataset;
    const fits = (!wanted || wanted.test(data.method)) && (!session || data.session.includes(session)) && (!from || data.from === from)
      && (!faults || "faults" in data) && (!text || row.textContent.toLowerCase().includes(text));
    row.hidden = !fits;
    shown += fits;
  }
  $("count").textContent = shown + " of " + rows.length;
}
// What is looked for can be in the address, so that a link leads to it: #method=session/*&faults=1
const asked = new URLSearchParams(location.hash.slice(1));
for (const id of ["method", "session", "text", "from", "faults"]) {
  if (asked.has(id)) id === "faults" ? $(id).checked = true : $(id).value = asked.get(id);
  $(id).addEventListener("input", filter);
}
filter();
</script></body></html>
"""
_ARROWS: Final = {"client": "→", "agent": "←", "stderr": "·"}


def page(
    title: str, steps: Iterable[tuple[int, Start | Step]], owed: Callable[[], list[tuple[int, Step, Fault]]]
) -> Iterator[str]:
    """The page in pieces; `owed` is asked in the end for what was never answered."""
    shown = escape(clean(title))
    yield _HEAD % (shown, shown)
    methods: set[str] = set()
    for number, one in steps:
        if isinstance(one, Start):
            began = began_at(one)
            when = f"{began:%Y-%m-%d %H:%M:%S %Z}" if began else one.started
            secrets = "" if one.redacted else " · secrets are in it"
            what = clean(" ".join(one.command) or one.by)
            yield f"<h2>run {number} · {escape(when)} · {escape(what)}{secrets}</h2>\n"
        else:
            methods.add(one.method)
            yield _row(one)
    missing = owed()
    if missing:
        yield "<h2>never answered</h2>\n"
    for number, step, fault in missing:
        yield f'<div class="fault">! run {number}, {step.entry.at:.3f}: {_text(str(fault))}</div>\n'
    options = "".join(f'<option value="{escape(clean(method))}">' for method in sorted(methods) if method)
    yield f'<datalist id="methods">{options}</datalist>\n'
    yield _TAIL


def _row(step: Step) -> str:
    entry = step.entry
    name = step.method or ("no message" if step.kind == "noise" else step.kind)
    crossed = entry.kind in ("frame", "cut", "stderr")
    if step.message is not None:
        body = json.dumps(step.message, indent=2, ensure_ascii=False)
    else:
        body = entry.text if crossed else ""
    session = f'<span class="session">[{_text(step.session[-6:])}]</span> ' if step.session else ""
    cells = (
        f'<span class="n">{entry.at:.3f}</span>',
        f'<span class="who">{_ARROWS.get(entry.sender or "", "×") if crossed else "×"}</span>',
        f'<span class="name">{_text(name + (" =" if step.kind in ("answer", "error") else ""))}'
        f"{_text(f' #{step.id}') if step.id is not None else ''}</span>",
        f'<span class="n took">{"" if step.took is None else duration(step.took)}</span>',
        f'<span class="n size">{size(entry.size) if crossed else ""}</span>',
        f'<span class="said">{session}{_text(cut(summary(step), 300))}</span>',
    )
    faults = "".join(f'<div class="fault">! {_text(str(fault))}</div>' for fault in step.faults)
    data = (
        f'data-method="{_text(step.method)}" data-session="{_text(step.session)}" data-from="{entry.sender or ""}"'
        f"{' data-faults=1' if step.faults else ''}"
    )
    whole = f"<pre>{escape(clean_lines(body))}</pre>" if body else ""
    return (
        f'<div class="step {entry.sender or ""} {step.kind}" {data}><details><summary>{"".join(cells)}</summary>{whole}</details>'
        f"{faults}</div>\n"
    )


def _text(text: str) -> str:
    return escape(clean(text))
