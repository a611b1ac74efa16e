/** A message's text. Finished blocks keep the very node they had, so that only the last one is drawn again. */
import type { VNode } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { nextFrame } from "../state/frames.ts";
import { Blocks, render, type Block, type Links } from "../text/markdown.ts";
import { Code } from "./Code.tsx";

interface Drawn {
  raw: string;
  node: VNode;
}

/** A whole book that comes at once is drawn page by page, so that the browser can do other things between. */
const PAGE = 60;

export function Markdown({ text, growing = false }: { text: string; growing?: boolean }) {
  const blocks = useRef<Blocks>(undefined);
  blocks.current ??= new Blocks();
  const drawn = useRef<Drawn[]>([]);
  const found = blocks.current.read(text);
  const { links } = blocks.current;
  const known = useRef(links);
  // What was drawn before a link was defined may name it.
  if (known.current !== links) drawn.current = drawn.current.map((item) => (item.raw.includes("[") ? { ...item, raw: "" } : item));
  known.current = links;
  const [most, setMost] = useState(PAGE);
  const whole = found.length <= most;
  useEffect(() => {
    if (whole) return;
    let current = true;
    nextFrame(() => {
      if (current) setMost(most + PAGE);
    });
    return () => {
      current = false;
    };
  }, [whole, most]);
  drawn.current = found.slice(0, most).map((block, index) => {
    const before = drawn.current[index];
    const last = growing && index === found.length - 1;
    return before && before.raw === block.raw && !last ? before : { raw: last ? "" : block.raw, node: draw(block, index, last, links) };
  });
  return <div class="markdown">{drawn.current.map((item) => item.node)}</div>;
}

function draw(block: Block, index: number, growing: boolean, links: Links): VNode {
  if (block.code) return <Code key={index} text={block.code.text} language={block.code.language} growing={growing} />;
  return <Html key={index} markdown={block.raw} links={links} />;
}

function Html({ markdown, links }: { markdown: string; links: Links }) {
  const html = useMemo(() => render(markdown, links), [markdown, links]);
  return <div class="block" dangerouslySetInnerHTML={{ __html: html }} />;
}
