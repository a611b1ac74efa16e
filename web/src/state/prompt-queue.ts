/**
 * Unsent text of a tab: the prompts that wait for the end of a turn, and drafts. Kept in the session storage.
 */
import type * as acp from "@agentclientprotocol/sdk";
import { signal } from "@preact/signals";

const KEY_PREFIX = "accord.";

export interface Prompt {
  id: string;
  blocks: acp.ContentBlock[];
}

export function newPrompt(blocks: acp.ContentBlock[]): Prompt {
  return { id: `${Date.now()}-${Math.random().toString(36).slice(2)}`, blocks };
}

/** The prompts of one session that wait for the end of the running turn. They survive a reload of the tab. */
export class PromptQueue {
  readonly prompts = signal<readonly Prompt[]>([]);
  /** Nothing is sent until the user asks for it: after a failed turn and after a reload. */
  readonly paused = signal(false);
  private readonly key: string;

  constructor(session: string) {
    this.key = `waiting.${session}`;
    try {
      const stored: unknown = JSON.parse(storedText(this.key) ?? "[]");
      if (Array.isArray(stored)) this.prompts.value = stored.filter(isPrompt);
      this.paused.value = this.prompts.value.length > 0;
    } catch {
      // Ignore stored prompts that cannot be parsed.
    }
  }

  add(prompt: Prompt): void {
    this.paused.value = false;
    this.replace([...this.prompts.value, prompt]);
  }

  takeFirst(): Prompt | undefined {
    const [first, ...rest] = this.prompts.value;
    if (first) this.replace(rest);
    return first;
  }

  putBack(prompt: Prompt): void {
    this.replace([prompt, ...this.prompts.value]);
  }

  remove(id: string): void {
    this.replace(this.prompts.value.filter((prompt) => prompt.id !== id));
  }

  pause(): void {
    this.paused.value = this.prompts.value.length > 0;
  }

  private replace(prompts: readonly Prompt[]): void {
    this.prompts.value = prompts;
    if (prompts.length === 0) this.paused.value = false;
    storeText(this.key, prompts.length === 0 ? "" : JSON.stringify(prompts));
  }
}

export function storedText(key: string): string | null {
  try {
    return sessionStorage.getItem(KEY_PREFIX + key);
  } catch {
    return null;
  }
}

/** Stores the text, or removes it if it is empty. Does nothing if the browser refuses. */
export function storeText(key: string, text: string): void {
  try {
    if (text === "") sessionStorage.removeItem(KEY_PREFIX + key);
    else sessionStorage.setItem(KEY_PREFIX + key, text);
  } catch {
    // The storage is full (prompts can hold large images) or disabled. The text then lasts until a reload.
  }
}

export function clearStoredTexts(): void {
  try {
    for (const key of Object.keys(sessionStorage)) {
      if (key.startsWith(KEY_PREFIX)) sessionStorage.removeItem(key);
    }
  } catch {
    // The storage is disabled, so nothing is stored.
  }
}

function isPrompt(value: unknown): value is Prompt {
  return (
    typeof value === "object" &&
    value !== null &&
    "id" in value &&
    "blocks" in value &&
    Array.isArray(value.blocks)
  );
}
