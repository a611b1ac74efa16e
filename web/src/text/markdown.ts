/**
 * Renders Markdown as safe HTML, block by block. While a message grows, only its last block is parsed again.
 */
import { Lexer, Marked, type Tokens, type TokensList } from "marked";
import { t } from "../messages/messages.ts";
import { MATH_EXTENSIONS } from "./math.ts";
import { escapeHtml, isImageUrl, revealHidden, safeLink, sanitizeHtml } from "./untrusted-text.ts";

const marked = new Marked({
  extensions: MATH_EXTENSIONS,
  gfm: true,
  breaks: false,
  renderer: {
    // Show HTML inside Markdown as text.
    html({ text }: Tokens.HTML | Tokens.Tag) {
      return escapeHtml(text);
    },
    link({ href, title, tokens }: Tokens.Link) {
      const inner = this.parser.parseInline(tokens);
      const url = safeLink(href);
      if (url === null) return `${inner} <code>${escapeHtml(href)}</code>`;
      const link = `<a href="${escapeHtml(url)}"${title ? ` title="${escapeHtml(title)}"` : ""}>${inner}</a>`;
      const host = misleadingHost(plainInline(tokens), url);
      return host === null ? link : `${link} <code class="md-target">${escapeHtml(host)}</code>`;
    },
    // Loading an external image would tell its server about the reader, so it becomes a link.
    image({ href, text }: Tokens.Image) {
      if (isImageUrl(href)) return `<img src="${escapeHtml(href)}" alt="${escapeHtml(text)}">`;
      const url = safeLink(href);
      const name = `<span class="md-image">${escapeHtml(text || t("content.linkedImage"))}</span>`;
      return url === null ? name : `<a href="${escapeHtml(url)}">${name}</a>`;
    },
    checkbox({ checked }: Tokens.Checkbox) {
      return checked ? "☑ " : "☐ ";
    },
    code({ text, lang }: Tokens.Code) {
      const language = /^[\w+#.-]+/.exec(lang ?? "")?.[0]?.toLowerCase() ?? "";
      const attribute = language ? ` class="language-${escapeHtml(language)}"` : "";
      return `<pre><code${attribute}>${escapeHtml(text)}\n</code></pre>`;
    },
  },
});

/** A text that readers take for an address. */
const ADDRESS = /^(?:https?:\/\/|mailto:)?(?:[^\s/@]+@)?((?:[\p{L}\p{N}-]+\.)+\p{L}{2,}|\d+(?:\.\d+){3})(?:[:/?#]|$)/iu;

/** Names such as `notes.md` look like hosts, too: without more, only these are taken for one. */
const COMMON_DOMAIN = /\.(?:com|org|net|io|dev|app|ai|co|gov|edu|de|fr|uk|eu|cn|jp)$/;

/** The host that a link leads to, if its text names another one; otherwise null. */
export function misleadingHost(text: string, url: string): string | null {
  const [whole, shown] = ADDRESS.exec(text.trim())?.map((part) => part.toLowerCase()) ?? [];
  if (whole === shown && !COMMON_DOMAIN.test(shown ?? "")) return null;
  const target = new URL(url);
  const host = target.protocol === "mailto:" ? (target.pathname.split("@").at(-1) ?? "") : target.hostname;
  if (shown === undefined || shown === host || `www.${shown}` === host || shown === `www.${host}`) return null;
  return host;
}

function plainInline(tokens: Tokens.Generic[]): string {
  return tokens.map((token) => (token.tokens ? plainInline(token.tokens) : String(token["text"] ?? ""))).join("");
}

export interface MarkdownBlock {
  raw: string;
  /** Set for fenced and indented code, which the page renders as a code block of its own. */
  code: { language: string; text: string } | null;
  /** What has arrived since the block was parsed. Part of `raw`, but not of `code`. */
  unparsed: string;
}

/** The link definitions of a text (`[name]: address`) by name. They can be anywhere in the text. */
export type LinkDefinitions = TokensList["links"];

/** An unfinished block that is longer than this is parsed again only when it has grown by a quarter. */
const MAX_REPARSED = 4096;
const GROWTH = 1.25;

/**
 * Splits a growing text into blocks. All blocks except the last are final and are not parsed again, and the last
 * one is parsed less often the longer it is: so the cost is linear in the length of the text.
 */
export class MarkdownBlocks {
  /** The definitions so far. A new object whenever there are more of them. */
  links: LinkDefinitions = {};
  private finished: MarkdownBlock[] = [];
  private finishedLength = 0;
  private previousText = "";
  /** The last block, and the length of the text when it was parsed. */
  private open: MarkdownBlock | null = null;
  private parsedLength = 0;

  read(source: string, growing = false): readonly MarkdownBlock[] {
    // Normalize line ends. The second half of a `\r\n` may still be missing.
    const text = source.includes("\r") ? source.replace(/\r\n?/g, "\n") : source;
    if (!text.startsWith(this.previousText.slice(0, 64)) || text.length < this.previousText.length) {
      this.links = {};
      this.finished = [];
      this.finishedLength = 0;
      this.open = null;
    }
    this.previousText = text;
    const parsedOpen = this.parsedLength - this.finishedLength;
    if (growing && this.open && parsedOpen > MAX_REPARSED) {
      if (text.length - this.finishedLength < parsedOpen * GROWTH) {
        const unparsed = text.slice(this.parsedLength);
        return [...this.finished, { ...this.open, raw: this.open.raw + unparsed, unparsed }];
      }
    }
    const open = this.split(text.slice(this.finishedLength));
    const last = open.pop();
    for (const block of open) {
      this.finished.push(block);
      this.finishedLength += block.raw.length;
    }
    this.open = last ?? null;
    this.parsedLength = text.length;
    return last ? [...this.finished, last] : this.finished.slice();
  }

  private split(text: string): MarkdownBlock[] {
    const blocks: MarkdownBlock[] = [];
    const tokens = blockTokens(text);
    if (tokens === null) return [{ raw: text, code: null, unparsed: "" }];
    if (Object.keys(tokens.links).some((name) => !(name in this.links)))
      this.links = { ...tokens.links, ...this.links };
    for (const token of tokens) {
      const previous = blocks.at(-1);
      // Blank lines belong to the previous block, so that the raw texts add up to the whole text.
      if (token.type === "space" && previous) previous.raw += token.raw;
      else if (token.type === "code") {
        const code = token as Tokens.Code;
        const language = (code.lang ?? "").split(/\s/)[0]?.toLowerCase() ?? "";
        blocks.push({ raw: code.raw, code: { language, text: code.text }, unparsed: "" });
      } else blocks.push({ raw: token.raw, code: null, unparsed: "" });
    }
    // If the raw texts do not add up, treat the text as one block.
    const length = blocks.reduce((sum, block) => sum + block.raw.length, 0);
    return length === text.length ? blocks : [{ raw: text, code: null, unparsed: "" }];
  }
}

/** The blocks of a text without what is in them; null if they are nested too deep. */
function blockTokens(text: string): TokensList | null {
  const lexer = new Lexer(marked.defaults);
  try {
    lexer.blockTokens(text, lexer.tokens);
    return lexer.tokens;
  } catch {
    return null;
  }
}

/** In a longer text without a blank line, marks such as `*` are found within parts of this length. */
const MAX_INLINE = 4096;

/** Text that cannot be parsed, because it is nested too deep, is shown as it is. */
export function renderMarkdown(markdown: string, links: LinkDefinitions = {}): string {
  const lexer = new Lexer(marked.defaults);
  Object.assign(lexer.tokens.links, links);
  const text = revealHidden(markdown);
  try {
    lexer.blockTokens(text, lexer.tokens);
    for (const { src, tokens } of lexer.inlineQueue) {
      for (const part of inlineParts(src)) lexer.inlineTokens(part, tokens);
    }
    return sanitizeHtml(marked.parser(lexer.tokens));
  } catch {
    return `<p>${escapeHtml(text)}</p>`;
  }
}

/** Cuts a long text at line ends or spaces: the search for marks that belong together is not linear. */
function inlineParts(text: string): string[] {
  const parts: string[] = [];
  let start = 0;
  while (text.length - start > MAX_INLINE) {
    const window = text.slice(start, start + MAX_INLINE);
    const end = [window.lastIndexOf("\n"), window.lastIndexOf(" ")].find((index) => index > MAX_INLINE / 2);
    const length = (end ?? MAX_INLINE - 1) + 1;
    parts.push(window.slice(0, length));
    start += length;
  }
  return [...parts, text.slice(start)];
}
