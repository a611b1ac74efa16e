/** One changed file of the review with its hunks, and the comments on its lines. */
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { t } from "../messages/messages.ts";
import { hunkRows, type Review } from "../state/review.ts";
import type { DiffRow } from "../text/diff.ts";
import type { ReviewedFile, ReviewHunk } from "../wire/review-methods.ts";
import { UnifiedTable } from "./DiffTable.tsx";
import { Icon, LineCounts } from "./elements.tsx";

interface ReviewFileProps {
  file: ReviewedFile;
  review: Review;
  /** The folder is a repository. */
  canCommit: boolean;
}

export function ReviewFile({ file, review, canCommit }: ReviewFileProps) {
  const { name, path } = file;
  const included = !review.excluded.value.has(path);
  const include = (checked: boolean) => {
    const excluded = new Set(review.excluded.value);
    if (checked) excluded.delete(path);
    else excluded.add(path);
    review.excluded.value = excluded;
  };
  return (
    <figure
      class="diff reviewed"
      data-file={path}
      tabIndex={-1}
      aria-label={t("diff.label", { name, added: file.added, removed: file.removed })}
    >
      <figcaption>
        {canCommit && file.hunks.length > 0 && (
          <input
            type="checkbox"
            aria-label={t("review.include", { name })}
            title={t("review.include", { name })}
            checked={included}
            onChange={(event) => include(event.currentTarget.checked)}
          />
        )}
        <span class="path">{name}</span>
        {file.whole === "created" && <span class="tag">{t("diff.newFile")}</span>}
        {file.whole === "deleted" && <span class="tag">{t("review.deleted")}</span>}
        {file.note && <span class="tag">{file.note}</span>}
        <LineCounts added={file.added} removed={file.removed} />
      </figcaption>
      {file.problem && <p class="muted review-problem">{t("review.problem", { reason: file.problem })}</p>}
      {file.hunks.map((hunk) => (
        <HunkView key={hunk.id} hunk={hunk} file={file} review={review} />
      ))}
    </figure>
  );
}

interface HunkViewProps {
  hunk: ReviewHunk;
  file: ReviewedFile;
  review: Review;
}

function HunkView({ hunk, file, review }: HunkViewProps) {
  const { rows, lines } = useMemo(() => hunkRows(hunk), [hunk]);
  const [editing, setEditing] = useState<number | null>(null);
  const comments = review.comments.value.filter((comment) => comment.hunk === hunk.id);
  /** The last row with each line number: comments are below it. */
  const lastRows = useMemo(() => new Map(rows.map((row) => [lines.get(row) ?? 0, row])), [rows, lines]);
  const firstChange = rows.find((row) => row.kind !== "same");
  const below = (row: DiffRow) => {
    const line = lines.get(row) ?? 0;
    if (lastRows.get(line) !== row) return null;
    const comment = comments.find((one) => one.line === line);
    if (editing === line) {
      const save = (text: string) => {
        review.setComment({ hunk: hunk.id, line, text });
        setEditing(null);
      };
      return (
        <CommentForm line={line} text={comment?.text ?? ""} onSave={save} onCancel={() => setEditing(null)} />
      );
    }
    return (
      comment && (
        <div class="comment">
          <p>{comment.text}</p>
          <button type="button" class="quiet small" onClick={() => setEditing(line)}>
            {t("review.editComment")}
          </button>
          <button
            type="button"
            class="quiet small"
            onClick={() => review.setComment({ hunk: hunk.id, line, text: "" })}
          >
            {t("review.removeComment")}
          </button>
        </div>
      )
    );
  };
  const action = (row: DiffRow) => {
    const line = lines.get(row) ?? 0;
    return (
      <button
        type="button"
        class="comment-line"
        tabIndex={row === firstChange ? 0 : -1}
        aria-label={t("review.commentOn", { line })}
        title={t("review.commentOn", { line })}
        onClick={() => setEditing(line)}
      >
        <Icon name="plus" />
      </button>
    );
  };
  return (
    <section class="hunk" aria-label={t("review.hunk", { name: file.name, line: hunk.start })}>
      <header>
        <span class="muted">{t("review.line", { line: hunk.start })}</span>
        <button
          type="button"
          class="quiet small"
          aria-disabled={review.busy.value}
          onClick={() => void review.revert(hunk)}
        >
          <Icon name="undo" /> {t("review.revert")}
        </button>
      </header>
      <div class="diff-rows" onKeyDown={moveBetweenLines}>
        <UnifiedTable rows={rows} path={file.path} below={below} action={action} />
      </div>
    </section>
  );
}

/** Up and down move between the buttons of the lines. */
function moveBetweenLines(event: KeyboardEvent): void {
  const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
  if (step === 0 || !(event.currentTarget instanceof HTMLElement)) return;
  const buttons = [...event.currentTarget.querySelectorAll<HTMLElement>(".comment-line")];
  const at = buttons.indexOf(document.activeElement as HTMLElement);
  if (at < 0) return;
  buttons[at + step]?.focus();
  event.preventDefault();
}

interface CommentFormProps {
  line: number;
  text: string;
  onSave: (text: string) => void;
  onCancel: () => void;
}

function CommentForm({ line, text: initial, onSave, onCancel }: CommentFormProps) {
  const [text, setText] = useState(initial);
  const field = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => field.current?.focus(), []);
  return (
    <form
      class="comment"
      onSubmit={(event) => {
        event.preventDefault();
        onSave(text);
      }}
    >
      <textarea
        ref={field}
        rows={2}
        dir="auto"
        aria-label={t("review.commentOn", { line })}
        placeholder={t("review.commentPlaceholder")}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Escape") onCancel();
          else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) onSave(text);
          else return;
          event.preventDefault();
        }}
      />
      <div class="button-row">
        <button type="submit" class="primary small">
          {t("review.saveComment")}
        </button>
        <button type="button" class="quiet small" onClick={onCancel}>
          {t("app.cancel")}
        </button>
      </div>
    </form>
  );
}
