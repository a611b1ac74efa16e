/** The gateway's list of what waits for a person, joined with what was asked on our own connections. */
import { signal } from "@preact/signals";
import { record, type InboxItem } from "../wire/vendor.ts";
import { fromInbox, questionKey, summary, type Question } from "./questions.ts";

export class Inbox {
  private readonly items = signal<ReadonlyMap<string, InboxItem>>(new Map());
  /** Off the screen at once; the gateway's word that it is gone comes a moment later. */
  private readonly gone = signal<ReadonlySet<string>>(new Set());
  private readonly send: (id: string, result: Record<string, unknown>) => Promise<unknown>;

  constructor(send: (id: string, result: Record<string, unknown>) => Promise<unknown>) {
    this.send = send;
  }

  get empty(): boolean {
    return this.items.value.size === 0;
  }

  replace(items: readonly InboxItem[]): void {
    this.items.value = new Map(items.map((item) => [item.id, item]));
    this.gone.value = new Set();
  }

  /** The result is the question in one line. */
  add(item: InboxItem): string {
    this.items.value = new Map(this.items.value).set(item.id, item);
    return summary(fromInbox(item, () => Promise.resolve()));
  }

  remove(id: string): void {
    const items = new Map(this.items.value);
    const item = items.get(id);
    items.delete(id);
    this.items.value = items;
    if (item) this.unanswered(keyOf(item));
  }

  /** Everything there is, each once: what was asked directly is answered directly. */
  with(direct: readonly Question[]): Question[] {
    const keys = new Set(direct.map((question) => question.key));
    const listed = [...this.items.value.values()].map((item) => fromInbox(item, (result) => this.answer(item, result)));
    return [...direct, ...listed.filter((question) => !keys.has(question.key))].filter((question) => !this.gone.value.has(question.key));
  }

  answered(key: string): void {
    if ([...this.items.value.values()].some((item) => keyOf(item) === key)) this.gone.value = new Set(this.gone.value).add(key);
  }

  unanswered(key: string): void {
    if (!this.gone.value.has(key)) return;
    const keys = new Set(this.gone.value);
    keys.delete(key);
    this.gone.value = keys;
  }

  private async answer(item: InboxItem, result: unknown): Promise<void> {
    this.answered(keyOf(item));
    try {
      await this.send(item.id, record(result));
    } catch (error) {
      this.unanswered(keyOf(item));
      throw error;
    }
  }
}

function keyOf(item: InboxItem): string {
  return questionKey(item.method, item.sessionId, item.params);
}
