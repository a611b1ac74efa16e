/** Small elements that many components use: icons and error messages. */
import type { ComponentChildren, JSX } from "preact";
import { t } from "../messages/messages.ts";
import { plainError } from "../text/plain-error.ts";
import type { ErrorReport } from "../wire/extension-methods.ts";

/** Decorative drawings. Each is next to a word or inside a labeled button. */

const ICON_PATHS = {
  agent: "M12 3v3M7 9h10a2 2 0 0 1 2 2v6a2 2 0 0 1-2 2H7a2 2 0 0 1-2-2v-6a2 2 0 0 1 2-2ZM9 13.5v1M15 13.5v1",
  archive: "M4 5h16v4H4zM5.5 9v10h13V9M10 12.5h4",
  attach: "m20 11-8.5 8.5a5 5 0 0 1-7-7L13 4a3.3 3.3 0 0 1 4.7 4.7l-8.5 8.5a1.7 1.7 0 0 1-2.4-2.4L14.5 7",
  back: "m14 6-6 6 6 6",
  bell: "M18 16H6l1.5-2V10a4.5 4.5 0 0 1 9 0v4L18 16ZM10.5 19h3",
  branch:
    "M7 6.5a1.8 1.8 0 1 0 0-.1M7 17.5a1.8 1.8 0 1 0 0-.1M17 8.5a1.8 1.8 0 1 0 0-.1" +
    "M7 8.2v7.5M17 10.2c0 3.3-4.5 2.8-8.6 6",
  check: "m5 12.5 4.5 4.5L19 7.5",
  chevron: "m9 6 6 6-6 6",
  close: "M6 6l12 12M18 6 6 18",
  command: "M5 6h14v12H5zM8.5 10l2.5 2.2-2.5 2.3M13 14.5h3",
  copy: "M9 9h10v10H9zM5 15V5h10",
  cross: "M7 7l10 10M17 7 7 17",
  delete: "M5 7h14M10 7V5h4v2M7 7l1 12h8l1-12",
  down: "M12 5v14M6 13l6 6 6-6",
  edit: "m5 19 1-4L16 5l3 3L9 18l-4 1Z",
  execute: "m5 7 5 5-5 5M12 17h7",
  fetch: "M12 4a8 8 0 1 0 0 16 8 8 0 0 0 0-16ZM4 12h16M12 4c3 2.5 3 13.5 0 16M12 4c-3 2.5-3 13.5 0 16",
  folder: "M4 7a1 1 0 0 1 1-1h4l2 2h8a1 1 0 0 1 1 1v8a1 1 0 0 1-1 1H5a1 1 0 0 1-1-1V7Z",
  fork: "M6 4v6c0 3 2 4 6 4h6M14 10l4 4-4 4M6 10v10",
  help:
    "M12 3.5a8.5 8.5 0 1 0 0 17 8.5 8.5 0 0 0 0-17Z" +
    "M9.5 9.5a2.5 2.5 0 1 1 3.7 2.2c-.8.5-1.2 1-1.2 2M12 17v.1",
  home: "m4 11.5 8-7 8 7M6.5 9.5V19h11V9.5",
  inbox: "M4 13h4.5l1.5 2.5h4l1.5-2.5H20M4 13l2.5-7h11L20 13v5a1 1 0 0 1-1 1H5a1 1 0 0 1-1-1v-5Z",
  settings: "M4 7h9M17 7h3M4 17h3M11 17h9M15 5v4M9 15v4",
  share: "M12 14V4M8.5 7.5 12 4l3.5 3.5M6 11v8.5h12V11",
  signOut: "M10 5H5v14h5M14 8l4 4-4 4M18 12H9",
  moon: "M19 14.5A7.5 7.5 0 0 1 9.5 5a7.5 7.5 0 1 0 9.5 9.5Z",
  more: "M6 12h.01M12 12h.01M18 12h.01",
  move: "M5 12h14M14 7l5 5-5 5",
  other: "M12 6.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11Z",
  phone: "M8 3.5h8v17H8zM11 17.5h2",
  plus: "M12 5v14M5 12h14",
  read: "M6 4h8l4 4v12H6V4ZM9 12h6M9 15.5h6",
  queue: "M5 7h14M5 12h9M5 17h6M18 14v6M15 17h6",
  retry: "M19 12a7 7 0 1 1-2.2-5.1M19 4v4h-4",
  review: "M6 4h8l4 4v12H6V4ZM12 10v4M10 12h4M10 17h4",
  undo: "M9 7 5 11l4 4M5 11h9a5 5 0 0 1 0 9h-2",
  search: "M11 5a6 6 0 1 0 0 12 6 6 0 0 0 0-12ZM15.5 15.5 20 20",
  send: "M12 19V5M6 11l6-6 6 6",
  stop: "M7 7h10v10H7z",
  sun:
    "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8ZM12 3v1.5M12 19.5V21M3 12h1.5M19.5 12H21" +
    "M5.6 5.6l1.1 1.1M17.3 17.3l1.1 1.1M18.4 5.6l-1.1 1.1M6.7 17.3l-1.1 1.1",
  switch_mode: "M5 9h12l-3-3M19 15H7l3 3",
  system: "M12 4a8 8 0 1 0 0 16 8 8 0 0 0 0-16ZM12 4v16M12 7.5h4.5M12 12h7.5M12 16.5h4.5",
  think: "M9 17h6M10 20h4M8.5 14.5a5.5 5.5 0 1 1 7 0c-.6.5-.9 1-.9 1.7V17H9.4v-.8c0-.7-.3-1.2-.9-1.7Z",
  warning: "M12 5 3.5 19h17L12 5ZM12 10.5v4M12 16.7v.1",
} as const;

export type IconName = keyof typeof ICON_PATHS;

export function Icon({ name }: { name: IconName }): JSX.Element {
  return (
    <svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path d={ICON_PATHS[name]} />
    </svg>
  );
}

/** How many lines a change adds and removes. */
export function LineCounts({ added, removed }: { added: number; removed: number }) {
  return (
    <span class="line-counts">
      {added > 0 && <span class="added-count">+{added}</span>}{" "}
      {removed > 0 && <span class="removed-count">−{removed}</span>}
    </span>
  );
}

/** An error in plain words. Its own words and the end of the agent's stderr are behind a click. */
export function ErrorView({ error, prefix = "" }: { error: ErrorReport; prefix?: string }) {
  const text = plainError(error);
  return (
    <div class="error-text" role="alert">
      <p>
        {prefix}
        {text}
      </p>
      <ErrorDetails message={error.message === text ? null : error.message} stderrTail={error.stderrTail} />
    </div>
  );
}

/** The exact words of an error, folded. */
export function ErrorDetails({ message, stderrTail }: { message: string | null; stderrTail: string | null }) {
  if (message === null && stderrTail === null) return null;
  return (
    <details class="collapsible error-details">
      <summary>{t("conversation.details")}</summary>
      {message !== null && <p>{message}</p>}
      <StderrTail text={stderrTail} />
    </details>
  );
}

/** A one-line error, announced by screen readers. */
export function ErrorText({ id, children }: { id?: string | undefined; children: ComponentChildren }) {
  return (
    <p id={id} class="error-text" role="alert">
      {children}
    </p>
  );
}

function StderrTail({ text }: { text: string | null }) {
  if (text === null) return null;
  return (
    <pre class="stderr-tail" tabIndex={0} aria-label={t("conversation.stderr")}>
      {text}
    </pre>
  );
}
