/** The values of `_accord/review` and its sub-methods. */
import { asRecord, nonEmptyText, readList } from "./extension-methods.ts";

export type ReviewScope = "turn" | "session" | "uncommitted";
export const REVIEW_SCOPES: readonly ReviewScope[] = ["turn", "session", "uncommitted"];

export interface HunkLine {
  sign: "+" | "-" | " ";
  /** The number in the file as it is now. A removed line has that of the line after it. */
  line: number;
  text: string;
}

/** One change of a file. */
export interface ReviewHunk {
  id: string;
  start: number;
  lines: HunkLine[];
}

export interface ReviewedFile {
  path: string;
  /** The path below the folder of the session. */
  name: string;
  added: number;
  removed: number;
  hunks: ReviewHunk[];
  whole: "created" | "deleted" | null;
  /** Why the change cannot be shown. */
  problem: string | null;
  note: string | null;
}

export interface ReviewResult {
  scope: ReviewScope;
  files: ReviewedFile[];
  /** Null outside of a repository. */
  git: { branch: string; pullRequest: { needsBranch: boolean } | null } | null;
}

/** Reads the result of `_accord/review`. */
export function readReview(result: Record<string, unknown>): ReviewResult {
  const git = result["git"] === undefined ? null : asRecord(result["git"]);
  const pullRequest = git?.["pullRequest"];
  return {
    scope: REVIEW_SCOPES.find((scope) => scope === result["scope"]) ?? "turn",
    files: readList(result["files"], readFile),
    git: git && {
      branch: nonEmptyText(git["branch"]) ?? "",
      pullRequest:
        pullRequest === undefined ? null : { needsBranch: asRecord(pullRequest)["needsBranch"] === true },
    },
  };
}

function readFile(value: unknown): ReviewedFile | null {
  const item = asRecord(value);
  const path = nonEmptyText(item["path"]);
  if (path === null) return null;
  const whole = item["whole"];
  return {
    path,
    name: nonEmptyText(item["name"]) ?? path,
    added: Number(item["added"]) || 0,
    removed: Number(item["removed"]) || 0,
    hunks: readList(item["hunks"], readHunk),
    whole: whole === "created" || whole === "deleted" ? whole : null,
    problem: nonEmptyText(item["problem"]),
    note: nonEmptyText(item["note"]),
  };
}

function readHunk(value: unknown): ReviewHunk | null {
  const item = asRecord(value);
  const id = nonEmptyText(item["id"]);
  if (id === null) return null;
  return { id, start: Number(item["start"]) || 1, lines: readList(item["lines"], readLine) };
}

function readLine(value: unknown): HunkLine | null {
  if (!Array.isArray(value)) return null;
  const [sign, line, text] = value as unknown[];
  if ((sign !== "+" && sign !== "-" && sign !== " ") || typeof line !== "number") return null;
  return { sign, line, text: typeof text === "string" ? text : "" };
}
