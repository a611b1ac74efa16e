/**
 * Converts terminal output to lines of styled text.
 *
 * xterm.js interprets the output (colors, carriage returns, cursor moves), and the page renders its buffer as
 * text. The renderer of xterm.js is not used, because it needs inline styles, which the
 * Content-Security-Policy forbids. Text can also be selected, searched and read by screen readers.
 */
import type { IBufferCell, Terminal } from "@xterm/headless";

export interface StyledText {
  text: string;
  classes: string;
  /** A color outside the 16 colors of the palette. */
  color: string | null;
  background: string | null;
}

const TERMINAL_OPTIONS = { cols: 240, rows: 50, scrollback: 5000, convertEol: true, allowProposedApi: true };

export class TerminalScreen {
  private terminal: Promise<Terminal> | undefined;
  private written = "";
  private disposed = false;

  /** Takes the whole output so far. Writes only the new part, unless the gateway truncated the beginning. */
  async show(output: string): Promise<StyledText[][]> {
    this.terminal ??= import("@xterm/headless").then(({ Terminal }) => new Terminal(TERMINAL_OPTIONS));
    const terminal = await this.terminal;
    let added = output;
    if (output.startsWith(this.written)) added = output.slice(this.written.length);
    else terminal.reset();
    this.written = output;
    if (added !== "" && !this.disposed) await new Promise<void>((resolve) => terminal.write(added, resolve));
    return this.disposed ? [] : readLines(terminal);
  }

  dispose(): void {
    this.disposed = true;
    void this.terminal?.then((terminal) => terminal.dispose());
  }
}

function readLines(terminal: Terminal): StyledText[][] {
  const buffer = terminal.buffer.active;
  const cell = buffer.getNullCell();
  const lines: StyledText[][] = [];
  for (let y = 0; y < buffer.length; y += 1) {
    const line = buffer.getLine(y);
    if (!line) continue;
    const spans = line.isWrapped ? (lines.at(-1) ?? []) : [];
    if (!line.isWrapped) lines.push(spans);
    const end = line.translateToString(true).length;
    for (let x = 0, position = 0; position < end && x < line.length; x += 1) {
      const current = line.getCell(x, cell);
      if (!current || current.getWidth() === 0) continue;
      const text = current.getChars() || " ";
      position += text.length;
      append(spans, text, current);
    }
  }
  while (lines.length > 0 && lines.at(-1)?.length === 0) lines.pop();
  return lines;
}

function append(spans: StyledText[], text: string, cell: IBufferCell): void {
  const style = cellStyle(cell);
  const last = spans.at(-1);
  const sameStyle =
    last?.classes === style.classes && last.color === style.color && last.background === style.background;
  if (last && sameStyle) last.text += text;
  else spans.push({ text, ...style });
}

function cellStyle(cell: IBufferCell): Omit<StyledText, "text"> {
  const classes: string[] = [];
  if (cell.isBold()) classes.push("ansi-bold");
  if (cell.isDim()) classes.push("ansi-dim");
  if (cell.isItalic()) classes.push("ansi-italic");
  if (cell.isUnderline()) classes.push("ansi-underline");
  if (cell.isStrikethrough()) classes.push("ansi-strike");
  if (cell.isInverse()) classes.push("ansi-inverse");
  const color = cellColor(cell.isFgDefault(), cell.isFgRGB(), cell.getFgColor(), "ansi-fg", classes);
  const background = cellColor(cell.isBgDefault(), cell.isBgRGB(), cell.getBgColor(), "ansi-bg", classes);
  return { classes: classes.join(" "), color, background };
}

/** Returns a CSS color, or adds the class of a palette color and returns null. */
function cellColor(
  isDefault: boolean,
  isRgb: boolean,
  value: number,
  prefix: string,
  classes: string[],
): string | null {
  if (isDefault) return null;
  if (isRgb) return `#${value.toString(16).padStart(6, "0")}`;
  if (value < 16) {
    classes.push(`${prefix}${value}`);
    return null;
  }
  return extendedColor(value);
}

/** Colors 16 to 255: a cube with six levels for red, green and blue, then gray levels. */
function extendedColor(value: number): string {
  if (value >= 232) {
    const gray = 8 + (value - 232) * 10;
    return `rgb(${gray} ${gray} ${gray})`;
  }
  const levels = [0, 95, 135, 175, 215, 255];
  const index = value - 16;
  return `rgb(${levels[Math.floor(index / 36)]} ${levels[Math.floor(index / 6) % 6]} ${levels[index % 6]})`;
}

/** Whether a text contains control sequences for a terminal. */
export function hasTerminalCodes(text: string): boolean {
  return text.includes("\u001b[") || /\r(?!\n|$)/.test(text);
}
