/** Markdown to safe HTML, block by block, so that a growing message costs only its last block. */
import { Lexer, Marked, type Tokens, type TokensList } from "marked";
import { escape, isPicture, safeLink, sanitise } from "./sanitise.ts";
import { visible } from "./visible.ts";

const marked = new Marked({
  gfm: true,
  breaks: false,
  renderer: {
    // HTML inside Markdown is shown as what it is: text.
    html({ text }: Tokens.HTML | Tokens.Tag) {
      return escape(text);
    },
    link({ href, title, tokens }: Tokens.Link) {
      const inner = this.parser.parseInline(tokens);
      const address = safeLink(href);
      if (address === null) return `${inner} <code>${escape(href)}</code>`;
      return `<a href="${escape(address)}"${title ? ` title="${escape(title)}"` : ""}>${inner}</a>`;
    },
    // A picture from elsewhere would tell its server that it was looked at; it becomes a link.
    image({ href, text }: Tokens.Image) {
      if (isPicture(href)) return `<img src="${escape(href)}" alt="${escape(text)}">`;
      const address = safeLink(href);
      const name = `<span class="md-picture">${escape(text || "picture")}</span>`;
      return address === null ? name : `<a href="${escape(address)}">${name}</a>`;
    },
    checkbox({ checked }: Tokens.Checkbox) {
      return checked ? "☑ " : "☐ ";
    },
    code({ text, lang }: Tokens.Code) {
      const language = /^[\w+#.-]+/.exec(lang ?? "")?.[0]?.toLowerCase() ?? "";
      return `<pre><code${language ? ` class="language-${escape(language)}"` : ""}>${escape(text)}\n</code></pre>`;
    },
  },
});

export interface Block {
  raw: string;
  /** Set for fenced and indented code, which is shown with a heading and colours. */
  code: { language: string; text: string } | null;
}

/** Where `[text][name]` leads, by name: the definitions may stand anywhere in the text. */
export type Links = TokensList["links"];

/** The blocks of a text that grows at its end. All but the last are final, and only what follows them is read again. */
export class Blocks {
  /** The definitions that came so far; a new object when there are more of them. */
  links: Links = {};
  private done: Block[] = [];
  private consumed = 0;
  private seen = "";

  read(said: string): readonly Block[] {
    // Line ends of any kind; the second half of one may still be on its way.
    const text = said.includes("\r") ? said.replace(/\r\n?/g, "\n") : said;
    if (!text.startsWith(this.seen.slice(0, 64)) || text.length < this.seen.length) {
      this.links = {};
      this.done = [];
      this.consumed = 0;
    }
    this.seen = text;
    const open = this.split(text.slice(this.consumed));
    const last = open.pop();
    for (const block of open) {
      this.done.push(block);
      this.consumed += block.raw.length;
    }
    return last ? [...this.done, last] : this.done.slice();
  }

  private split(text: string): Block[] {
    const blocks: Block[] = [];
    const tokens = marked.lexer(text);
    if (Object.keys(tokens.links).some((name) => !(name in this.links))) this.links = { ...tokens.links, ...this.links };
    for (const token of tokens) {
      const previous = blocks.at(-1);
      // Blank lines belong to the block before them, so that the raw texts add up to the whole.
      if (token.type === "space" && previous) previous.raw += token.raw;
      else if (token.type === "code") {
        const code = token as Tokens.Code;
        blocks.push({ raw: code.raw, code: { language: (code.lang ?? "").split(/\s/)[0]?.toLowerCase() ?? "", text: code.text } });
      } else blocks.push({ raw: token.raw, code: null });
    }
    // If the pieces do not add up, the text is one block.
    const length = blocks.reduce((sum, block) => sum + block.raw.length, 0);
    return length === text.length ? blocks : [{ raw: text, code: null }];
  }
}

export function render(markdown: string, links: Links = {}): string {
  const lexer = new Lexer(marked.defaults);
  Object.assign(lexer.tokens.links, links);
  return sanitise(marked.parser(lexer.lex(visible(markdown))));
}
