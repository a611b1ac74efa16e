/** Prompts that wait for the end of a turn. They outlive a reload of the page, in the tab that wrote them. */
import type * as acp from "@agentclientprotocol/sdk";
import { signal } from "@preact/signals";
import { keep, kept } from "./keeping.ts";

export interface Prompt {
  id: string;
  blocks: acp.ContentBlock[];
}

export function prompt(blocks: acp.ContentBlock[]): Prompt {
  return { id: `${Date.now()}-${Math.random().toString(36).slice(2)}`, blocks };
}

export class Waiting {
  readonly prompts = signal<readonly Prompt[]>([]);
  /** After a failed turn the rest waits until the user says so. */
  readonly held = signal(false);
  private readonly key: string;

  constructor(session: string) {
    this.key = `waiting.${session}`;
    try {
      const before: unknown = JSON.parse(kept(this.key) ?? "[]");
      if (Array.isArray(before)) this.prompts.value = before.filter(isPrompt);
      this.held.value = this.prompts.value.length > 0;
    } catch {
      // What cannot be read is not there.
    }
  }

  add(item: Prompt): void {
    this.held.value = false;
    this.put([...this.prompts.value, item]);
  }

  take(): Prompt | undefined {
    const [first, ...rest] = this.prompts.value;
    if (first) this.put(rest);
    return first;
  }

  putBack(item: Prompt): void {
    this.put([item, ...this.prompts.value]);
  }

  remove(id: string): Prompt | undefined {
    const found = this.prompts.value.find((item) => item.id === id);
    this.put(this.prompts.value.filter((item) => item.id !== id));
    return found;
  }

  hold(): void {
    this.held.value = this.prompts.value.length > 0;
  }

  private put(items: readonly Prompt[]): void {
    this.prompts.value = items;
    if (items.length === 0) this.held.value = false;
    // Pictures may be larger than the browser keeps; the prompts then live as long as the page.
    keep(this.key, items.length === 0 ? "" : JSON.stringify(items));
  }
}

function isPrompt(value: unknown): value is Prompt {
  return typeof value === "object" && value !== null && "id" in value && "blocks" in value && Array.isArray(value.blocks);
}
