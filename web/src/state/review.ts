/** The review of one session: its changes, the user's comments on lines, and what the user does with them. */
import { batch, computed, signal } from "@preact/signals";
import { t } from "../messages/messages.ts";
import type { DiffRow } from "../text/diff.ts";
import { markWords } from "../text/diff.ts";
import { errorReport } from "../wire/extension-methods.ts";
import {
  readReview,
  type ReviewedFile,
  type ReviewHunk,
  type ReviewResult,
  type ReviewScope,
} from "../wire/review-methods.ts";
import { newPrompt } from "./prompt-queue.ts";
import type { Session } from "./session.ts";

export interface ReviewComment {
  hunk: string;
  line: number;
  text: string;
}

/** What the last action did. */
export interface ReviewReport {
  text: string;
  failed: boolean;
  /** The reverted change, which can be brought back. */
  reverted?: ReviewHunk;
  /** The address of the pull request. */
  url?: string;
}

export interface PullRequestDraft {
  title: string;
  body: string;
  branch: string;
}

export class Review {
  readonly result = signal<ReviewResult | null>(null);
  readonly busy = signal(false);
  readonly report = signal<ReviewReport | null>(null);
  readonly comments = signal<readonly ReviewComment[]>([]);
  /** The files that the next commit leaves out. */
  readonly excluded = signal<ReadonlySet<string>>(new Set());
  /** The files of the next commit. */
  readonly chosen = computed(() => {
    const files = this.result.value?.files ?? [];
    return files.filter((file) => file.hunks.length > 0 && !this.excluded.value.has(file.path));
  });
  private readonly session: Session;

  constructor(session: Session) {
    this.session = session;
  }

  /** Reads the changes; without a scope, the first one that has any. */
  async load(scope: ReviewScope | null = null): Promise<void> {
    await this.run(() => this.read(scope));
  }

  /** Takes a change back. */
  async revert(hunk: ReviewHunk): Promise<void> {
    await this.run(async () => {
      try {
        await this.call("/revert", { scope: this.scope, hunk: hunk.id });
      } catch (error) {
        await this.read(this.scope).catch(() => undefined); // what is shown was out of date
        throw error;
      }
      this.comments.value = this.comments.value.filter((comment) => comment.hunk !== hunk.id);
      await this.read(this.scope);
      return { text: t("review.reverted"), failed: false, reverted: hunk };
    });
  }

  /** Brings a reverted change back. */
  async undo(hunk: ReviewHunk): Promise<void> {
    await this.run(async () => {
      await this.call("/revert", { scope: this.scope, hunk: hunk.id, undo: true });
      await this.read(this.scope);
      return { text: t("review.broughtBack"), failed: false };
    });
  }

  /** Writes a comment on a line; an empty text removes it. */
  setComment({ hunk, line, text }: ReviewComment): void {
    const others = this.comments.value.filter((one) => one.hunk !== hunk || one.line !== line);
    this.comments.value = text.trim() === "" ? others : [...others, { hunk, line, text: text.trim() }];
  }

  /** Sends all comments to the agent as one prompt. */
  async sendComments(): Promise<boolean> {
    return this.run(async () => {
      const result = await this.call("/comment", { scope: this.scope, comments: this.comments.value });
      const { prompt } = result;
      if (typeof prompt !== "string" || prompt === "") return;
      this.session.submit(newPrompt([{ type: "text", text: prompt }]));
      this.comments.value = [];
    });
  }

  async commit(message: string): Promise<boolean> {
    const paths = this.chosen.value.map((file) => file.path);
    return this.run(async () => {
      const { commit } = await this.call("/commit", { message, paths });
      await this.read(this.scope);
      return { text: t("review.committed", { commit: String(commit) }), failed: false };
    });
  }

  async openPullRequest(draft: PullRequestDraft): Promise<boolean> {
    return this.run(async () => {
      const { url } = await this.call("/pull_request", { ...draft });
      await this.read(this.scope);
      return { text: t("review.pullRequestOpened"), failed: false, url: String(url) };
    });
  }

  private get scope(): ReviewScope {
    return this.result.value?.scope ?? "turn";
  }

  private async read(scope: ReviewScope | null): Promise<void> {
    this.result.value = readReview(await this.call("", scope === null ? {} : { scope }));
  }

  private call(method: string, params: Record<string, unknown>): Promise<Record<string, unknown>> {
    const { connection, address } = this.session;
    if (!connection) return Promise.reject(new Error(t("connection.missing")));
    return connection.callGateway(`review${method}`, { sessionId: address.sessionId, ...params });
  }

  /** Runs one action at a time, and reports what it did. Returns whether it succeeded. */
  private async run(action: () => Promise<ReviewReport | void>): Promise<boolean> {
    if (this.busy.value) return false;
    this.busy.value = true;
    this.report.value = null;
    try {
      const report = await action();
      batch(() => {
        this.busy.value = false;
        this.report.value = report ?? null;
      });
      return true;
    } catch (error) {
      batch(() => {
        this.busy.value = false;
        this.report.value = { text: errorReport(error).message, failed: true };
      });
      return false;
    }
  }
}

/** The rows of a hunk, and the line of each for comments. */
export interface HunkRows {
  rows: DiffRow[];
  lines: ReadonlyMap<DiffRow, number>;
}

const KINDS = { "+": "added", "-": "removed", " ": "same" } as const;

export function hunkRows(hunk: ReviewHunk): HunkRows {
  const lines = new Map<DiffRow, number>();
  const rows = hunk.lines.map(({ sign, line, text }) => {
    const kind = KINDS[sign];
    const row: DiffRow = {
      kind,
      oldLine: null,
      newLine: kind === "removed" ? null : line,
      spans: [{ text, changed: false }],
    };
    lines.set(row, line);
    return row;
  });
  markWords(rows);
  return { rows, lines };
}

/** How many lines all files together add and remove. */
export function totalLines(files: readonly ReviewedFile[]): { added: number; removed: number } {
  return {
    added: files.reduce((sum, file) => sum + file.added, 0),
    removed: files.reduce((sum, file) => sum + file.removed, 0),
  };
}
