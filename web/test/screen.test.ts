/** Terminal output, read off xterm.js. */
import { expect, test } from "vitest";
import { forTerminal, Screen } from "../src/text/screen.ts";

const texts = (lines: Awaited<ReturnType<Screen["show"]>>) => lines.map((runs) => runs.map((run) => run.text).join(""));

test("colours become classes, of the page's own palette", async () => {
  const [runs] = await new Screen().show("plain \u001b[1;31mred\u001b[0m \u001b[48;5;196mwide\u001b[0m \u001b[38;2;1;2;3mtrue\u001b[0m\n");
  expect(runs?.map((run) => [run.text, run.classes, run.color, run.background])).toEqual([
    ["plain ", "", null, null],
    ["red", "t-bold t-f1", null, null],
    [" ", "", null, null],
    ["wide", "", null, "rgb(255 0 0)"],
    [" ", "", null, null],
    ["true", "", "#010203", null],
  ]);
});

test("carriage returns overwrite, long lines stay one line, only what is new is written", async () => {
  const screen = new Screen();
  const long = "x".repeat(500);
  expect(texts(await screen.show("10%\r100%\n"))).toEqual(["100%"]);
  expect(texts(await screen.show(`10%\r100%\n${long}\n`))).toEqual(["100%", long]);
  expect(texts(await screen.show("cut off\n"))).toEqual(["cut off"]);
});

test("wide characters and hostile sequences come out as text", async () => {
  expect(texts(await new Screen().show("日本 ok\u001b]0;title\u0007\u001b]8;;javascript:alert(1)\u0007link\u001b]8;;\u0007\n<script>"))).toEqual(["日本 oklink", "<script>"]);
  expect([forTerminal("\u001b[31mx"), forTerminal("a\r\nb"), forTerminal("a\rb")]).toEqual([true, false, true]);
});
