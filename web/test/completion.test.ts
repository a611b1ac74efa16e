/** What the caret completes, and what a prompt is made of. */
import { expect, test } from "vitest";
import { completed, completing, ranked } from "../src/state/completion.ts";
import { blocks, mention } from "../src/state/mentions.ts";

test("a command only at the start, a file after a gap", () => {
  expect(completing("/re", 3)).toMatchObject({ kind: "command", query: "re", start: 0 });
  expect(completing("see /re", 7)).toBeNull();
  expect(completing("see @src/a", 10)).toMatchObject({ kind: "file", query: "src/a", start: 4 });
  expect(completing("mail a@b", 8)).toBeNull();
  expect(completing("@a b", 4)).toBeNull();
});

test("the word is replaced and the caret stands behind it", () => {
  const word = completing("see @sr now", 7);
  expect(word && completed("see @sr now", word, "@src/a.py")).toEqual({ text: "see @src/a.py now", caret: 14 });
  const last = completing("/he", 3);
  expect(last && completed("/he", last, "/help")).toEqual({ text: "/help ", caret: 6 });
});

test("beginnings come before middles, middles before letters in order", () => {
  expect(ranked(["compact", "act", "a-c-t", "zzz"], "act", (name) => name)).toEqual(["act", "compact", "a-c-t"]);
});

test("a prompt brings the files it still names, and pictures", () => {
  const chosen = new Map([["@src/a b.py", "/w/src/a b.py"], ["@gone.py", "/w/gone.py"]]);
  expect(mention("/w/src/x.py", "/w")).toBe("@src/x.py");
  expect(mention("/w/a b.py", "/w")).toBe('@"a b.py"');
  expect(blocks("look at @src/a b.py", chosen, [{ type: "image", data: "", mimeType: "image/png" }])).toEqual([
    { type: "text", text: "look at @src/a b.py" },
    { type: "resource_link", uri: "file:///w/src/a%20b.py", name: "a b.py" },
    { type: "image", data: "", mimeType: "image/png" },
  ]);
});
