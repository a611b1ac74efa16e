/** What is being completed at the caret: a command at the start of the prompt, or a file after an `@`. */

export interface Completing {
  kind: "command" | "file";
  /** Where the word begins, its mark included. */
  start: number;
  end: number;
  query: string;
}

export function completing(text: string, caret: number): Completing | null {
  const before = text.slice(0, caret);
  const command = /^\s*\/([^\s/]*)$/.exec(before);
  if (command) {
    const query = command[1] ?? "";
    return { kind: "command", start: caret - query.length - 1, end: caret, query };
  }
  const file = /(?:^|[\s([{"'`])@([^\s@]*)$/.exec(before);
  if (file) {
    const query = file[1] ?? "";
    return { kind: "file", start: caret - query.length - 1, end: caret, query };
  }
  return null;
}

/** The text with the word replaced, and the caret behind it. */
export function completed(text: string, word: Completing, value: string): { text: string; caret: number } {
  const gap = /^\s/.test(text.slice(word.end)) ? "" : " ";
  const inserted = value + gap;
  return { text: text.slice(0, word.start) + inserted + text.slice(word.end), caret: word.start + inserted.length + (gap ? 0 : 1) };
}

/** Names that begin with the query first, then those that hold it, then those that have its letters in order. */
export function ranked<T>(items: readonly T[], query: string, name: (item: T) => string): T[] {
  const wanted = query.toLowerCase();
  const scored = items.flatMap((item, index) => {
    const said = name(item).toLowerCase();
    const score = said.startsWith(wanted) ? 0 : said.includes(wanted) ? 1 : inOrder(said, wanted) ? 2 : 3;
    return score < 3 ? [{ item, score, index }] : [];
  });
  return scored.sort((a, b) => a.score - b.score || a.index - b.index).map((entry) => entry.item);
}

function inOrder(text: string, letters: string): boolean {
  let at = 0;
  for (const letter of letters) {
    at = text.indexOf(letter, at) + 1;
    if (at === 0) return false;
  }
  return true;
}
