/** Growing Markdown: what is finished is not read again, and in the end it is the same as at once. */
import { expect, test } from "vitest";
import { Blocks, render } from "../src/text/markdown.ts";

const TEXT = "# Title\n\nA paragraph\nof two lines.\n\n- one\n- two\n\n  still two\n\n```py\nx = 1\n\ny = 2\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nEnd.\n";

test("character by character gives the blocks of the whole", () => {
  const growing = new Blocks();
  for (let end = 1; end < TEXT.length; end += 1) growing.read(TEXT.slice(0, end));
  const raws = growing.read(TEXT).map((block) => block.raw);
  expect(raws).toEqual(new Blocks().read(TEXT).map((block) => block.raw));
  expect(raws.join("")).toBe(TEXT);
});

test("finished blocks stay the same objects", () => {
  const growing = new Blocks();
  const before = growing.read("One.\n\nTwo.\n\nThree");
  const after = growing.read("One.\n\nTwo.\n\nThree and more\n\nFour");
  expect(after[0]).toBe(before[0]);
  expect(after[1]).toBe(before[1]);
  expect(after).toHaveLength(4);
});

test("code says its language, also while its fence is open", () => {
  const [block] = new Blocks().read("```TypeScript title=x\nlet a");
  expect(block?.code).toEqual({ language: "typescript", text: "let a" });
});

test("another text begins anew; tabs lose nothing", () => {
  const blocks = new Blocks();
  blocks.read("One.\n\nTwo.");
  const read = blocks.read("Else\n\n\tcode\n");
  expect(read.map((block) => block.raw).join("")).toBe("Else\n\n\tcode\n");
});

test("line ends of another system make the same blocks, also where one comes in two halves", () => {
  const growing = new Blocks();
  const other = TEXT.replaceAll("\n", "\r\n");
  for (let end = 1; end < other.length; end += 1) growing.read(other.slice(0, end));
  expect(growing.read(other)).toEqual(new Blocks().read(TEXT));
});

test("a link may be defined after, and in another block than, the text that names it", () => {
  const blocks = new Blocks();
  const [named] = blocks.read("See [the docs][1], [evil].\n\n");
  const before = blocks.links;
  expect(render(named?.raw ?? "", before)).not.toContain("<a");
  blocks.read("See [the docs][1], [evil].\n\n[1]: https://example.com/docs\n[evil]: javascript:alert(1)\n");
  expect(blocks.links).not.toBe(before);
  const html = render(named?.raw ?? "", blocks.links);
  expect(html).toContain('href="https://example.com/docs"');
  expect(html).not.toContain('href="javascript:');
});
