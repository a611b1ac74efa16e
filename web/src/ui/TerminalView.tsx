/** A terminal that runs beside the gateway: its output is asked for whenever it has printed, and once more at its end. */
import { useEffect, useState } from "preact/hooks";
import type { Session } from "../state/session.ts";
import type { TerminalOutput } from "../wire/vendor.ts";
import { useGateway } from "./context.ts";
import { Printed } from "./Printed.tsx";

const PACE = 200;

/** Output of commands that are over, so that folding and unfolding asks for nothing. */
const finished = new WeakMap<Session, Map<string, TerminalOutput>>();

export function TerminalView({ session, terminalId, running }: { session: Session; terminalId: string; running: boolean }) {
  const gateway = useGateway();
  const [shown, setShown] = useState(finished.get(session)?.get(terminalId) ?? null);
  const [problem, setProblem] = useState<string | null>(null);

  useEffect(() => {
    if (finished.get(session)?.has(terminalId)) return;
    let current = true;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let busy = true;
    let stale = false;
    const later = () => {
      stale = true;
      if (busy || !current) return;
      busy = true;
      timer = setTimeout(() => void look(), PACE);
    };
    const unwatch = running ? gateway.watch(session, terminalId, later) : () => undefined;
    const look = async () => {
      stale = false;
      try {
        const output = await gateway.terminal(session, terminalId);
        if (!current) return;
        setShown(output);
        setProblem(null);
        if (output.ended || !running) {
          finished.set(session, (finished.get(session) ?? new Map<string, TerminalOutput>()).set(terminalId, output));
        }
      } catch {
        if (current) setProblem("The output of this terminal is not kept by the gateway.");
      } finally {
        busy = false;
        if (stale) later();
      }
    };
    void look();
    return () => {
      current = false;
      unwatch();
      clearTimeout(timer);
    };
  }, [session, terminalId, running]);

  if (shown === null) return <p class="faint">{problem ?? "…"}</p>;
  const code = shown.exitCode;
  return (
    <div class="terminal">
      {shown.truncated && <p class="faint">The beginning was cut off.</p>}
      {shown.output === "" ? <p class="faint">{shown.ended ? "It printed nothing." : "Nothing printed yet."}</p> : <Printed output={shown.output} label="Terminal output" />}
      {shown.ended && (code !== 0 || shown.signal) && <p class="exit">{shown.signal ? `Ended by ${shown.signal}` : `Exit code ${code}`}</p>}
    </div>
  );
}
