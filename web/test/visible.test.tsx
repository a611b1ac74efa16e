/** Text that lies about its order, or hides words: what cannot be seen is shown by its number, wherever it stands. */
import { render as draw } from "preact";
import { expect, test } from "vitest";
import { render } from "../src/text/markdown.ts";
import { showUnseen, visible } from "../src/text/visible.ts";

test("characters that turn the text around or hide in it are named; those that languages need stay", () => {
  expect(visible("doc\u202ehs.cod")).toBe("doc‹U+202E›hs.cod");
  expect(visible("a\u2066b\u2069 c\u200bd\ufeff \u0007 \u{e0041}")).toBe("a‹U+2066›b‹U+2069› c‹U+200B›d‹U+FEFF› ‹U+0007› ‹U+E0041›");
  for (const text of ["tab\there\nand there", "👩‍💻 🏳️‍🌈", "می‌خواهم", "\u200fשלום\u200e", "naïve café"]) expect(visible(text)).toBe(text);
  expect(render("**see** `\u202egpj.exe`")).toContain("‹U+202E›gpj.exe");
});

test("that holds for every text and label on the page, and not for what is typed", () => {
  showUnseen();
  const root = document.createElement("div");
  const name = "Reject\u202ewollA";
  draw(
    <label title={name}>
      {name} <>{name}</>
      {[name, <b key="b">{["x", name]}</b>]}
      <textarea value={name} />
    </label>,
    root,
  );
  expect(root.textContent).not.toContain("\u202e");
  expect(root.textContent?.match(/‹U\+202E›/g)).toHaveLength(4);
  expect(root.querySelector("label")?.title).toBe("Reject‹U+202E›wollA");
  expect(root.querySelector("textarea")?.value).toBe(name);
});
