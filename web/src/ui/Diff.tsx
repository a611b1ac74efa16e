/** A change to a file: one text below the other, or side by side where there is room for it. */
import { useMemo, useState } from "preact/hooks";
import { difference, sideBySide, type Row } from "../text/diff.ts";
import { diffLayout } from "./theme.ts";
import { useWide } from "./media.ts";
import { within } from "./format.ts";

const SHOWN = 300;

export function Diff({ path, oldText, newText, cwd }: { path: string; oldText: string | null; newText: string; cwd: string }) {
  const diff = useMemo(() => difference(oldText, newText), [oldText, newText]);
  const [all, setAll] = useState(false);
  const wide = useWide(1180);
  const split = wide && diffLayout.value === "auto" && diff.removed > 0 && diff.added > 0;
  const name = within(path, cwd);
  const rows = all ? diff.rows : diff.rows.slice(0, SHOWN);
  return (
    <figure class="diff" aria-label={`Change to ${name}: ${diff.added} lines added, ${diff.removed} removed`}>
      <figcaption>
        <span class="path">{name}</span>
        {oldText === null && <span class="tag">new file</span>}
        <span class="counts">
          <span class="plus">+{diff.added}</span> {diff.removed > 0 && <span class="minus">−{diff.removed}</span>}
        </span>
        {wide && diff.removed > 0 && diff.added > 0 && (
          <button
            type="button"
            class="quiet small"
            aria-pressed={split}
            onClick={() => {
              diffLayout.value = split ? "unified" : "auto";
            }}
          >
            Side by side
          </button>
        )}
      </figcaption>
      <div class="rows" tabIndex={0} role="region" aria-label={`Lines of ${name}`}>
        {diff.coarse && <p class="faint">Too different to compare line by line.</p>}
        {diff.rows.length === 0 && <p class="faint">No lines.</p>}
        <table class={split ? "split" : ""}>
          {split && (
            <colgroup>
              <col class="wide-number" />
              <col class="narrow" />
              <col />
              <col class="wide-number" />
              <col class="narrow" />
              <col />
            </colgroup>
          )}
          <tbody>{split ? sideBySide(rows).map((pair, index) => <Split key={index} {...pair} />) : rows.map((row, index) => <Unified key={index} row={row} />)}</tbody>
        </table>
      </div>
      {rows.length < diff.rows.length && (
        <button type="button" class="quiet small" onClick={() => setAll(true)}>
          Show all {diff.rows.length} lines
        </button>
      )}
    </figure>
  );
}

const SIGNS = { added: "+", removed: "−", same: " ", gap: " " } as const;

function Unified({ row }: { row: Row }) {
  if (row.kind === "gap") return <Gap columns={4} />;
  return (
    <tr class={row.kind}>
      <td class="number">{row.oldLine}</td>
      <td class="number">{row.newLine}</td>
      <td class="sign">{SIGNS[row.kind]}</td>
      <Line row={row} />
    </tr>
  );
}

function Split({ left, right }: { left: Row | null; right: Row | null }) {
  if (left?.kind === "gap") return <Gap columns={6} />;
  return (
    <tr>
      <Half row={left} number={left?.oldLine ?? null} />
      <Half row={right} number={right?.newLine ?? null} />
    </tr>
  );
}

function Half({ row, number }: { row: Row | null; number: number | null }) {
  const kind = row?.kind ?? "empty";
  return (
    <>
      <td class={`number ${kind}`}>{number}</td>
      <td class={`sign ${kind}`}>{row ? SIGNS[row.kind] : ""}</td>
      {row ? <Line row={row} kind={kind} /> : <td class="line empty" />}
    </>
  );
}

function Line({ row, kind = "" }: { row: Row; kind?: string }) {
  return (
    <td class={`line ${kind}`}>
      {row.parts.map((part, index) => (part.changed ? <mark key={index}>{part.text}</mark> : part.text))}
    </td>
  );
}

function Gap({ columns }: { columns: number }) {
  return (
    <tr class="gap">
      <td colSpan={columns} aria-label="Unchanged lines left out">
        ⋯
      </td>
    </tr>
  );
}
