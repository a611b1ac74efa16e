/** The rows of a diff with syntax colors and marked words, unified or side by side. */
import { Fragment, type ComponentChildren } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { t } from "../messages/messages.ts";
import { coloredSpans, sideBySide, type DiffRow, type DiffRowPair } from "../text/diff.ts";
import { baseName } from "../text/format.ts";
import { highlightLines, type ColoredText } from "../text/highlight.ts";

const SIGNS = { added: "+", removed: "−", same: " ", gap: " " } as const;

type Colors = ReadonlyMap<DiffRow, readonly ColoredText[]>;
const NO_COLORS: Colors = new Map();

interface DiffTableProps {
  rows: readonly DiffRow[];
  path: string;
  /** Something below a row, such as a comment. */
  below?: (row: DiffRow) => ComponentChildren;
  /** A button beside the line. Such rows have one line number, that of the new file. */
  action?: (row: DiffRow) => ComponentChildren;
}

export function UnifiedTable({ rows, path, below, action }: DiffTableProps) {
  const colors = useColors(rows, path);
  return (
    <table>
      <tbody>
        {rows.map((row, index) => {
          const more = below?.(row);
          return (
            <Fragment key={index}>
              <UnifiedRow row={row} colors={colors} action={action?.(row)} />
              {more && (
                <tr class="below-line">
                  <td colSpan={4}>{more}</td>
                </tr>
              )}
            </Fragment>
          );
        })}
      </tbody>
    </table>
  );
}

interface UnifiedRowProps {
  row: DiffRow;
  colors: Colors;
  action: ComponentChildren;
}

function UnifiedRow({ row, colors, action }: UnifiedRowProps) {
  if (row.kind === "gap") return <GapRow columns={4} />;
  return (
    <tr class={row.kind}>
      {action ? (
        <td class="line-action">{action}</td>
      ) : (
        <td class="line-number">{row.oldLine}</td>
      )}
      <td class="line-number">{row.newLine}</td>
      <td class="sign">{SIGNS[row.kind]}</td>
      <LineCell row={row} colors={colors} />
    </tr>
  );
}

export function SplitTable({ rows, path }: DiffTableProps) {
  const colors = useColors(rows, path);
  const pairs = useMemo(() => sideBySide(rows), [rows]);
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
        {pairs.map((pair, index) => (
          <SplitRow key={index} pair={pair} colors={colors} />
        ))}
      </tbody>
    </table>
  );
}

function SplitRow({ pair: { left, right }, colors }: { pair: DiffRowPair; colors: Colors }) {
  if (left?.kind === "gap") return <GapRow columns={6} />;
  return (
    <tr>
      <SplitCells row={left} lineNumber={left?.oldLine ?? null} colors={colors} />
      <SplitCells row={right} lineNumber={right?.newLine ?? null} colors={colors} />
    </tr>
  );
}

interface SplitCellsProps {
  row: DiffRow | null;
  lineNumber: number | null;
  colors: Colors;
}

function SplitCells({ row, lineNumber, colors }: SplitCellsProps) {
  const kind = row?.kind ?? "empty";
  return (
    <>
      <td class={`line-number ${kind}`}>{lineNumber}</td>
      <td class={`sign ${kind}`}>{row ? SIGNS[row.kind] : ""}</td>
      {row ? <LineCell row={row} kind={kind} colors={colors} /> : <td class="line-text empty" />}
    </>
  );
}

function LineCell({ row, colors, kind = "" }: { row: DiffRow; colors: Colors; kind?: string }) {
  const spans = coloredSpans(row.spans, colors.get(row) ?? []);
  return (
    <td class={`line-text ${kind}`}>
      {spans.map(({ text, changed, classes }, index) => {
        const colored = classes === "" ? text : <span class={classes}>{text}</span>;
        return changed ? <mark key={index}>{colored}</mark> : <span key={index}>{colored}</span>;
      })}
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

/** The syntax colors of the rows, once they are known: the old lines and the new ones are read separately. */
function useColors(rows: readonly DiffRow[], path: string): Colors {
  const [colors, setColors] = useState(NO_COLORS);
  const language = baseName(path).split(".").at(-1)?.toLowerCase() ?? "";
  useEffect(() => {
    let current = true;
    const read = async () => {
      const found = new Map<DiffRow, readonly ColoredText[]>();
      for (const left of ["removed", "added"]) {
        const side = rows.filter((row) => row.kind !== "gap" && row.kind !== left);
        const code = side.map((row) => row.spans.map((span) => span.text).join("")).join("\n");
        const lines = await highlightLines(code, language);
        side.forEach((row, index) => found.set(row, lines?.[index] ?? []));
      }
      if (current) setColors(found);
    };
    void read().catch(() => undefined); // without colors
    return () => {
      current = false;
    };
  }, [rows, language]);
  return colors;
}
