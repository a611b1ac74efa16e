/** Untrusted text: nothing runs or loads, and hidden characters are visible. */
import { render } from "preact";
import { expect, test } from "vitest";
import { highlight } from "../src/text/highlight.ts";
import { renderMarkdown } from "../src/text/markdown.ts";
import { revealHidden, revealHiddenEverywhere, safeLink, sanitizeHtml } from "../src/text/untrusted-text.ts";

const HOSTILE = [
  "<script>alert(1)</script>",
  "<img src=x onerror=alert(1)>",
  "<svg/onload=alert(1)>",
  "<svg><a xlink:href='javascript:alert(1)'><text>x</text></a></svg>",
  "<math><mi//xlink:href='data:x,<script>alert(1)</script>'>",
  "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
  "<a href='javascript:alert(1)'>x</a>",
  "<a href='  java\nscript:alert(1)'>x</a>",
  "<form action='https://evil.example'><input name=password><button>go</button></form>",
  "<style>@import url(https://evil.example)</style>",
  "<link rel=stylesheet href=https://evil.example>",
  "<base href=https://evil.example>",
  "<object data='javascript:alert(1)'></object>",
  "<video poster=javascript:alert(1) src=https://evil.example/x>",
  "<p style='position:fixed;inset:0;background:url(https://evil.example)'>cover</p>",
  "<details open ontoggle=alert(1)>",
  "<template><img src=x onerror=alert(1)></template>",
  "<noscript><p title='</noscript><img src=x onerror=alert(1)>'></noscript>",
  "<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=1 onerror=alert(1)&gt;'>",
  "[x](javascript:alert(1))",
  "[x](JaVaScRiPt&colon;alert(1))",
  "[x](data:text/html;base64,PHNjcmlwdD4=)",
  "[x](vbscript:alert(1))",
  "[x](file:///etc/passwd)",
  "![x](https://evil.example/pixel.png)",
  "![x](//evil.example/pixel.png)",
  "![x](data:image/svg+xml,<svg onload=alert(1)>)",
  "<javascript:alert(1)>",
  "```html\n</code></pre><script>alert(1)</script>\n```",
  '```"onmouseover=alert(1) x="\ncode\n```',
  "`</code><script>alert(1)</script>`",
  "| <img src=x onerror=alert(1)> | b |\n|---|---|\n| [x](javascript:alert(1)) | <script>alert(1)</script> |",
  '[x](https://example.com "\\"onclick=alert(1)")',
  "<div class='card primary' id='prompt' data-request>Allow?</div>",
];

function elements(html: string): Element[] {
  const box = document.createElement("div");
  box.innerHTML = html;
  return [...box.querySelectorAll("*")];
}

const ATTRIBUTES = new Set(["href", "title", "class", "start", "alt", "target", "rel", "src", "dir"]);

test.each(HOSTILE)("does not run or load anything: %s", (text) => {
  for (const html of [renderMarkdown(text), sanitizeHtml(text)]) {
    for (const element of elements(html)) {
      expect(element.tagName).not.toMatch(
        /^(?:SCRIPT|IFRAME|OBJECT|FORM|INPUT|BUTTON|STYLE|LINK|BASE|SVG|MATH|VIDEO|TEMPLATE|DETAILS|DIV)$/i,
      );
      for (const { name, value } of element.attributes) {
        expect(ATTRIBUTES.has(name), `${name}=${value}`).toBe(true);
        if (name === "href") expect(value).toMatch(/^(?:https?|mailto):/i);
        if (name === "src") expect(value).toMatch(/^data:image\/(?:png|jpeg|gif|webp);base64,/);
        if (name === "dir") expect(value).toBe("auto");
        if (name === "class") expect(value).toMatch(/^(?:language-|md-|hljs)/);
      }
      if (element.hasAttribute("href")) {
        expect(element.getAttribute("target")).toBe("_blank");
        expect(element.getAttribute("rel")).toBe("noopener noreferrer");
      }
    }
  }
});

test("shows HTML in Markdown as text", () => {
  expect(renderMarkdown("a <b>bold</b> claim")).toContain("&lt;b&gt;bold&lt;/b&gt;");
});

test("keeps web links and inline images", () => {
  expect(renderMarkdown("[docs](https://example.com/a?b=c)")).toContain('href="https://example.com/a?b=c"');
  expect(renderMarkdown("![dot](data:image/png;base64,aGk=)")).toContain('src="data:image/png;base64,aGk="');
  expect(renderMarkdown("![tracker](https://example.com/x.png)")).not.toContain("<img");
  expect(safeLink("mailto:a@example.com")).not.toBeNull();
  expect(safeLink("javascript:alert(1)")).toBeNull();
});

test("escapes markup in highlighted code", async () => {
  const html = await highlight("</span><script>alert(1)</script>\nlet x = '<img onerror=1>';", "js");
  expect(html).toContain("hljs-keyword");
  expect(elements(html).every((element) => element.tagName === "SPAN")).toBe(true);
  expect(await highlight("<b>", "nolanguage")).toBe("&lt;b&gt;");
});

test("sets the text direction per paragraph and list", () => {
  const [list, ...rest] = elements(renderMarkdown("- פריט ראשון\n\n- second"));
  expect(list?.getAttribute("dir")).toBe("auto");
  expect(rest.some((element) => element.hasAttribute("dir"))).toBe(false);
  expect(elements(renderMarkdown("שלום")).map((element) => element.getAttribute("dir"))).toEqual(["auto"]);
});

test("reveals characters that reverse or hide text, and keeps those that languages need", () => {
  expect(revealHidden("doc\u202ehs.cod")).toBe("doc‹U+202E›hs.cod");
  expect(revealHidden("a\u2066b\u2069 c\u200bd\ufeff \u0007 \u{e0041}")).toBe(
    "a‹U+2066›b‹U+2069› c‹U+200B›d‹U+FEFF› ‹U+0007› ‹U+E0041›",
  );
  for (const text of ["tab\there\nand there", "👩‍💻 🏳️‍🌈", "می‌خواهم", "\u200fשלום\u200e", "naïve café"])
    expect(revealHidden(text)).toBe(text);
  expect(renderMarkdown("**see** `\u202egpj.exe`")).toContain("‹U+202E›gpj.exe");
});

test("reveals them in every text and label, but not in input values", () => {
  revealHiddenEverywhere();
  const root = document.createElement("div");
  const name = "Reject\u202ewollA";
  render(
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
