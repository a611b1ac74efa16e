/** Which notifications this device gets, and why it gets none. */
import { useEffect } from "preact/hooks";
import { t, type PlainKey } from "../messages/messages.ts";
import type { NotifiedEvent, PushState } from "../state/device-notifications.ts";
import { useGateway } from "../state/gateway.ts";
import { ErrorText, Icon } from "./elements.tsx";
import { RichText } from "./RichText.tsx";

const HINTS: Partial<Record<PushState, PlainKey>> = {
  insecure: "notifications.insecure",
  unsupported: "notifications.unsupported",
  needsInstalling: "notifications.needsInstalling",
  blocked: "notifications.blocked",
};

export function NotificationSettings() {
  const { notifications, readOnly } = useGateway();
  useEffect(() => void notifications.load(), [notifications]);
  const state = notifications.state.value;
  const hint = HINTS[state];
  return (
    <section class="settings-section" aria-labelledby="notifications-title">
      <h3 id="notifications-title">{t("notifications.title")}</h3>
      {hint ? (
        <p class="muted">
          <RichText message={hint} />
        </p>
      ) : (
        <>
          <p class="muted">{t("notifications.about")}</p>
          {!readOnly.value && <EventChoice event="waits" label="notifications.waits" />}
          <EventChoice event="done" label="notifications.done" />
          <div class="button-row">
            <button
              type="button"
              class="small"
              disabled={state !== "on" || notifications.busy.value}
              onClick={() => void notifications.test()}
            >
              <Icon name="bell" /> {t("notifications.sendTest")}
            </button>
          </div>
        </>
      )}
      {notifications.message.value !== "" &&
        (notifications.failed.value ? (
          <ErrorText>{notifications.message.value}</ErrorText>
        ) : (
          <p role="status">{notifications.message.value}</p>
        ))}
    </section>
  );
}

function EventChoice({ event, label }: { event: NotifiedEvent; label: PlainKey }) {
  const { notifications } = useGateway();
  return (
    <label class="choice-row">
      <input
        type="checkbox"
        checked={notifications.events.value.includes(event)}
        disabled={notifications.busy.value || notifications.state.value === "loading"}
        onChange={(change) => void notifications.choose(event, change.currentTarget.checked)}
      />
      <span>{t(label)}</span>
    </label>
  );
}
