/** The settings: devices, share links, notifications, agents and the appearance. */
import { useEffect, useRef, useState } from "preact/hooks";
import { t } from "../messages/messages.ts";
import { useGateway } from "../state/gateway.ts";
import type { ListedAgent } from "../wire/extension-methods.ts";
import { font, FONTS, TEXT_SIZES, textSize, theme, THEMES } from "./appearance.ts";
import { Devices } from "./Devices.tsx";
import { Icon } from "./elements.tsx";
import { NotificationSettings } from "./NotificationSettings.tsx";

export function Settings() {
  const gateway = useGateway();
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus(), []);
  return (
    <main class="page settings">
      <header class="page-header">
        <a class="button quiet round phone-only" href="#/" aria-label={t("app.back")}>
          <Icon name="back" />
        </a>
        <h2 ref={heading} tabIndex={-1}>
          {t("settings.title")}
        </h2>
      </header>
      {!gateway.readOnly.value && <Devices />}
      <NotificationSettings />
      <Agents />
      <Appearance />
    </main>
  );
}

function Agents() {
  const agents = useGateway().agents.value;
  return (
    <section class="settings-section" aria-labelledby="agents-title">
      <h3 id="agents-title">{t("settings.agents")}</h3>
      <p class="muted">{t("settings.agentsHelp")}</p>
      <ul class="settings-list">
        {agents.map((agent) => (
          <AgentEntry key={agent.name} agent={agent} />
        ))}
      </ul>
    </section>
  );
}

const AGENT_STATES = {
  ready: "agentState.ready",
  starting: "agentState.starting",
  stopped: "agentState.stopped",
  failed: "agentState.failed",
} as const;

function AgentEntry({ agent }: { agent: ListedAgent }) {
  return (
    <li>
      <div>
        <p>
          <strong>{agent.title ?? agent.name}</strong>{" "}
          {agent.default && <span class="tag">{t("settings.default")}</span>}
        </p>
        {agent.description && <p class="muted">{agent.description}</p>}
        {agent.state === "failed" && agent.reason && <p class="error-text">{agent.reason}</p>}
      </div>
      <span class={`agent-state ${agent.state}`}>{t(AGENT_STATES[agent.state])}</span>
    </li>
  );
}

function Appearance() {
  return (
    <section class="settings-section" aria-labelledby="appearance-title">
      <h3 id="appearance-title">{t("settings.appearance")}</h3>
      <Choices
        label={t("settings.theme")}
        name="theme"
        choices={THEMES.map((value) => ({ value, label: t(`theme.${value}`) }))}
        value={theme.value}
        onChange={(value) => (theme.value = value)}
      />
      <Choices
        label={t("settings.textSize")}
        name="text-size"
        choices={TEXT_SIZES.map((value) => ({ value, label: t(`textSize.${value}`) }))}
        value={textSize.value}
        onChange={(value) => (textSize.value = value)}
      />
      <Choices
        label={t("settings.font")}
        name="font"
        choices={FONTS.map((value) => ({ value, label: t(`font.${value}`) }))}
        value={font.value}
        onChange={(value) => (font.value = value)}
      />
    </section>
  );
}

interface ChoicesProps<Value extends string> {
  label: string;
  name: string;
  choices: readonly { value: Value; label: string }[];
  value: Value;
  onChange: (value: Value) => void;
}

/** A few choices next to each other. */
function Choices<Value extends string>({ label, name, choices, value, onChange }: ChoicesProps<Value>) {
  const [focused, setFocused] = useState<Value | null>(null);
  return (
    <fieldset class="switch-row">
      <legend>{label}</legend>
      <div>
        {choices.map((choice) => (
          <label key={choice.value} class={focused === choice.value ? "focused" : undefined}>
            <input
              type="radio"
              name={name}
              class="visually-hidden"
              checked={choice.value === value}
              onChange={() => onChange(choice.value)}
              onFocus={(event) => setFocused(event.currentTarget.matches(":focus-visible") ? choice.value : null)}
              onBlur={() => setFocused(null)}
            />
            <span>{choice.label}</span>
          </label>
        ))}
      </div>
    </fieldset>
  );
}
