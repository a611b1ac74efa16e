/** Completion of commands and files, and the content blocks of a prompt. */
import { expect, test } from "vitest";
import {
  applyCompletion,
  completionQuery,
  fileMention,
  promptBlocks,
  rankMatches,
} from "../src/state/prompt-input.ts";

test("completes commands at the start and files after a space", () => {
  expect(completionQuery("/re", 3)).toMatchObject({ kind: "command", query: "re", start: 0 });
  expect(completionQuery("see /re", 7)).toBeNull();
  expect(completionQuery("see @src/a", 10)).toMatchObject({ kind: "file", query: "src/a", start: 4 });
  expect(completionQuery("mail a@b", 8)).toBeNull();
  expect(completionQuery("@a b", 4)).toBeNull();
});

test("applies a completion and puts the cursor behind it", () => {
  const word = completionQuery("see @sr now", 7);
  expect(word && applyCompletion("see @sr now", word, "@src/a.py")).toEqual({
    text: "see @src/a.py now",
    cursor: 14,
  });
  const last = completionQuery("/he", 3);
  expect(last && applyCompletion("/he", last, "/help")).toEqual({ text: "/help ", cursor: 6 });
});

test("ranks prefixes before substrings, and substrings before letters in order", () => {
  expect(rankMatches(["compact", "act", "a-c-t", "zzz"], "act", (name) => name)).toEqual([
    "act",
    "compact",
    "a-c-t",
  ]);
});

test("builds blocks from the text, the files it still mentions and the images", () => {
  const mentions = new Map([
    ["@src/a b.py", "/w/src/a b.py"],
    ["@gone.py", "/w/gone.py"],
  ]);
  expect(fileMention("/w/src/x.py", "/w")).toBe("@src/x.py");
  expect(fileMention("/w/a b.py", "/w")).toBe('@"a b.py"');
  expect(
    promptBlocks("look at @src/a b.py", mentions, [{ type: "image", data: "", mimeType: "image/png" }]),
  ).toEqual([
    { type: "text", text: "look at @src/a b.py" },
    { type: "resource_link", uri: "file:///w/src/a%20b.py", name: "a b.py" },
    { type: "image", data: "", mimeType: "image/png" },
  ]);
});
