/**
 * Terminal output as lines of coloured text.
 *
 * xterm.js reads it (colours, carriage returns, cursor moves); its screen is read off instead of being drawn by xterm.js, whose
 * drawing needs styles that the Content-Security-Policy forbids. As a page of text it can also be selected, searched and read aloud.
 */
import type { IBufferCell, Terminal } from "@xterm/xterm";

export interface Run {
  text: string;
  classes: string;
  /** Colours outside the sixteen of the theme. */
  color: string | null;
  background: string | null;
}

const COLUMNS = 240;
const ROWS = 50;
const SCROLLBACK = 5000;

export class Screen {
  private terminal: Promise<Terminal> | undefined;
  private written = "";
  private over = false;

  /** The whole output so far; only what is new is written, unless the beginning was cut off meanwhile. */
  async show(output: string): Promise<Run[][]> {
    this.terminal ??= import("@xterm/xterm").then(
      ({ Terminal: Screen }) => new Screen({ cols: COLUMNS, rows: ROWS, scrollback: SCROLLBACK, convertEol: true, allowProposedApi: true }),
    );
    const terminal = await this.terminal;
    let added = output;
    if (output.startsWith(this.written)) added = output.slice(this.written.length);
    else terminal.reset();
    this.written = output;
    if (added !== "" && !this.over) await new Promise<void>((resolve) => terminal.write(added, resolve));
    return this.over ? [] : lines(terminal);
  }

  dispose(): void {
    this.over = true;
    void this.terminal?.then((terminal) => terminal.dispose());
  }
}

function lines(terminal: Terminal): Run[][] {
  const buffer = terminal.buffer.active;
  const cell = buffer.getNullCell();
  const all: Run[][] = [];
  for (let y = 0; y < buffer.length; y += 1) {
    const line = buffer.getLine(y);
    if (!line) continue;
    const runs = line.isWrapped ? (all.at(-1) ?? []) : [];
    if (!line.isWrapped) all.push(runs);
    const end = line.translateToString(true).length;
    for (let x = 0, seen = 0; seen < end && x < line.length; x += 1) {
      const one = line.getCell(x, cell);
      if (!one || one.getWidth() === 0) continue;
      const text = one.getChars() || " ";
      seen += text.length;
      append(runs, text, one);
    }
  }
  while (all.length > 0 && all.at(-1)?.length === 0) all.pop();
  return all;
}

function append(runs: Run[], text: string, cell: IBufferCell): void {
  const next = look(cell);
  const last = runs.at(-1);
  if (last && last.classes === next.classes && last.color === next.color && last.background === next.background) last.text += text;
  else runs.push({ text, ...next });
}

function look(cell: IBufferCell): Omit<Run, "text"> {
  const classes: string[] = [];
  if (cell.isBold()) classes.push("t-bold");
  if (cell.isDim()) classes.push("t-dim");
  if (cell.isItalic()) classes.push("t-italic");
  if (cell.isUnderline()) classes.push("t-underline");
  if (cell.isStrikethrough()) classes.push("t-strike");
  if (cell.isInverse()) classes.push("t-inverse");
  const color = tint(cell.isFgDefault(), cell.isFgRGB(), cell.getFgColor(), "t-f", classes);
  const background = tint(cell.isBgDefault(), cell.isBgRGB(), cell.getBgColor(), "t-b", classes);
  return { classes: classes.join(" "), color, background };
}

function tint(plain: boolean, rgb: boolean, value: number, prefix: string, classes: string[]): string | null {
  if (plain) return null;
  if (rgb) return `#${value.toString(16).padStart(6, "0")}`;
  if (value < 16) {
    classes.push(`${prefix}${value}`);
    return null;
  }
  return palette(value);
}

/** The 240 fixed colours: a cube of six steps each, then greys. */
function palette(value: number): string {
  if (value >= 232) {
    const grey = 8 + (value - 232) * 10;
    return `rgb(${grey} ${grey} ${grey})`;
  }
  const steps = [0, 95, 135, 175, 215, 255];
  const index = value - 16;
  return `rgb(${steps[Math.floor(index / 36)]} ${steps[Math.floor(index / 6) % 6]} ${steps[index % 6]})`;
}

/** Whether a text has anything that only a terminal understands. */
export function forTerminal(text: string): boolean {
  return text.includes("\u001b[") || /\r(?!\n|$)/.test(text);
}
