/** Content blocks of messages and tool calls: text as Markdown, code, images, audio and resources. */
import type { ComponentChildren, VNode } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { t } from "../messages/messages.ts";
import { nextFrame, type MessageBlock } from "../state/conversation.ts";
import { baseName } from "../text/format.ts";
import { findLanguage, highlight } from "../text/highlight.ts";
import {
  MarkdownBlocks,
  renderMarkdown,
  type LinkDefinitions,
  type MarkdownBlock,
} from "../text/markdown.ts";
import { showFormulas } from "../text/math.ts";
import { hasTerminalCodes } from "../text/terminal-screen.ts";
import { isImageUrl, revealHidden, safeLink } from "../text/untrusted-text.ts";
import { CopyButton } from "./CopyButton.tsx";
import { Diagram } from "./Diagram.tsx";
import { Icon } from "./elements.tsx";
import { TerminalText } from "./TerminalView.tsx";

/**
 * A long text is rendered in steps of this many blocks, one step per frame, so that the page stays
 * responsive.
 */
const BLOCKS_PER_FRAME = 60;
/** While code grows, it is highlighted at this interval. Newer text follows without highlighting. */
const HIGHLIGHT_INTERVAL_MS = 250;
/** How much code must have grown until it is highlighted again. */
const HIGHLIGHT_GROWTH = 1.1;

interface ContentBlocksProps {
  blocks: readonly MessageBlock[];
  /** More chunks may follow. */
  growing?: boolean;
}

export function ContentBlocks({ blocks, growing = false }: ContentBlocksProps) {
  return (
    <>
      {blocks.map((block, index) => (
        <ContentBlock key={index} block={block} growing={growing && index === blocks.length - 1} />
      ))}
    </>
  );
}

export function ContentBlock({ block, growing = false }: { block: MessageBlock; growing?: boolean }) {
  switch (block.type) {
    case "text":
      if (hasTerminalCodes(block.text)) return <TerminalText output={block.text} />;
      return <Markdown text={block.text} growing={growing} />;
    case "image": {
      const url = `data:${block.mimeType};base64,${block.data}`;
      if (isImageUrl(url)) return <ImageView url={url} />;
      return <p class="muted">{t("content.otherImage", { type: block.mimeType })}</p>;
    }
    case "audio":
      return <p class="muted">{t("content.audio", { type: block.mimeType })}</p>;
    case "resource_link":
      return <ResourceLink uri={block.uri} name={block.title ?? block.name} />;
    case "resource":
      return "text" in block.resource ? (
        <details class="collapsible">
          <summary>{block.resource.uri}</summary>
          <CodeBlock text={block.resource.text} language={block.resource.uri.split(".").at(-1) ?? ""} />
        </details>
      ) : (
        <ResourceLink uri={block.resource.uri} name={block.resource.uri} />
      );
    default:
      return null;
  }
}

/** An image. A click shows it in full size. */
function ImageView({ url }: { url: string }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [open, setOpen] = useState(false);
  useEffect(() => {
    if (open) dialog.current?.showModal();
  }, [open]);
  return (
    <>
      <button
        type="button"
        class="image-button"
        aria-label={t("content.enlarge")}
        onClick={() => setOpen(true)}
      >
        <img class="image" src={url} alt={t("content.image")} />
      </button>
      {open && (
        <dialog
          class="image-dialog"
          ref={dialog}
          aria-label={t("content.image")}
          onClick={() => dialog.current?.close()}
          onClose={() => setOpen(false)}
        >
          <img src={url} alt={t("content.image")} />
          <button type="button" class="round" aria-label={t("app.close")}>
            <Icon name="close" />
          </button>
        </dialog>
      )}
    </>
  );
}

function ResourceLink({ uri, name }: { uri: string; name: string }) {
  const url = safeLink(uri);
  const label = (
    <>
      <Icon name="read" /> {baseName(name)}
    </>
  );
  return url && !url.startsWith("mailto:") ? (
    <a class="chip" href={url} target="_blank" rel="noopener noreferrer">
      {label}
    </a>
  ) : (
    <span class="chip" title={uri}>
      {label}
    </span>
  );
}

interface RenderedBlock {
  raw: string;
  node: VNode;
}

/**
 * Renders Markdown. Finished blocks keep their virtual node, so that only the last block is rendered again.
 */
export function Markdown({ text, growing = false }: { text: string; growing?: boolean }) {
  const parser = useRef<MarkdownBlocks>(undefined);
  parser.current ??= new MarkdownBlocks();
  const rendered = useRef<RenderedBlock[]>([]);
  const blocks = parser.current.read(text, growing);
  const { links } = parser.current;
  const previousLinks = useRef(links);
  if (previousLinks.current !== links) {
    // Render blocks with brackets again: they may refer to a link that is only now defined.
    rendered.current = rendered.current.map((item) => (item.raw.includes("[") ? { ...item, raw: "" } : item));
  }
  previousLinks.current = links;
  const [limit, setLimit] = useState(BLOCKS_PER_FRAME);
  const complete = blocks.length <= limit;
  useEffect(() => {
    if (complete) return;
    let current = true;
    nextFrame(() => {
      if (current) setLimit(limit + BLOCKS_PER_FRAME);
    });
    return () => {
      current = false;
    };
  }, [complete, limit]);
  rendered.current = blocks.slice(0, limit).map((block, index) => {
    const previous = rendered.current[index];
    const unfinished = growing && index === blocks.length - 1;
    if (previous && previous.raw === block.raw && !unfinished) return previous;
    return { raw: unfinished ? "" : block.raw, node: markdownNode(block, index, unfinished, links) };
  });
  return <div class="markdown">{rendered.current.map((item) => item.node)}</div>;
}

function markdownNode(block: MarkdownBlock, key: number, growing: boolean, links: LinkDefinitions): VNode {
  if (block.code) {
    const { text, language } = block.code;
    if (language === "mermaid" && !growing) return <Diagram key={key} source={text} />;
    return <CodeBlock key={key} text={text + block.unparsed} language={language} growing={growing} />;
  }
  const parsed = block.raw.slice(0, block.raw.length - block.unparsed.length);
  return <HtmlBlock key={key} markdown={parsed} unparsed={block.unparsed} links={links} />;
}

interface HtmlBlockProps {
  markdown: string;
  /** Shown as it is, behind the rest. */
  unparsed: string;
  links: LinkDefinitions;
}

function HtmlBlock({ markdown, unparsed, links }: HtmlBlockProps) {
  const html = useMemo(() => renderMarkdown(markdown, links), [markdown, links]);
  const block = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (block.current) void showFormulas(block.current).catch(() => undefined); // else as written
  }, [html]);
  return (
    <>
      <div class="block" ref={block} dangerouslySetInnerHTML={{ __html: html }} />
      {unparsed && <p class="block prompt-text">{revealHidden(unparsed)}</p>}
    </>
  );
}

interface CodeBlockProps {
  text: string;
  language: string;
  growing?: boolean;
  /** Shown instead of the language. */
  caption?: ComponentChildren;
  /** Shows the prompt of a shell before the text, which is not copied. */
  shellPrompt?: boolean;
}

/** Code with its language, a copy button and syntax highlighting. */
export function CodeBlock(props: CodeBlockProps) {
  const { text, language, growing = false, caption, shellPrompt = false } = props;
  const [highlighted, setHighlighted] = useState({ code: "", html: "" });
  const latestText = useRef(text);
  latestText.current = text;
  const supported = findLanguage(language) !== null;

  useEffect(() => {
    if (!supported) return;
    let current = true;
    let length = 0;
    const update = async () => {
      const code = latestText.current;
      if (growing && code.length < length * HIGHLIGHT_GROWTH) return;
      length = code.length;
      const html = await highlight(revealHidden(code), language);
      if (current) setHighlighted({ code, html });
    };
    if (!growing) void update();
    const timer = growing ? setInterval(() => void update(), HIGHLIGHT_INTERVAL_MS) : undefined;
    return () => {
      current = false;
      clearInterval(timer);
    };
  }, [language, growing, growing ? null : text]);

  const usable = highlighted.html !== "" && text.startsWith(highlighted.code);
  const rest = revealHidden(usable ? text.slice(highlighted.code.length) : text);
  return (
    <figure class="code">
      <figcaption>
        {caption ?? <span>{language || t("code.plain")}</span>}
        <CopyButton text={text} />
      </figcaption>
      <pre tabIndex={0} aria-label={language ? t("code.labelLanguage", { language }) : t("code.label")}>
        <code>
          {shellPrompt && <span class="shell-prompt">$ </span>}
          {usable && <HighlightedCode html={highlighted.html} />}
          {rest}
        </code>
      </pre>
    </figure>
  );
}

/** Does not change while text is added behind it. */
function HighlightedCode({ html }: { html: string }) {
  return useMemo(() => <span dangerouslySetInnerHTML={{ __html: html }} />, [html]);
}
