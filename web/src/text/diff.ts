/** Two texts as rows of a diff: one below the other, or side by side, with the changed words marked. */
import { diffWordsWithSpace, structuredPatch } from "diff";

export interface Part {
  text: string;
  changed: boolean;
}

export interface Row {
  kind: "same" | "added" | "removed" | "gap";
  oldLine: number | null;
  newLine: number | null;
  parts: Part[];
}

export interface Pair {
  left: Row | null;
  right: Row | null;
}

export interface Difference {
  rows: Row[];
  added: number;
  removed: number;
  /** The texts are too far apart to compare in reasonable time; all of the old is shown as removed. */
  coarse: boolean;
}

const CONTEXT = 3;
const PATIENCE = 400;

export function difference(oldText: string | null, newText: string): Difference {
  const before = oldText ?? "";
  if (before === "" && newText === "") return { rows: [], added: 0, removed: 0, coarse: false };
  const patch = structuredPatch("", "", before, newText, "", "", { context: CONTEXT, timeout: PATIENCE });
  if (!patch) return coarse(before, newText);
  const rows: Row[] = [];
  let end = 0;
  for (const hunk of patch.hunks) {
    if (hunk.oldStart > end + 1 && (rows.length > 0 || hunk.oldStart > 1)) rows.push({ kind: "gap", oldLine: null, newLine: null, parts: [] });
    let old = hunk.oldStart;
    let now = hunk.newStart;
    for (const line of hunk.lines) {
      const text = line.slice(1);
      if (line.startsWith("+")) rows.push(row("added", null, now++, text));
      else if (line.startsWith("-")) rows.push(row("removed", old++, null, text));
      else if (line.startsWith(" ")) rows.push(row("same", old++, now++, text));
    }
    end = old - 1;
  }
  markWords(rows);
  return counted(rows, false);
}

/** Rows side by side: a run of removed lines stands beside the run of added ones that replaces it. */
export function sideBySide(rows: readonly Row[]): Pair[] {
  const pairs: Pair[] = [];
  for (const [removed, added, other] of runs(rows)) {
    for (let index = 0; index < Math.max(removed.length, added.length); index += 1) {
      pairs.push({ left: removed[index] ?? null, right: added[index] ?? null });
    }
    if (other) pairs.push({ left: other, right: other });
  }
  return pairs;
}

function* runs(rows: readonly Row[]): Generator<[Row[], Row[], Row | null]> {
  let removed: Row[] = [];
  let added: Row[] = [];
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

function markWords(rows: Row[]): void {
  for (const [removed, added] of runs(rows)) {
    if (removed.length !== added.length) continue;
    removed.forEach((left, index) => {
      const right = added[index];
      const one = left.parts[0]?.text ?? "";
      const other = right?.parts[0]?.text ?? "";
      if (!right || one.length + other.length > 1000) return;
      const words = diffWordsWithSpace(one, other);
      const kept = words.filter((word) => !word.added && !word.removed).reduce((sum, word) => sum + word.value.trim().length, 0);
      // Lines with little in common are clearer without marks.
      if (kept * 3 < Math.max(one.trim().length, other.trim().length)) return;
      left.parts = words.filter((word) => !word.added).map((word) => ({ text: word.value, changed: word.removed }));
      right.parts = words.filter((word) => !word.removed).map((word) => ({ text: word.value, changed: word.added }));
    });
  }
}

function row(kind: Row["kind"], oldLine: number | null, newLine: number | null, text: string): Row {
  return { kind, oldLine, newLine, parts: [{ text, changed: false }] };
}

function coarse(before: string, after: string): Difference {
  const rows = lines(before).map((text, index) => row("removed", index + 1, null, text));
  lines(after).forEach((text, index) => rows.push(row("added", null, index + 1, text)));
  return counted(rows, true);
}

function lines(text: string): string[] {
  return text === "" ? [] : text.replace(/\n$/, "").split("\n");
}

function counted(rows: Row[], coarseOne: boolean): Difference {
  return {
    rows,
    added: rows.filter((item) => item.kind === "added").length,
    removed: rows.filter((item) => item.kind === "removed").length,
    coarse: coarseOne,
  };
}
