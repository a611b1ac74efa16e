/** A change to a file, as a unified or a side-by-side diff. */
import { useMemo, useState } from "preact/hooks";
import { t } from "../messages/messages.ts";
import { diffTexts, sideBySide, type DiffRow, type DiffRowPair } from "../text/diff.ts";
import { relativePath } from "../text/format.ts";
import { diffLayout, useMinWidth } from "./appearance.ts";

const VISIBLE_ROWS = 300;
const SIDE_BY_SIDE_WIDTH = 1180;
const SIGNS = { added: "+", removed: "−", same: " ", gap: " " } as const;

interface DiffViewProps {
  path: string;
  /** Null for a new file. */
  oldText: string | null;
  newText: string;
  cwd: string;
}

export function DiffView({ path, oldText, newText, cwd }: DiffViewProps) {
  const diff = useMemo(() => diffTexts(oldText, newText), [oldText, newText]);
  const [showAll, setShowAll] = useState(false);
  const canSplit = useMinWidth(SIDE_BY_SIDE_WIDTH) && diff.removed > 0 && diff.added > 0;
  const split = canSplit && diffLayout.value === "auto";
  const name = relativePath(path, cwd);
  const rows = showAll ? diff.rows : diff.rows.slice(0, VISIBLE_ROWS);
  return (
    <figure
      class="diff"
      aria-label={t("diff.label", { name, added: diff.added, removed: diff.removed })}
    >
      <figcaption>
        <span class="path">{name}</span>
        {oldText === null && <span class="tag">{t("diff.newFile")}</span>}
        <span class="line-counts">
          <span class="added-count">+{diff.added}</span>{" "}
          {diff.removed > 0 && <span class="removed-count">−{diff.removed}</span>}
        </span>
        {canSplit && (
          <button
            type="button"
            class="quiet small"
            aria-pressed={split}
            onClick={() => {
              diffLayout.value = split ? "unified" : "auto";
            }}
          >
            {t("diff.sideBySide")}
          </button>
        )}
      </figcaption>
      <div class="diff-rows" tabIndex={0} role="region" aria-label={t("diff.lines", { name })}>
        {diff.timedOut && <p class="muted">{t("diff.tooDifferent")}</p>}
        {diff.rows.length === 0 && <p class="muted">{t("diff.empty")}</p>}
        {split ? <SplitTable rows={rows} /> : <UnifiedTable rows={rows} />}
      </div>
      {rows.length < diff.rows.length && (
        <button type="button" class="quiet small" onClick={() => setShowAll(true)}>
          {t("diff.showAll", { count: diff.rows.length })}
        </button>
      )}
    </figure>
  );
}

function UnifiedTable({ rows }: { rows: readonly DiffRow[] }) {
  return (
    <table>
      <tbody>
        {rows.map((row, index) => (
          <UnifiedRow key={index} row={row} />
        ))}
      </tbody>
    </table>
  );
}

function UnifiedRow({ row }: { row: DiffRow }) {
  if (row.kind === "gap") return <GapRow columns={4} />;
  return (
    <tr class={row.kind}>
      <td class="line-number">{row.oldLine}</td>
      <td class="line-number">{row.newLine}</td>
      <td class="sign">{SIGNS[row.kind]}</td>
      <LineCell row={row} />
    </tr>
  );
}

function SplitTable({ rows }: { rows: readonly DiffRow[] }) {
  return (
    <table class="split">
      <colgroup>
        <col class="line-number-column" />
        <col class="sign-column" />
        <col />
        <col class="line-number-column" />
        <col class="sign-column" />
        <col />
      </colgroup>
      <tbody>
        {sideBySide(rows).map((pair, index) => (
          <SplitRow key={index} {...pair} />
        ))}
      </tbody>
    </table>
  );
}

function SplitRow({ left, right }: DiffRowPair) {
  if (left?.kind === "gap") return <GapRow columns={6} />;
  return (
    <tr>
      <SplitCells row={left} lineNumber={left?.oldLine ?? null} />
      <SplitCells row={right} lineNumber={right?.newLine ?? null} />
    </tr>
  );
}

function SplitCells({ row, lineNumber }: { row: DiffRow | null; lineNumber: number | null }) {
  const kind = row?.kind ?? "empty";
  return (
    <>
      <td class={`line-number ${kind}`}>{lineNumber}</td>
      <td class={`sign ${kind}`}>{row ? SIGNS[row.kind] : ""}</td>
      {row ? <LineCell row={row} kind={kind} /> : <td class="line-text empty" />}
    </>
  );
}

function LineCell({ row, kind = "" }: { row: DiffRow; kind?: string }) {
  return (
    <td class={`line-text ${kind}`}>
      {row.spans.map((span, index) => (span.changed ? <mark key={index}>{span.text}</mark> : span.text))}
    </td>
  );
}

function GapRow({ columns }: { columns: number }) {
  return (
    <tr class="gap">
      <td colSpan={columns} aria-label={t("diff.hidden")}>
        ⋯
      </td>
    </tr>
  );
}
