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
  const { notifications } = useGateway();
  useEffect(() => void notifications.checkOffer(), [notifications]);
  const state = notifications.state.value;
  const hint = HINTS[state];
  return (
    <section class="settings-section" aria-labelledby="notifications-title">
      <h3 id="notifications-title">{t("notifications.title")}</h3>
      {hint && (
        <p class="muted">
          <RichText message={hint} />
        </p>
      )}
      {!hint && state !== "notOffered" && <Choices />}
      <Result />
    </section>
  );
}

function Choices() {
  const { notifications, readOnly } = useGateway();
  return (
    <>
      <p class="muted">{t("notifications.about")}</p>
      {!readOnly.value && <EventChoice event="waits" label="notifications.waits" />}
      <EventChoice event="done" label="notifications.done" />
      <div class="button-row">
        <button
          type="button"
          class="small"
          disabled={notifications.state.value !== "on" || notifications.busy.value}
          onClick={() => void notifications.test()}
        >
          <Icon name="bell" /> {t("notifications.sendTest")}
        </button>
      </div>
    </>
  );
}

/** What came of the last change or test. */
function Result() {
  const { message, failed } = useGateway().notifications;
  if (message.value === "") return null;
  return failed.value ? <ErrorText>{message.value}</ErrorText> : <p role="status">{message.value}</p>;
}

function EventChoice({ event, label }: { event: NotifiedEvent; label: PlainKey }) {
  const { notifications } = useGateway();
  return (
    <label class="event-choice">
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
