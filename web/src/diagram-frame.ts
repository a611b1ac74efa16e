/**
 * Draws Mermaid diagrams in a frame of its own, for the page around it.
 *
 * Mermaid needs inline styles, which the page does not allow. This frame has another policy, which allows them
 * but no connections, and is not visible: the page gets the drawing as text and shows it as an image.
 */
import mermaid from "mermaid";

export interface DiagramRequest {
  id: number;
  source: string;
  dark: boolean;
}

export type DiagramAnswer = { id: number; svg: string } | { id: number; error: string };

const MAX_EDGES = 500;
const MAX_TEXT = 20_000;

let queue = Promise.resolve();

addEventListener("message", (event: MessageEvent<DiagramRequest>) => {
  if (event.source !== parent || event.origin !== location.origin) return;
  const { id, source, dark } = event.data;
  // One after the other: the settings are global.
  queue = queue.then(async () => {
    const answer = await draw(id, source, dark);
    parent.postMessage(answer, location.origin);
  });
});

async function draw(id: number, source: string, dark: boolean): Promise<DiagramAnswer> {
  mermaid.initialize({
    startOnLoad: false,
    securityLevel: "strict",
    htmlLabels: false,
    flowchart: { htmlLabels: false },
    theme: dark ? "dark" : "default",
    fontFamily: "sans-serif",
    maxEdges: MAX_EDGES,
    maxTextSize: MAX_TEXT,
    suppressErrorRendering: true,
    // A diagram must not change these.
    secure: ["secure", "securityLevel", "startOnLoad", "maxTextSize", "maxEdges", "htmlLabels", "themeCSS", "fontFamily"],
  });
  try {
    const { svg } = await mermaid.render(`diagram-${id}`, source);
    return { id, svg };
  } catch (error) {
    return { id, error: error instanceof Error ? error.message : String(error) };
  } finally {
    document.body.replaceChildren();
  }
}

parent.postMessage({ id: 0, svg: "" } satisfies DiagramAnswer, location.origin); // ready
