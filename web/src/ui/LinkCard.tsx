/** An agent asks to open a web page: the whole address and its host are shown, and nothing is opened without a yes. */
import type { ElicitationQuestion } from "../state/questions.ts";
import type { Session } from "../state/session.ts";
import { record } from "../wire/vendor.ts";
import { Card, useAnswer, useCalm } from "./Questions.tsx";

export function LinkCard({ question, session }: { question: ElicitationQuestion; session: Session }) {
  const calm = useCalm();
  const { send, sent, problem } = useAnswer(question);
  const params = record(question.params);
  const text = typeof params["url"] === "string" ? params["url"] : "";
  const url = webAddress(text);
  const doubtful = url !== null && (url.protocol === "http:" || url.hostname.split(".").some((part) => part.startsWith("xn--")));
  const open = () => {
    if (!url || sent) return;
    window.open(url.href, "_blank", "noopener,noreferrer");
    const id = params["elicitationId"];
    if (typeof id === "string") {
      session.outside.value = [...session.outside.value, { id, message: question.params.message, url: url.href }];
    }
    send({ action: "accept" });
  };
  return (
    <Card label={`${question.agent} asks to open a web page`} icon="fetch">
      <p class="asked">{question.params.message}</p>
      {url ? (
        <p class="address">
          <strong>{url.host}</strong>
          <span>{url.href}</span>
        </p>
      ) : (
        <p class="fault">This is not the address of a web page: {text}</p>
      )}
      {doubtful && (
        <p class="fault">
          {url.protocol === "http:" ? "This address is not encrypted. " : ""}
          {url.hostname.includes("xn--") ? "The name has characters that may look like others. " : ""}
          Open it only if you expected it.
        </p>
      )}
      {problem && (
        <p class="fault" role="alert">
          The answer could not be sent: {problem}
        </p>
      )}
      <div class="choices">
        <button type="button" class="allow" disabled={!calm || !url} onClick={open}>
          Open in a new tab
        </button>
        <button type="button" class="reject" disabled={!calm} onClick={() => send({ action: "decline" })}>
          Decline
        </button>
        <button type="button" class="quiet" disabled={!calm} onClick={() => send({ action: "cancel" })}>
          Cancel
        </button>
      </div>
    </Card>
  );
}

function webAddress(text: string): URL | null {
  const url = URL.canParse(text) ? new URL(text) : null;
  return url && (url.protocol === "https:" || url.protocol === "http:") ? url : null;
}
