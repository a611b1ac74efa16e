/** Compares two texts: rows for a unified or a side-by-side diff, with changed words marked. */
import { diffWordsWithSpace, structuredPatch } from "diff";
import type { ColoredText } from "./highlight.ts";

export interface DiffSpan {
  text: string;
  changed: boolean;
}

/** A part of a line with its color and whether it changed. */
export interface ColoredSpan extends DiffSpan {
  classes: string;
}

export interface DiffRow {
  kind: "same" | "added" | "removed" | "gap";
  oldLine: number | null;
  newLine: number | null;
  spans: DiffSpan[];
}

/** Two rows side by side. */
export interface DiffRowPair {
  left: DiffRow | null;
  right: DiffRow | null;
}

export interface TextDiff {
  rows: DiffRow[];
  added: number;
  removed: number;
  /** The comparison took too long, so all old lines count as removed and all new lines as added. */
  timedOut: boolean;
}

const CONTEXT_LINES = 3;
const TIMEOUT_MS = 400;

export function diffTexts(oldText: string | null, newText: string): TextDiff {
  const before = oldText ?? "";
  if (before === "" && newText === "") return { rows: [], added: 0, removed: 0, timedOut: false };
  const patch = structuredPatch("", "", before, newText, "", "", {
    context: CONTEXT_LINES,
    timeout: TIMEOUT_MS,
  });
  if (!patch) return replaceAll(before, newText);
  const rows: DiffRow[] = [];
  let end = 0;
  for (const hunk of patch.hunks) {
    if (hunk.oldStart > end + 1 && (rows.length > 0 || hunk.oldStart > 1))
      rows.push({ kind: "gap", oldLine: null, newLine: null, spans: [] });
    let old = hunk.oldStart;
    let current = hunk.newStart;
    for (const line of hunk.lines) {
      const text = line.slice(1);
      if (line.startsWith("+")) rows.push(newRow("added", null, current++, text));
      else if (line.startsWith("-")) rows.push(newRow("removed", old++, null, text));
      else if (line.startsWith(" ")) rows.push(newRow("same", old++, current++, text));
    }
    end = old - 1;
  }
  markWords(rows);
  return withCounts(rows, false);
}

/** Pairs rows for a side-by-side diff. Removed lines are next to the added lines that replace them. */
export function sideBySide(rows: readonly DiffRow[]): DiffRowPair[] {
  const pairs: DiffRowPair[] = [];
  for (const [removed, added, other] of changeGroups(rows)) {
    for (let index = 0; index < Math.max(removed.length, added.length); index += 1) {
      pairs.push({ left: removed[index] ?? null, right: added[index] ?? null });
    }
    if (other) pairs.push({ left: other, right: other });
  }
  return pairs;
}

/** Splits rows into removed lines, the added lines that follow, and the next other row. */
function* changeGroups(rows: readonly DiffRow[]): Generator<[DiffRow[], DiffRow[], DiffRow | null]> {
  let removed: DiffRow[] = [];
  let added: DiffRow[] = [];
  for (const item of rows) {
    if (item.kind === "removed" && added.length === 0) removed.push(item);
    else if (item.kind === "added") added.push(item);
    else {
      if (item.kind === "removed") {
        yield [removed, added, null];
        removed = [item];
      } else {
        yield [removed, added, item];
        removed = [];
      }
      added = [];
    }
  }
  yield [removed, added, null];
}

/** Marks the words that differ between removed lines and the lines that replace them. */
export function markWords(rows: DiffRow[]): void {
  for (const [removed, added] of changeGroups(rows)) {
    if (removed.length !== added.length) continue;
    removed.forEach((left, index) => {
      const right = added[index];
      const one = left.spans[0]?.text ?? "";
      const other = right?.spans[0]?.text ?? "";
      if (!right || one.length + other.length > 1000) return;
      const words = diffWordsWithSpace(one, other);
      const common = words
        .filter((word) => !word.added && !word.removed)
        .reduce((sum, word) => sum + word.value.trim().length, 0);
      // Lines with little in common are easier to read without marks.
      if (common * 3 < Math.max(one.trim().length, other.trim().length)) return;
      left.spans = words
        .filter((word) => !word.added)
        .map((word) => ({ text: word.value, changed: word.removed }));
      right.spans = words
        .filter((word) => !word.removed)
        .map((word) => ({ text: word.value, changed: word.added }));
    });
  }
}

/** The spans of a line, divided where its colors change. Colors of another text are ignored. */
export function coloredSpans(spans: readonly DiffSpan[], colors: readonly ColoredText[]): ColoredSpan[] {
  const text = spans.map((span) => span.text).join("");
  if (colors.map((color) => color.text).join("") !== text)
    return spans.map((span) => ({ ...span, classes: "" }));
  const result: ColoredSpan[] = [];
  const rest = colors.map((color) => ({ ...color }));
  for (const span of spans) {
    let left = span.text;
    for (let color = rest[0]; left !== "" && color; color = rest[0]) {
      const part = left.slice(0, color.text.length);
      result.push({ text: part, changed: span.changed, classes: color.classes });
      left = left.slice(part.length);
      color.text = color.text.slice(part.length);
      if (color.text === "") rest.shift();
    }
  }
  return result;
}

function newRow(
  kind: DiffRow["kind"],
  oldLine: number | null,
  newLine: number | null,
  text: string,
): DiffRow {
  return { kind, oldLine, newLine, spans: [{ text, changed: false }] };
}

function replaceAll(before: string, after: string): TextDiff {
  const rows = lines(before).map((text, index) => newRow("removed", index + 1, null, text));
  lines(after).forEach((text, index) => rows.push(newRow("added", null, index + 1, text)));
  return withCounts(rows, true);
}

function lines(text: string): string[] {
  return text === "" ? [] : text.replace(/\n$/, "").split("\n");
}

function withCounts(rows: DiffRow[], timedOut: boolean): TextDiff {
  return {
    rows,
    added: rows.filter((item) => item.kind === "added").length,
    removed: rows.filter((item) => item.kind === "removed").length,
    timedOut,
  };
}
