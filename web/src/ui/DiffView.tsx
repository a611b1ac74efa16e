/** A change to a file, as a unified or a side-by-side diff. */
import { useMemo, useState } from "preact/hooks";
import { t } from "../messages/messages.ts";
import { diffTexts } from "../text/diff.ts";
import { relativePath } from "../text/format.ts";
import { diffLayout, useMinWidth } from "./appearance.ts";
import { LineCounts } from "./elements.tsx";
import { SplitTable, UnifiedTable } from "./DiffTable.tsx";

const VISIBLE_ROWS = 300;
const SIDE_BY_SIDE_WIDTH = 1180;

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
  const rows = useMemo(() => (showAll ? diff.rows : diff.rows.slice(0, VISIBLE_ROWS)), [diff, showAll]);
  return (
    <figure
      class={split ? "diff wide" : "diff"}
      aria-label={t("diff.label", { name, added: diff.added, removed: diff.removed })}
    >
      <figcaption>
        <span class="path">{name}</span>
        {oldText === null && <span class="tag">{t("diff.newFile")}</span>}
        <LineCounts added={diff.added} removed={diff.removed} />
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
        {diff.rows.length === 0 && (
          <p class="muted">{t(newText === "" ? "diff.empty" : "diff.same")}</p>
        )}
        {split ? <SplitTable rows={rows} path={path} /> : <UnifiedTable rows={rows} path={path} />}
      </div>
      {rows.length < diff.rows.length && (
        <button type="button" class="quiet small" onClick={() => setShowAll(true)}>
          {t("diff.showAll", { count: diff.rows.length })}
        </button>
      )}
    </figure>
  );
}
