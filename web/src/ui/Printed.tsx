/** What a command printed, in its colours. */
import { useEffect, useRef, useState } from "preact/hooks";
import { Screen, type Run } from "../text/screen.ts";

/** More lines than this are folded away above the end, which is what one looks for. */
const SHOWN = 400;

export function Printed({ output, label = "Output" }: { output: string; label?: string }) {
  const screen = useRef<Screen>(undefined);
  const [lines, setLines] = useState<Run[][] | null>(null);
  const [all, setAll] = useState(false);
  const box = useRef<HTMLPreElement>(null);
  const atEnd = useRef(true);

  useEffect(() => {
    let current = true;
    screen.current ??= new Screen();
    void screen.current.show(output).then((shown) => {
      if (current) setLines(shown);
    });
    return () => {
      current = false;
    };
  }, [output]);
  useEffect(() => () => screen.current?.dispose(), []);
  useEffect(() => {
    if (atEnd.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines]);

  if (lines === null) return <pre class="printed" aria-label={label} />;
  const hidden = all ? 0 : Math.max(0, lines.length - SHOWN);
  return (
    <>
      {hidden > 0 && (
        <button type="button" class="quiet small" onClick={() => setAll(true)}>
          Show {hidden} earlier lines
        </button>
      )}
      <pre
        class="printed"
        ref={box}
        tabIndex={0}
        aria-label={label}
        onScroll={(event) => {
          const element = event.currentTarget;
          atEnd.current = element.scrollHeight - element.scrollTop - element.clientHeight < 24;
        }}
      >
        {lines.slice(hidden).map((runs, index) => (
          <div key={hidden + index}>{runs.length === 0 ? "\n" : runs.map(drawRun)}</div>
        ))}
      </pre>
    </>
  );
}

function drawRun(run: Run, index: number) {
  if (!run.classes && !run.color && !run.background) return run.text;
  // Set one by one through the object model, which the Content-Security-Policy allows, unlike a style in HTML.
  const style = { ...(run.color ? { color: run.color } : {}), ...(run.background ? { backgroundColor: run.background } : {}) };
  return (
    <span key={index} class={run.classes} style={style}>
      {run.text}
    </span>
  );
}
