/** Files named in a prompt by `@path`: the text keeps the name, and a link to each file goes with it. */
import type * as acp from "@agentclientprotocol/sdk";
import { baseName, within } from "../ui/format.ts";

/** How a file is written into the text. */
export function mention(path: string, cwd: string): string {
  const name = within(path, cwd);
  return /[\s"'`<>]/.test(name) ? `@"${name}"` : `@${name}`;
}

/** The blocks of a prompt: its text, then the files that it still names, then pictures. */
export function blocks(text: string, chosen: ReadonlyMap<string, string>, pictures: readonly acp.ContentBlock[]): acp.ContentBlock[] {
  const all: acp.ContentBlock[] = [];
  if (text.trim() !== "") all.push({ type: "text", text });
  for (const [word, path] of chosen) {
    if (text.includes(word)) all.push({ type: "resource_link", uri: fileAddress(path), name: baseName(path) });
  }
  return [...all, ...pictures];
}

function fileAddress(path: string): string {
  const absolute = path.startsWith("/") ? path : `/${path.replaceAll("\\", "/")}`;
  return `file://${absolute.split("/").map(encodeURIComponent).join("/")}`;
}
