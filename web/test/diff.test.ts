/** Two texts, as rows. */
import { expect, test } from "vitest";
import { difference, sideBySide, type Row } from "../src/text/diff.ts";

const line = (row: Row | null) => (row ? `${row.kind[0]} ${row.parts.map((part) => (part.changed ? `[${part.text}]` : part.text)).join("")}` : "-");

test("changed lines stand below each other with the changed words marked", () => {
  const diff = difference("a\nx = old\nz\n", "a\nx = new\nz\n");
  expect(diff.rows.map(line)).toEqual(["s a", "r x = [old]", "a x = [new]", "s z"]);
  expect([diff.added, diff.removed]).toEqual([1, 1]);
  expect(diff.rows.map((row) => [row.oldLine, row.newLine])).toEqual([[1, 1], [2, null], [null, 2], [3, 3]]);
});

test("side by side, a removed run stands beside the added one", () => {
  const pairs = sideBySide(difference("a\nb\nc\nd\n", "a\nB\nC\nC2\nd\n").rows);
  expect(pairs.map((pair) => [line(pair.left), line(pair.right)])).toEqual([
    ["s a", "s a"],
    ["r b", "a B"],
    ["r c", "a C"],
    ["-", "a C2"],
    ["s d", "s d"],
  ]);
});

test("a new file is all added, an emptied one all removed, equal texts have no rows", () => {
  expect(difference(null, "a\nb\n").rows.map(line)).toEqual(["a a", "a b"]);
  expect(difference("a\n", "").rows.map(line)).toEqual(["r a"]);
  expect(difference("a\n", "a\n").rows).toEqual([]);
  expect(difference("", "").rows).toEqual([]);
});

test("what lies far apart is joined by a gap", () => {
  const many = Array.from({ length: 40 }, (_, index) => `line ${index}`);
  const changed = many.with(2, "early").with(37, "late");
  const kinds = difference(many.join("\n"), changed.join("\n")).rows.map((row) => row.kind);
  const changedOne = ["removed", "added"];
  const three = ["same", "same", "same"];
  expect(kinds).toEqual(["same", "same", ...changedOne, ...three, "gap", ...three, ...changedOne, "same", "same"]);
});

test("markup in a file is text", () => {
  expect(difference("<b>\n", "<script>\n").rows.map(line)).toEqual(["r <b>", "a <script>"]);
});
