/** What a user puts into a prompt: completed commands and files, `@path` mentions and images. */
import type * as acp from "@agentclientprotocol/sdk";
import { t } from "../messages/messages.ts";
import { baseName, relativePath } from "../text/format.ts";

const MAX_IMAGE_SIDE = 2000;
const MAX_IMAGE_BYTES = 1_500_000;
const IMAGE_TYPES = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/**
 * The word at the cursor that can be completed: a command at the start of the prompt, or a file after `@`.
 */
export interface CompletionQuery {
  kind: "command" | "file";
  /** Start of the word, including its `/` or `@`. */
  start: number;
  end: number;
  query: string;
}

export function completionQuery(text: string, cursor: number): CompletionQuery | null {
  const before = text.slice(0, cursor);
  const command = /^\s*\/([^\s/]*)$/.exec(before);
  if (command) {
    const query = command[1] ?? "";
    return { kind: "command", start: cursor - query.length - 1, end: cursor, query };
  }
  const file = /(?:^|[\s([{"'`])@([^\s@]*)$/.exec(before);
  if (file) {
    const query = file[1] ?? "";
    return { kind: "file", start: cursor - query.length - 1, end: cursor, query };
  }
  return null;
}

/** Replaces the word with the value and puts the cursor behind it. */
export function applyCompletion(
  text: string,
  word: CompletionQuery,
  value: string,
): { text: string; cursor: number } {
  const space = /^\s/.test(text.slice(word.end)) ? "" : " ";
  const inserted = value + space;
  return {
    text: text.slice(0, word.start) + inserted + text.slice(word.end),
    cursor: word.start + inserted.length + (space ? 0 : 1),
  };
}

/**
 * Sorts matches: names that start with the query, then those that contain it, then those with its letters in
 * order.
 */
export function rankMatches<T>(items: readonly T[], query: string, name: (item: T) => string): T[] {
  const wanted = query.toLowerCase();
  const scored = items.flatMap((item, index) => {
    const text = name(item).toLowerCase();
    const score = text.startsWith(wanted) ? 0 : text.includes(wanted) ? 1 : hasLetters(text, wanted) ? 2 : 3;
    return score < 3 ? [{ item, score, index }] : [];
  });
  return scored.sort((a, b) => a.score - b.score || a.index - b.index).map((entry) => entry.item);
}

function hasLetters(text: string, letters: string): boolean {
  let index = 0;
  for (const letter of letters) {
    index = text.indexOf(letter, index) + 1;
    if (index === 0) return false;
  }
  return true;
}

/** The `@path` text that mentions a file in a prompt. */
export function fileMention(path: string, cwd: string): string {
  const name = relativePath(path, cwd);
  return /[\s"'`<>]/.test(name) ? `@"${name}"` : `@${name}`;
}

/**
 * The content blocks of a prompt: its text, a link for each file that the text still mentions, and the
 * images. `mentions` maps a mention to the path of its file.
 */
export function promptBlocks(
  text: string,
  mentions: ReadonlyMap<string, string>,
  images: readonly acp.ContentBlock[],
): acp.ContentBlock[] {
  const blocks: acp.ContentBlock[] = [];
  if (text.trim() !== "") blocks.push({ type: "text", text });
  for (const [mention, path] of mentions) {
    if (text.includes(mention)) {
      blocks.push({ type: "resource_link", uri: fileUri(path), name: baseName(path) });
    }
  }
  return [...blocks, ...images];
}

function fileUri(path: string): string {
  const absolute = path.startsWith("/") ? path : `/${path.replaceAll("\\", "/")}`;
  return `file://${absolute.split("/").map(encodeURIComponent).join("/")}`;
}

/** The image files of a paste or a drop. */
export function imageFiles(transfer: DataTransfer | null): File[] {
  return [...(transfer?.files ?? [])].filter((file) => file.type.startsWith("image/"));
}

/** Reads an image as a content block. Scales it down if it is too large for models. */
export async function imageBlock(file: File): Promise<acp.ContentBlock> {
  const keep = IMAGE_TYPES.includes(file.type) && file.size <= MAX_IMAGE_BYTES;
  const blob = keep ? file : await scaleDown(file);
  return { type: "image", mimeType: blob.type, data: await toBase64(blob) };
}

async function scaleDown(file: File): Promise<Blob> {
  const bitmap = await createImageBitmap(file);
  const scale = Math.min(1, MAX_IMAGE_SIDE / Math.max(bitmap.width, bitmap.height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(bitmap.width * scale);
  canvas.height = Math.round(bitmap.height * scale);
  canvas.getContext("2d")?.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  bitmap.close();
  return new Promise((resolve, reject) => {
    const finish = (blob: Blob | null) =>
      blob ? resolve(blob) : reject(new Error(t("prompt.imageFailed")));
    canvas.toBlob(finish, "image/jpeg", 0.85);
  });
}

function toBase64(blob: Blob): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).replace(/^[^,]*,/, ""));
    reader.onerror = () => reject(reader.error ?? new Error(t("prompt.imageFailed")));
    reader.readAsDataURL(blob);
  });
}
