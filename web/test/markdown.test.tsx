/** Markdown: blocks of a growing text, link definitions, and rendering in steps. */
import { render } from "preact";
import { act } from "preact/test-utils";
import { expect, test, vi } from "vitest";
import { MarkdownBlocks, renderMarkdown } from "../src/text/markdown.ts";
import { showFormulas } from "../src/text/math.ts";
import { Markdown } from "../src/ui/ContentBlocks.tsx";

const TEXT =
  "# Title\n\nA paragraph\nof two lines.\n\n- one\n- two\n\n  still two\n\n" +
  "```py\nx = 1\n\ny = 2\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nEnd.\n";

test("splits a text that grows by characters like the whole text", () => {
  const growing = new MarkdownBlocks();
  for (let end = 1; end < TEXT.length; end += 1) growing.read(TEXT.slice(0, end));
  const raws = growing.read(TEXT).map((block) => block.raw);
  expect(raws).toEqual(new MarkdownBlocks().read(TEXT).map((block) => block.raw));
  expect(raws.join("")).toBe(TEXT);
});

test("parses a block of 10,000 chunks without a blank line only a few times", () => {
  const growing = new MarkdownBlocks();
  const parsed = new Set<number>();
  let text = "";
  for (let chunk = 0; chunk < 10_000; chunk += 1) {
    text += `word ${chunk} and *more* `;
    if (chunk % 10 !== 0) continue; // several chunks come in one frame
    const blocks = growing.read(text, true);
    expect(blocks).toHaveLength(1);
    const [block] = blocks;
    expect(block?.raw.length).toBe(text.length);
    if (block && block.raw.length > 8192) parsed.add(block.raw.length - block.unparsed.length);
  }
  expect(parsed.size).toBeLessThan(30);
  expect(growing.read(text)).toEqual(new MarkdownBlocks().read(text));
});

test.each([
  ["emphasis that never ends", "_a_b".repeat(2000)],
  ["many pieces of code", "` ".repeat(1000)],
  ["formulas that never end", "a\n$$ x".repeat(1000)],
  ["other formulas that never end", "\\[\n".repeat(1000)],
  ["many quotes in each other", `${"> ".repeat(200)}end`],
])("renders a long text with %s", (_, text) => {
  const blocks = new MarkdownBlocks().read(text);
  expect(blocks.map((block) => block.raw).join("")).toBe(text);
  for (const { raw } of blocks) expect(renderMarkdown(raw.slice(0, 20_000))).toContain("<p");
});

test("finds marks in all parts of a long paragraph", () => {
  const html = renderMarkdown("word and *more* ".repeat(600));
  expect(html.match(/<em>more<\/em>/g)?.length).toBeGreaterThan(590);
  expect(html.match(/<p/g)).toHaveLength(1);
});

test("keeps the objects of finished blocks", () => {
  const growing = new MarkdownBlocks();
  const before = growing.read("One.\n\nTwo.\n\nThree");
  const after = growing.read("One.\n\nTwo.\n\nThree and more\n\nFour");
  expect(after[0]).toBe(before[0]);
  expect(after[1]).toBe(before[1]);
  expect(after).toHaveLength(4);
});

test("finds the language of code with an open fence", () => {
  const [block] = new MarkdownBlocks().read("```TypeScript title=x\nlet a");
  expect(block?.code).toEqual({ language: "typescript", text: "let a" });
});

test("starts again with another text, and keeps tabs", () => {
  const blocks = new MarkdownBlocks();
  blocks.read("One.\n\nTwo.");
  const read = blocks.read("Other\n\n\tcode\n");
  expect(read.map((block) => block.raw).join("")).toBe("Other\n\n\tcode\n");
});

test("normalizes line ends, even if a chunk ends between \\r and \\n", () => {
  const growing = new MarkdownBlocks();
  const windowsText = TEXT.replaceAll("\n", "\r\n");
  for (let end = 1; end < windowsText.length; end += 1) growing.read(windowsText.slice(0, end));
  expect(growing.read(windowsText)).toEqual(new MarkdownBlocks().read(TEXT));
});

test("renders links that are defined in a later block", () => {
  const blocks = new MarkdownBlocks();
  const [block] = blocks.read("See [the docs][1], [evil].\n\n");
  const before = blocks.links;
  expect(renderMarkdown(block?.raw ?? "", before)).not.toContain("<a");
  blocks.read("See [the docs][1], [evil].\n\n[1]: https://example.com/docs\n[evil]: javascript:alert(1)\n");
  expect(blocks.links).not.toBe(before);
  const html = renderMarkdown(block?.raw ?? "", blocks.links);
  expect(html).toContain('href="https://example.com/docs"');
  expect(html).not.toContain('href="javascript:');
});

test("renders a long text in several frames", async () => {
  const root = document.createElement("div");
  const lines = Array.from({ length: 200 }, (_, index) => `Line ${index + 1}.`);
  await act(() => render(<Markdown text={lines.join("\n\n")} />, root));
  expect(root.querySelectorAll(".block").length).toBeLessThan(200);
  const texts = () => [...root.querySelectorAll(".block")].map((block) => block.textContent?.trim());
  await vi.waitFor(() => expect(texts()).toEqual(lines), { timeout: 200_000 });
  render(null, root);
}, 30_000);

test("names the host of a link whose text is the address of another one", () => {
  const target = (markdown: string) => /<code class="md-target">(.*?)<\/code>/.exec(renderMarkdown(markdown))?.[1];
  expect(target("[https://github.com/a](https://evil.example/a)")).toBe("evil.example");
  expect(target("[**github.com**](https://evil.example/)")).toBe("evil.example");
  expect(target("[me@example.org](mailto:me@evil.example)")).toBe("evil.example");
  expect(target("[github.com](https://github.com/a)")).toBeUndefined();
  expect(target("[github.com](https://www.github.com/a)")).toBeUndefined();
  expect(target("[README.md](https://example.org/README.md)")).toBeUndefined();
  expect(target("[the docs](https://example.org)")).toBeUndefined();
  expect(target("[file.ts line 3](https://example.org)")).toBeUndefined();
  expect(target("https://example.org/path")).toBeUndefined();
});

test("tables keep their alignment, lists their first number, and task lists have no bullets", () => {
  const html = renderMarkdown("| a | b |\n|--:|:-:|\n| 1 | 2 |\n\n3. three\n\ntext\n\n- [ ] to do");
  expect(html).toContain('<td align="right"');
  expect(html).toContain('<td align="center"');
  expect(html).toContain('<ol start="3"');
  expect(html).toMatch(/<li[^>]* class="md-task"[^>]*>☐ to do/);
});

const math = (text: string) =>
  [...renderMarkdown(text).matchAll(/<code[^>]*class="(md-math[^"]*)"[^>]*>(.*?)<\/code>/gs)].map((match) => [
    match[1] === "md-math" ? "inline" : "display",
    match[2],
  ]);

test.each([
  ["a $x^2$ b", [["inline", "x^2"]]],
  ["\\(a\\) and \\(b\\)", [["inline", "a"], ["inline", "b"]]],
  ["$$\na < b\n$$", [["display", "a &lt; b"]]],
  ["text\n\\[ c \\]\nmore", [["display", "c"]]],
  ["It costs $5 and $10.", []],
  ["$HOME is not $PATH", []],
  ["`$x$` and \\$x$", []],
  ["US$5, CA$6", []],
] as const)("finds the formulas of %j", (text, formulas) => {
  expect(math(text)).toEqual(formulas);
});

test("formulas become MathML without links, styles and errors", async () => {
  const root = document.createElement("div");
  root.innerHTML = renderMarkdown(
    "$\\frac{1}{2}$ $\\href{javascript:alert(1)}{x}$ $\\frac{1$ $\\def\\a{\\a\\a}\\a$ $\\text{<img src=x onerror=1>}$",
  );
  await showFormulas(root);
  expect(root.querySelectorAll("math")).toHaveLength(2);
  expect(root.querySelector("mfrac")).not.toBe(null);
  expect([...root.querySelectorAll("code.md-math")].map((code) => code.textContent)).toEqual([
    "\\href{javascript:alert(1)}{x}",
    "\\frac{1",
    "\\def\\a{\\a\\a}\\a",
  ]);
  expect(root.querySelectorAll("img, a, [style], [href]")).toHaveLength(0);
});
