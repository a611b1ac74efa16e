/**
 * Everything below the conversation: pending requests, the plan, queued prompts, the prompt editor and the
 * options.
 */
import type * as acp from "@agentclientprotocol/sdk";
import { useState } from "preact/hooks";
import { t } from "../messages/messages.ts";
import { plainText, type MessageBlock } from "../state/conversation.ts";
import { useGateway } from "../state/gateway.ts";
import type { Session } from "../state/session.ts";
import { currencyAmount, shortNumber } from "../text/format.ts";
import { errorReport } from "../wire/extension-methods.ts";
import { ErrorText, Icon } from "./elements.tsx";
import { navigate } from "./navigation.ts";
import { PromptEditor } from "./PromptEditor.tsx";
import { RequestCard } from "./RequestCards.tsx";
import { RewindPanel } from "./RewindPanel.tsx";
import { AgentSignIn } from "./SignIn.tsx";
import { Background } from "./StopWork.tsx";

export function SessionFooter({ session }: { session: Session }) {
  const { readOnly, sharedSession } = useGateway();
  return (
    <div class="session-footer">
      <PendingRequests session={session} />
      <Background session={session} />
      <Plan session={session} />
      <QueuedPrompts session={session} />
      <RewindPanel session={session} />
      {readOnly.value ? (
        <p class="muted centered">{t(sharedSession.value ? "share.banner" : "session.readOnlyToken")}</p>
      ) : session.onlyReadable.value ? (
        <OnlyReadable session={session} />
      ) : (
        <PromptEditor session={session} />
      )}
      <SessionOptions session={session} />
    </div>
  );
}

/** In place of the prompt: the agent cannot open the session anymore. */
function OnlyReadable({ session }: { session: Session }) {
  const gateway = useGateway();
  const [error, setError] = useState<string | null>(null);
  const start = async () => {
    try {
      const { address } = await gateway.continueInNewSession(session);
      navigate({ page: "session", agent: address.agent, sessionId: address.sessionId });
    } catch (reason) {
      setError(errorReport(reason).message);
    }
  };
  return (
    <section class="card only-readable" aria-label={t("session.readOnly")}>
      <p>{t("session.agentLost", { agent: session.address.agent })}</p>
      {error && <ErrorText>{error}</ErrorText>}
      <button type="button" class="primary" onClick={() => void start()}>
        {t("session.continue")}
      </button>
    </section>
  );
}

function PendingRequests({ session }: { session: Session }) {
  const { agent, sessionId } = session.address;
  const requests = useGateway().requests.value.filter(
    (request) => request.agent === agent && request.sessionId === sessionId,
  );
  return (
    <div class="requests">
      {requests.map((request) => (
        <RequestCard key={request.key} request={request} session={session} />
      ))}
      {session.signInRequired.value && (
        <section class="card" role="group" aria-label={t("agentLogin.required", { agent })}>
          <header>
            <Icon name="warning" /> <h3>{t("agentLogin.required", { agent })}</h3>
          </header>
          <AgentSignIn agent={agent} onSuccess={() => session.continueSignedIn()} />
        </section>
      )}
      {session.openedLinks.value.map((link) => (
        <p class="notice info" key={link.id}>
          <Icon name="fetch" />
          <span>{t("session.linkOpen", { host: new URL(link.url).host })}</span>
          <button
            type="button"
            class="quiet small"
            onClick={() => {
              session.openedLinks.value = session.openedLinks.value.filter((one) => one !== link);
            }}
          >
            {t("app.dismiss")}
          </button>
        </p>
      ))}
    </div>
  );
}

const STEP_STATUS = {
  pending: "plan.pending",
  in_progress: "plan.running",
  completed: "plan.done",
} as const;

function Plan({ session }: { session: Session }) {
  const plan = session.conversation.value.plan.value;
  if (plan.length === 0) return null;
  const done = plan.filter((step) => step.status === "completed").length;
  const current =
    plan.find((step) => step.status === "in_progress") ?? plan.find((step) => step.status === "pending");
  return (
    <details class="plan">
      <summary>
        <strong>{t("plan.label")}</strong>{" "}
        <span class="muted">{t("plan.progress", { done, count: plan.length })}</span>
        {current && <span class="current-step">{current.content}</span>}
      </summary>
      <ol>
        {plan.map((step, index) => (
          <li key={index} class={step.status}>
            <span class="step-icon" aria-hidden="true">
              <StepIcon status={step.status} />
            </span>
            <span>
              {step.content}
              <span class="visually-hidden"> ({t(STEP_STATUS[step.status])})</span>
            </span>
            {step.priority === "high" && <span class="tag">{t("plan.important")}</span>}
          </li>
        ))}
      </ol>
    </details>
  );
}

function StepIcon({ status }: { status: acp.PlanEntry["status"] }) {
  if (status === "in_progress") return <span class="pulse" />;
  return <Icon name={status === "completed" ? "check" : "other"} />;
}

function QueuedPrompts({ session }: { session: Session }) {
  const prompts = session.queue.prompts.value;
  if (prompts.length === 0) return null;
  const sendNow = () => {
    const first = session.queue.takeFirst();
    if (first) session.submit(first);
  };
  return (
    <section class="queue" aria-label={t("queue.label")}>
      {session.queue.paused.value && (
        <p>
          <span>{t("queue.unsent")}</span>
          <button type="button" class="small" onClick={sendNow}>
            {t("queue.sendNow")}
          </button>
        </p>
      )}
      <ol>
        {prompts.map((prompt) => {
          const text = plainText(prompt.blocks as MessageBlock[]);
          return (
            <li key={prompt.id}>
              <span>{text || t("queue.image")}</span>
              <button
                type="button"
                class="quiet small"
                aria-label={t("queue.remove", { prompt: text || t("queue.image") })}
                onClick={() => {
                  session.queue.remove(prompt.id);
                  if (session.draft.value === "") session.draft.value = text;
                  document.getElementById("prompt")?.focus();
                }}
              >
                <Icon name="close" />
              </button>
            </li>
          );
        })}
      </ol>
    </section>
  );
}

/** Mode, model and the other options of the session, and the context meter. */
function SessionOptions({ session }: { session: Session }) {
  const { readOnly } = useGateway();
  const conversation = session.conversation.value;
  const [error, setError] = useState<string | null>(null);
  const change = (result: Promise<void>) => {
    setError(null);
    result.catch((reason: unknown) => setError(errorReport(reason).message));
  };
  // An agent with options lists its modes among them.
  const options = conversation.options.value;
  const modes = options.length > 0 ? null : conversation.modes.value;
  const fixed = readOnly.value || session.onlyReadable.value;
  return (
    <div class="session-options">
      {options.map((option) => (
        <SessionOption
          key={option.id}
          option={option}
          fixed={fixed}
          onChange={(value) => change(session.setOption(option.id, value))}
        />
      ))}
      {modes && fixed && <FixedOption name={t("session.mode")} value={modeName(modes)} />}
      {modes && !fixed && (
        <label class="session-option">
          <span>{t("session.mode")}</span>
          <select
            aria-label={t("session.mode")}
            value={modes.currentModeId}
            onChange={(event) => change(session.setMode(event.currentTarget.value))}
          >
            {modes.availableModes.map((mode) => (
              <option key={mode.id} value={mode.id} title={mode.description ?? undefined}>
                {mode.name}
              </option>
            ))}
          </select>
        </label>
      )}
      <ContextMeter session={session} />
      {error && <ErrorText>{error}</ErrorText>}
    </div>
  );
}

interface SessionOptionProps {
  option: acp.SessionConfigOption;
  /** Shown as text, because it cannot be changed here. */
  fixed: boolean;
  onChange: (value: string | boolean) => void;
}

function SessionOption({ option, fixed, onChange }: SessionOptionProps) {
  if (fixed) return <FixedOption name={option.name} value={optionValue(option)} />;
  if (option.type === "boolean") {
    return (
      <label class="session-option inline" title={option.description ?? undefined}>
        <input
          type="checkbox"
          checked={option.currentValue}
          onChange={(event) => onChange(event.currentTarget.checked)}
        />
        <span>{option.name}</span>
      </label>
    );
  }
  if (option.type !== "select") return null;
  return (
    <label class="session-option" title={option.description ?? undefined}>
      <span>{option.name}</span>
      <select
        aria-label={option.name}
        value={option.currentValue}
        onChange={(event) => onChange(event.currentTarget.value)}
      >
        {option.options.map((item) =>
          "group" in item ? (
            <optgroup key={item.group} label={item.name}>
              {item.options.map(selectOption)}
            </optgroup>
          ) : (
            selectOption(item)
          ),
        )}
      </select>
    </label>
  );
}

function FixedOption({ name, value }: { name: string; value: string | null }) {
  return (
    value && (
      <span class="session-option">
        <span>{name}</span> <strong>{value}</strong>
      </span>
    )
  );
}

function modeName({ availableModes, currentModeId }: acp.SessionModeState): string {
  return availableModes.find((mode) => mode.id === currentModeId)?.name ?? currentModeId;
}

/** The name of the value that a list has; a switch is shown only while it is on. */
function optionValue(option: acp.SessionConfigOption): string | null {
  if (option.type === "boolean") return option.currentValue ? "✓" : null;
  if (option.type !== "select") return null;
  const items = option.options.flatMap((item) => ("group" in item ? item.options : [item]));
  return items.find((item) => item.value === option.currentValue)?.name ?? option.currentValue;
}

function selectOption(item: acp.SessionConfigSelectOption) {
  return (
    <option key={item.value} value={item.value} title={item.description ?? undefined}>
      {item.name}
    </option>
  );
}

/** How much of the model's context is used, and the cost so far. */
function ContextMeter({ session }: { session: Session }) {
  const usage = session.conversation.value.usage.value;
  if (!usage || usage.size <= 0) return null;
  const share = Math.min(1, usage.used / usage.size);
  const percent = Math.round(share * 100);
  const cost = usage.cost ? currencyAmount(usage.cost.amount, usage.cost.currency) : null;
  const tokens = t("session.tokens", { used: shortNumber(usage.used), size: shortNumber(usage.size) });
  const description = cost ? `${tokens}, ${cost}` : tokens;
  return (
    <span class="context-meter" title={description}>
      <span
        class={`bar ${share > 0.85 ? "full" : ""}`}
        role="meter"
        aria-label={t("session.context")}
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={percent}
        aria-valuetext={description}
      >
        <span style={{ width: `${percent}%` }} />
      </span>
      <span aria-hidden="true">
        {percent}%{cost ? ` · ${cost}` : ""}
      </span>
    </span>
  );
}
