/**
 * Formulas in Markdown: finds them, and shows them as MathML, which browsers draw themselves.
 *
 * `$...$` and `\(...\)` are in a line, `$$...$$` and `\[...\]` on their own. A dollar sign before a space or a
 * number after the second one mean money.
 */
import type { TokenizerAndRendererExtension, Tokens } from "marked";
import { escapeHtml, sanitizeMath } from "./untrusted-text.ts";

const INLINE = /^(?:\$\$([^$]{1,2000}?)\$\$|\$(?![\s$])((?:\\.|[^\\$\n]){1,1000}?)(?<!\s)\$(?![\w$])|\\\((.{1,1000}?)\\\))/;
const BLOCK = /^(?:\$\$([\s\S]{1,4000}?)\$\$|\\\[([\s\S]{1,4000}?)\\\])[ \t]*(?:\n|$)/;
/** Formulas of one block of text; more are shown as they were written. */
const MAX_FORMULAS = 200;

function mathToken(type: string, match: RegExpExecArray | null, display: boolean): Tokens.Generic | undefined {
  if (!match) return undefined;
  const text = match.slice(1).find((group) => group !== undefined) ?? "";
  return { type, raw: match[0], text: text.trim(), display };
}

function renderToken(token: Tokens.Generic): string {
  const { text, raw, display } = token as Tokens.Generic & { text: string; display: boolean };
  if (text === "") return escapeHtml(raw);
  const code = `<code class="md-math${display ? " md-display" : ""}">${escapeHtml(text)}</code>`;
  return token.type === "mathBlock" ? `<p>${code}</p>\n` : code;
}

/** More places in a paragraph are not examined, so that the search stays short. */
const MAX_STARTS = 50;

/** Where a formula of its own begins in the current paragraph. */
function blockStart(src: string): number | undefined {
  const end = src.indexOf("\n\n");
  const starts = (end < 0 ? src : src.slice(0, end)).matchAll(/\n(?=\$\$|\\\[)/g);
  let count = 0;
  for (const { index } of starts) {
    if (BLOCK.test(src.slice(index + 1, index + 5000))) return index;
    if ((count += 1) === MAX_STARTS) break;
  }
  return undefined;
}

/** Where a formula may begin before the next mark of Markdown, at which the text is examined in any case. */
function inlineStart(src: string): number | undefined {
  const index = src.search(/[$\\<![`*~_]/);
  return src[index] === "$" || src.startsWith("\\(", index) ? index : undefined;
}

/** Extensions of `marked`. A formula is code until `showFormulas` has drawn it. */
export const MATH_EXTENSIONS: TokenizerAndRendererExtension[] = [
  {
    name: "mathBlock",
    level: "block",
    start: blockStart,
    tokenizer: (src) => mathToken("mathBlock", BLOCK.exec(src), true),
    renderer: renderToken,
  },
  {
    name: "mathInline",
    level: "inline",
    start: inlineStart,
    tokenizer: (src) => mathToken("mathInline", INLINE.exec(src), src.startsWith("$$")),
    renderer: renderToken,
  },
];

/** Draws the formulas in an element. The library is loaded from our own server on first use. */
export async function showFormulas(element: Element): Promise<void> {
  const formulas = [...element.querySelectorAll("code.md-math")].slice(0, MAX_FORMULAS);
  if (formulas.length === 0) return;
  const { default: katex } = await import("katex");
  for (const formula of formulas) {
    try {
      const html = katex.renderToString(formula.textContent ?? "", {
        output: "mathml",
        displayMode: formula.classList.contains("md-display"),
        throwOnError: true,
        trust: () => {
          throw new RangeError();
        },
        strict: "ignore",
        maxExpand: 300,
        maxSize: 20,
      });
      const shown = document.createElement("span");
      shown.className = formula.className.replace("md-math", "md-formula");
      shown.innerHTML = sanitizeMath(html);
      formula.replaceWith(shown);
    } catch {
      // The formula stays as it was written.
    }
  }
}
