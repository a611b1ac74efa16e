/** Draws diagrams in a hidden frame, which is created on first use and removed if it does not answer. */
import type { DiagramAnswer, DiagramRequest } from "../diagram-frame.ts";

const MAX_LENGTH = 20_000;
const TIMEOUT_MS = 15_000;

interface Frame {
  element: HTMLIFrameElement;
  ready: Promise<void>;
  waiting: Map<number, (answer: DiagramAnswer) => void>;
}

let frame: Frame | null = null;
let lastId = 0;

/** Returns the diagram as an SVG text; null if it cannot be drawn. */
export async function drawDiagram(source: string, dark: boolean): Promise<string | null> {
  if (source.length > MAX_LENGTH) return null;
  const current = (frame ??= openFrame());
  const id = (lastId += 1);
  let timer: ReturnType<typeof setTimeout> | undefined;
  const timeout = new Promise<null>((resolve) => {
    timer = setTimeout(() => {
      closeFrame(current);
      resolve(null);
    }, TIMEOUT_MS);
  });
  const answer = current.ready.then(
    () =>
      new Promise<string | null>((resolve) => {
        current.waiting.set(id, (result) => resolve("svg" in result ? result.svg : null));
        const request: DiagramRequest = { id, source, dark };
        current.element.contentWindow?.postMessage(request, "*");
      }),
  );
  try {
    return await Promise.race([answer, timeout]);
  } finally {
    clearTimeout(timer);
  }
}

/** Makes an image of an SVG. Scripts do not run in images, and nothing is loaded. */
export function svgImage(svg: string): { url: string; width: number | null } {
  const width = /\bmax-width:\s*([\d.]+)px/.exec(svg)?.[1];
  const sized = svg.replace(/^<svg([^>]*?) width="100%"/, `<svg$1${width ? ` width="${width}"` : ""}`);
  const url = URL.createObjectURL(new Blob([sized], { type: "image/svg+xml" }));
  return { url, width: width === undefined ? null : Number(width) };
}

function openFrame(): Frame {
  const element = document.createElement("iframe");
  element.src = "./diagram.html";
  element.sandbox.add("allow-scripts");
  element.className = "visually-hidden";
  element.tabIndex = -1;
  element.setAttribute("aria-hidden", "true");
  const waiting: Frame["waiting"] = new Map();
  const ready = new Promise<void>((resolve) => waiting.set(0, () => resolve()));
  const opened: Frame = { element, ready, waiting };
  addEventListener("message", (event: MessageEvent<DiagramAnswer>) => {
    if (event.source !== element.contentWindow) return;
    waiting.get(event.data.id)?.(event.data);
    waiting.delete(event.data.id);
  });
  document.body.appendChild(element);
  return opened;
}

function closeFrame(current: Frame): void {
  current.element.remove();
  for (const [id, answer] of current.waiting) answer({ id, error: "timeout" });
  if (frame === current) frame = null;
}
