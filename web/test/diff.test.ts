/** Diffs of two texts. */
import { expect, test } from "vitest";
import { coloredSpans, diffTexts, sideBySide, type DiffRow } from "../src/text/diff.ts";
import { highlightLines } from "../src/text/highlight.ts";

const line = (row: DiffRow | null) =>
  row
    ? `${row.kind[0]} ${row.spans.map((span) => (span.changed ? `[${span.text}]` : span.text)).join("")}`
    : "-";

test("marks the changed words of changed lines", () => {
  const diff = diffTexts("a\nx = old\nz\n", "a\nx = new\nz\n");
  expect(diff.rows.map(line)).toEqual(["s a", "r x = [old]", "a x = [new]", "s z"]);
  expect([diff.added, diff.removed]).toEqual([1, 1]);
  expect(diff.rows.map((row) => [row.oldLine, row.newLine])).toEqual([
    [1, 1],
    [2, null],
    [null, 2],
    [3, 3],
  ]);
});

test("pairs removed lines with the added lines that replace them", () => {
  const pairs = sideBySide(diffTexts("a\nb\nc\nd\n", "a\nB\nC\nC2\nd\n").rows);
  expect(pairs.map((pair) => [line(pair.left), line(pair.right)])).toEqual([
    ["s a", "s a"],
    ["r b", "a B"],
    ["r c", "a C"],
    ["-", "a C2"],
    ["s d", "s d"],
  ]);
});

test("handles new files, emptied files and equal texts", () => {
  expect(diffTexts(null, "a\nb\n").rows.map(line)).toEqual(["a a", "a b"]);
  expect(diffTexts("a\n", "").rows.map(line)).toEqual(["r a"]);
  expect(diffTexts("a\n", "a\n").rows).toEqual([]);
  expect(diffTexts("", "").rows).toEqual([]);
});

test("puts a gap between distant changes", () => {
  const many = Array.from({ length: 40 }, (_, index) => `line ${index}`);
  const changed = many.with(2, "early").with(37, "late");
  const kinds = diffTexts(many.join("\n"), changed.join("\n")).rows.map((row) => row.kind);
  const change = ["removed", "added"];
  const context = ["same", "same", "same"];
  expect(kinds).toEqual([
    "same",
    "same",
    ...change,
    ...context,
    "gap",
    ...context,
    ...change,
    "same",
    "same",
  ]);
});

test("keeps markup as text", () => {
  expect(diffTexts("<b>\n", "<script>\n").rows.map(line)).toEqual(["r <b>", "a <script>"]);
});

test("a line is divided where its colors and its changed words begin", () => {
  const spans = [
    { text: "print(", changed: false },
    { text: "old_name", changed: true },
    { text: ")", changed: false },
  ];
  const colors = [
    { text: "print", classes: "hljs-built_in" },
    { text: "(old_", classes: "" },
    { text: "name)", classes: "hljs-title" },
  ];
  expect(coloredSpans(spans, colors)).toEqual([
    { text: "print", changed: false, classes: "hljs-built_in" },
    { text: "(", changed: false, classes: "" },
    { text: "old_", changed: true, classes: "" },
    { text: "name", changed: true, classes: "hljs-title" },
    { text: ")", changed: false, classes: "hljs-title" },
  ]);
  // Colors of a text that the line does not have are left out.
  expect(coloredSpans(spans, [{ text: "print", classes: "x" }])).toEqual(
    spans.map((span) => ({ ...span, classes: "" })),
  );
});

test("lines keep colors that begin in an earlier line", async () => {
  const lines = await highlightLines('x = """a\nb"""\n', "py");
  expect(lines?.map((line) => line.map((part) => part.text).join(""))).toEqual(['x = """a', 'b"""', ""]);
  expect(lines?.[1]?.[0]?.classes).toBe("hljs-string");
  expect(await highlightLines("x", "unknown")).toBe(null);
});
