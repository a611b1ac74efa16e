/** Terminals of the gateway, and text with terminal colors. */
import { useEffect, useRef, useState } from "preact/hooks";
import { t } from "../messages/messages.ts";
import { useGateway } from "../state/gateway.ts";
import type { Session } from "../state/session.ts";
import { TerminalScreen, type StyledText } from "../text/terminal-screen.ts";
import { StopWork } from "./StopWork.tsx";
import type { TerminalOutput } from "../wire/extension-methods.ts";

const REFRESH_MS = 200;
/** Earlier lines are hidden behind a button. */
const VISIBLE_LINES = 400;

/** Output of finished commands, so that expanding a tool call again needs no request. */
const finishedOutputs = new WeakMap<Session, Map<string, TerminalOutput>>();

interface TerminalViewProps {
  session: Session;
  terminalId: string;
  running: boolean;
}

/**
 * A terminal of the gateway or of the agent. Fetches its output again whenever there is more, and once at the
 * end, which for one in the background is later than that of its tool call.
 */
export function TerminalView({ session, terminalId, running: callRuns }: TerminalViewProps) {
  const gateway = useGateway();
  const shown = session.terminals.value.get(terminalId);
  const running = shown === undefined ? callRuns : !shown.ended;
  const [result, setResult] = useState(finishedOutputs.get(session)?.get(terminalId) ?? null);
  const [failed, setFailed] = useState(false);

  useEffect(() => {
    if (finishedOutputs.get(session)?.has(terminalId)) return;
    let current = true;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let busy = true;
    let outdated = false;
    const refresh = () => {
      outdated = true;
      if (busy || !current) return;
      busy = true;
      timer = setTimeout(() => void load(), REFRESH_MS);
    };
    const stopWatching = running ? gateway.watchTerminal(session, terminalId, refresh) : () => undefined;
    const load = async () => {
      outdated = false;
      try {
        const output = await gateway.terminalOutput(session, terminalId);
        if (!current) return;
        setResult(output);
        setFailed(false);
        if (output.ended || !running) storeFinished(session, terminalId, output);
      } catch {
        if (current) setFailed(true);
      } finally {
        busy = false;
        if (outdated) refresh();
      }
    };
    void load();
    return () => {
      current = false;
      stopWatching();
      clearTimeout(timer);
    };
  }, [session, terminalId, running]);

  if (result === null) {
    return <p class="muted">{failed ? t("terminal.gone") : "…"}</p>;
  }
  const unsuccessful = result.ended && (result.exitCode !== 0 || result.signal);
  return (
    <div class="terminal">
      <StopWork session={session} work={{ kind: "terminal", id: terminalId }} />
      {result.truncated && <p class="muted">{t("terminal.cut")}</p>}
      {result.output === "" ? (
        <p class="muted">{t(result.ended ? "terminal.empty" : "terminal.emptyYet")}</p>
      ) : (
        <TerminalText output={result.output} label={t("terminal.label")} />
      )}
      {unsuccessful && (
        <p class="exit-status">
          {result.signal
            ? t("terminal.signal", { signal: result.signal })
            : t("terminal.exit", { code: result.exitCode ?? "?" })}
        </p>
      )}
    </div>
  );
}

function storeFinished(session: Session, terminalId: string, output: TerminalOutput): void {
  const outputs = finishedOutputs.get(session) ?? new Map<string, TerminalOutput>();
  finishedOutputs.set(session, outputs.set(terminalId, output));
}

/** Output of a command with its colors. It stays scrolled to its end until the reader scrolls up. */
export function TerminalText({ output, label = t("tool.output") }: { output: string; label?: string }) {
  const screen = useRef<TerminalScreen>(undefined);
  const [lines, setLines] = useState<StyledText[][] | null>(null);
  const [showAll, setShowAll] = useState(false);
  const box = useRef<HTMLPreElement>(null);
  const atEnd = useRef(true);

  useEffect(() => {
    let current = true;
    screen.current ??= new TerminalScreen();
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

  if (lines === null) return <pre class="terminal-output" aria-label={label} />;
  const hidden = showAll ? 0 : Math.max(0, lines.length - VISIBLE_LINES);
  return (
    <>
      {hidden > 0 && (
        <button type="button" class="quiet small" onClick={() => setShowAll(true)}>
          {t("terminal.earlier", { count: hidden })}
        </button>
      )}
      <pre
        class="terminal-output"
        ref={box}
        tabIndex={0}
        aria-label={label}
        onScroll={(event) => {
          const element = event.currentTarget;
          atEnd.current = element.scrollHeight - element.scrollTop - element.clientHeight < 24;
        }}
      >
        {lines.slice(hidden).map((spans, index) => (
          <div key={hidden + index}>{spans.length === 0 ? "\n" : spans.map(styledSpan)}</div>
        ))}
      </pre>
    </>
  );
}

function styledSpan(span: StyledText, index: number) {
  if (!span.classes && !span.color && !span.background) return span.text;
  // Preact sets these styles through the DOM, which the Content-Security-Policy allows, unlike style
  // attributes.
  const style = {
    ...(span.color ? { color: span.color } : {}),
    ...(span.background ? { backgroundColor: span.background } : {}),
  };
  return (
    <span key={index} class={span.classes} style={style}>
      {span.text}
    </span>
  );
}
