/** The review: all changes of a session by file and hunk, to revert, comment on, and commit. */
import { useEffect, useRef } from "preact/hooks";
import { t } from "../messages/messages.ts";
import { useGateway } from "../state/gateway.ts";
import { Review, totalLines } from "../state/review.ts";
import type { Session } from "../state/session.ts";
import { safeLink } from "../text/untrusted-text.ts";
import { REVIEW_SCOPES, type ReviewedFile } from "../wire/review-methods.ts";
import { Icon, LineCounts } from "./elements.tsx";
import { ReviewActions } from "./ReviewActions.tsx";
import { ReviewFile } from "./ReviewFile.tsx";

const SCOPE_NAMES = {
  turn: "review.turn",
  session: "review.session",
  uncommitted: "review.uncommitted",
} as const;

export function ReviewView({ session }: { session: Session }) {
  const review = (session.review.value ??= new Review(session));
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    heading.current?.focus();
    void review.load(review.result.value?.scope ?? null);
  }, [review]);
  // The agent may have changed more when its turn ends.
  const running = session.running.value;
  useEffect(() => {
    if (!running && review.result.value) void review.load(review.result.value.scope);
  }, [running]);
  const result = review.result.value;
  const files = result?.files ?? [];
  const close = () => {
    session.reviewing.value = false;
    requestAnimationFrame(() => document.getElementById("prompt")?.focus());
  };
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.key === "Escape" && !event.defaultPrevented && !document.querySelector("dialog[open]")) close();
    };
    addEventListener("keydown", onKeyDown);
    return () => removeEventListener("keydown", onKeyDown);
  }, [session]);
  return (
    <section class="review" aria-label={t("review.title")}>
      <header class="review-header">
        <button type="button" class="quiet small" onClick={close}>
          <Icon name="back" /> {t("review.back")}
        </button>
        <h3 ref={heading} tabIndex={-1}>
          {t("review.title")}
        </h3>
        <ScopeChoice review={review} />
        <Totals files={files} />
      </header>
      <div class="review-body">
        {files.length > 1 && <FileList files={files} />}
        <div class="review-files">
          <WaitingRequests session={session} onAnswer={close} />
          <Report review={review} />
          {running && <p class="muted">{t("review.running")}</p>}
          {result === null && review.busy.value && <p class="muted">{t("review.loading")}</p>}
          {result !== null && files.length === 0 && <Empty review={review} />}
          {files.map((file) => (
            <ReviewFile key={file.path} file={file} review={review} canCommit={result?.git !== null} />
          ))}
        </div>
      </div>
      {files.length > 0 && <ReviewActions review={review} onSent={close} />}
    </section>
  );
}

/** Requests of the agent are answered in the conversation. */
function WaitingRequests({ session, onAnswer }: { session: Session; onAnswer: () => void }) {
  const { agent, sessionId } = session.address;
  const waiting = useGateway().requests.value.some(
    (request) => request.agent === agent && request.sessionId === sessionId,
  );
  if (!waiting) return null;
  return (
    <p class="notice warning" role="status">
      <Icon name="warning" />
      <span>{t("inbox.waiting", { agent })}</span>
      <button type="button" class="small" onClick={onAnswer}>
        {t("review.answer")}
      </button>
    </p>
  );
}

function ScopeChoice({ review }: { review: Review }) {
  const result = review.result.value;
  const current = result?.scope;
  // Outside of a repository nothing can be committed.
  const scopes = REVIEW_SCOPES.filter((scope) => scope !== "uncommitted" || !result || result.git !== null);
  return (
    <div class="segments" role="group" aria-label={t("review.scope")}>
      {scopes.map((scope) => (
        <button
          type="button"
          key={scope}
          aria-pressed={scope === current}
          onClick={() => void review.load(scope)}
        >
          {t(SCOPE_NAMES[scope])}
        </button>
      ))}
    </div>
  );
}

function Totals({ files }: { files: readonly ReviewedFile[] }) {
  if (files.length === 0) return null;
  const { added, removed } = totalLines(files);
  return (
    <span class="review-totals">
      {t("review.fileCount", { count: files.length })} <LineCounts added={added} removed={removed} />
    </span>
  );
}

/** The files, to jump to one. */
function FileList({ files }: { files: readonly ReviewedFile[] }) {
  return (
    <nav class="review-list" aria-label={t("review.files")}>
      <ul>
        {files.map((file) => (
          <li key={file.path}>
            <button
              type="button"
              class="quiet small"
              title={file.name}
              onClick={() => {
                const target = document.querySelector<HTMLElement>(`[data-file="${CSS.escape(file.path)}"]`);
                target?.scrollIntoView({ block: "start" });
                target?.focus({ preventScroll: true });
              }}
            >
              <span class="path">{file.name}</span>
              <LineCounts added={file.added} removed={file.removed} />
            </button>
          </li>
        ))}
      </ul>
    </nav>
  );
}

function Empty({ review }: { review: Review }) {
  const scope = review.result.value?.scope ?? "turn";
  const texts = {
    turn: "review.noneInTurn",
    session: "review.noneInSession",
    uncommitted: "review.allCommitted",
  } as const;
  return (
    <div class="empty-state">
      <h4>{t("review.none")}</h4>
      <p>{t(texts[scope])}</p>
    </div>
  );
}

/** What the last action did, or why it failed. */
function Report({ review }: { review: Review }) {
  const report = review.report.value;
  if (!report) return null;
  const { text, failed, reverted, url } = report;
  const link = url === undefined ? null : safeLink(url);
  return (
    <p class={`notice ${failed ? "error" : "info"}`} role={failed ? "alert" : "status"}>
      <Icon name={failed ? "warning" : "check"} />
      <span>
        {text}{" "}
        {link !== null && (
          <a href={link} target="_blank" rel="noopener noreferrer">
            {link}
          </a>
        )}
      </span>
      {reverted && (
        <button type="button" class="small" onClick={() => void review.undo(reverted)}>
          {t("review.bringBack")}
        </button>
      )}
      <button type="button" class="quiet small" onClick={() => (review.report.value = null)}>
        {t("app.dismiss")}
      </button>
    </p>
  );
}
