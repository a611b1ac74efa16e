/** Terminal output as styled text. */
import { expect, test } from "vitest";
import { hasTerminalCodes, TerminalScreen } from "../src/text/terminal-screen.ts";

const texts = (lines: Awaited<ReturnType<TerminalScreen["show"]>>) =>
  lines.map((spans) => spans.map((span) => span.text).join(""));

test("maps palette colors to classes and other colors to CSS", async () => {
  const [spans] = await new TerminalScreen().show(
    "plain \u001b[1;31mred\u001b[0m \u001b[48;5;196mwide\u001b[0m \u001b[38;2;1;2;3mtrue\u001b[0m\n",
  );
  expect(spans?.map((span) => [span.text, span.classes, span.color, span.background])).toEqual([
    ["plain ", "", null, null],
    ["red", "ansi-bold ansi-fg1", null, null],
    [" ", "", null, null],
    ["wide", "", null, "rgb(255 0 0)"],
    [" ", "", null, null],
    ["true", "", "#010203", null],
  ]);
});

test("handles carriage returns, long lines, growing and truncated output", async () => {
  const screen = new TerminalScreen();
  const long = "x".repeat(500);
  expect(texts(await screen.show("10%\r100%\n"))).toEqual(["100%"]);
  expect(texts(await screen.show(`10%\r100%\n${long}\n`))).toEqual(["100%", long]);
  expect(texts(await screen.show("cut off\n"))).toEqual(["cut off"]);
});

test("shows wide characters and ignores hostile sequences", async () => {
  expect(
    texts(
      await new TerminalScreen().show(
        "日本 ok\u001b]0;title\u0007\u001b]8;;javascript:alert(1)\u0007link\u001b]8;;\u0007\n<script>",
      ),
    ),
  ).toEqual(["日本 oklink", "<script>"]);
  expect([hasTerminalCodes("\u001b[31mx"), hasTerminalCodes("a\r\nb"), hasTerminalCodes("a\rb")]).toEqual([
    true,
    false,
    true,
  ]);
});
