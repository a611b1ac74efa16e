/** What went wrong, and below it the last lines that the agent said, as they were. */
import type { Fault } from "../state/faults.ts";

export function FaultView({ fault, id, before = "" }: { fault: Fault; id?: string; before?: string }) {
  return (
    <div class="fault" role="alert" id={id}>
      <p>
        {before}
        {fault.message}
      </p>
      <Said text={fault.said} />
    </div>
  );
}

export function Said({ text }: { text: string | null }) {
  if (text === null) return null;
  return (
    <pre class="said" tabIndex={0} aria-label="The last that the agent said">
      {text}
    </pre>
  );
}
