/** Mode, model and whatever else can be chosen for a session; and how full its context is. */
import type * as acp from "@agentclientprotocol/sdk";
import { useState } from "preact/hooks";
import { asError } from "../state/faults.ts";
import type { Session } from "../state/session.ts";
import { useGateway } from "./context.ts";
import { count, money } from "./format.ts";

export function Options({ session }: { session: Session }) {
  const { readOnly } = useGateway();
  const conversation = session.conversation.value;
  const [problem, setProblem] = useState<string | null>(null);
  const attempt = (work: Promise<void>) => {
    setProblem(null);
    work.catch((error: unknown) => setProblem(asError(error).message));
  };
  // Where an agent has options, its modes are among them.
  const options = conversation.options.value;
  const modes = options.length > 0 ? null : conversation.modes.value;
  return (
    <div class="options">
      {options.map((option) => (
        <OptionView key={option.id} option={option} fixed={readOnly.value} choose={(value) => attempt(session.choose(option.id, value))} />
      ))}
      {modes && (
        <label class="pick">
          <span>Mode</span>
          <select aria-label="Mode" disabled={readOnly.value} value={modes.currentModeId} onChange={(event) => attempt(session.chooseMode(event.currentTarget.value))}>
            {modes.availableModes.map((mode) => (
              <option key={mode.id} value={mode.id} title={mode.description ?? undefined}>
                {mode.name}
              </option>
            ))}
          </select>
        </label>
      )}
      <Meter session={session} />
      {problem && (
        <p class="fault" role="alert">
          {problem}
        </p>
      )}
    </div>
  );
}

function OptionView({ option, fixed, choose }: { option: acp.SessionConfigOption; fixed: boolean; choose: (value: string | boolean) => void }) {
  if (option.type === "boolean") {
    return (
      <label class="pick inline" title={option.description ?? undefined}>
        <input type="checkbox" disabled={fixed} checked={option.currentValue} onChange={(event) => choose(event.currentTarget.checked)} />
        <span>{option.name}</span>
      </label>
    );
  }
  if (option.type !== "select") return null;
  return (
    <label class="pick" title={option.description ?? undefined}>
      <span>{option.name}</span>
      <select aria-label={option.name} disabled={fixed} value={option.currentValue} onChange={(event) => choose(event.currentTarget.value)}>
        {option.options.map((item) =>
          "group" in item ? (
            <optgroup key={item.group} label={item.name}>
              {item.options.map(draw)}
            </optgroup>
          ) : (
            draw(item)
          ),
        )}
      </select>
    </label>
  );
}

function draw(item: acp.SessionConfigSelectOption) {
  return (
    <option key={item.value} value={item.value} title={item.description ?? undefined}>
      {item.name}
    </option>
  );
}

function Meter({ session }: { session: Session }) {
  const usage = session.conversation.value.usage.value;
  if (!usage || usage.size <= 0) return null;
  const share = Math.min(1, usage.used / usage.size);
  const percent = Math.round(share * 100);
  const cost = usage.cost ? money(usage.cost.amount, usage.cost.currency) : null;
  const words = `${count(usage.used)} of ${count(usage.size)} tokens${cost ? `, ${cost}` : ""}`;
  return (
    <span class="meter" title={words}>
      <span
        class={`bar ${share > 0.85 ? "full" : ""}`}
        role="meter"
        aria-label="Context in use"
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={percent}
        aria-valuetext={words}
      >
        <span style={{ width: `${percent}%` }} />
      </span>
      <span aria-hidden="true">
        {percent} %{cost ? ` · ${cost}` : ""}
      </span>
    </span>
  );
}
