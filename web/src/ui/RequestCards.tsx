/** Cards for the pending requests of agents: permissions, forms, links and questions. */
import { useMemo, useState } from "preact/hooks";
import { t } from "../messages/messages.ts";
import { checkForm, formFields, matchPattern, type FieldValue } from "../state/form.ts";
import {
  requestSummary,
  type ElicitationRequest,
  type ExtensionRequest,
  type PendingRequest,
} from "../state/pending-requests.ts";
import type { Session } from "../state/session.ts";
import { asRecord, ASK_USER } from "../wire/extension-methods.ts";
import { AnswerError, Card, useAnswer, useEnabled } from "./Card.tsx";
import { FormFieldView } from "./FormFields.tsx";
import { PermissionCard } from "./PermissionCard.tsx";

const MAX_SUGGESTED_ANSWERS = 100;

export function RequestCard({ request, session }: { request: PendingRequest; session: Session }) {
  if (request.kind === "permission") return <PermissionCard request={request} session={session} />;
  if (request.kind === "elicitation") {
    if (request.params.mode === "form") return <FormCard request={request} />;
    if (request.params.mode === "url") return <LinkCard request={request} session={session} />;
  }
  if (request.kind === "extension" && request.method === ASK_USER) return <QuestionCard request={request} />;
  return (
    <Card label={t("request.unknown")} icon="help">
      <p>{requestSummary(request)}</p>
      <p class="muted">{t("request.unsupported")}</p>
    </Card>
  );
}

function FormCard({ request }: { request: ElicitationRequest }) {
  const enabled = useEnabled();
  const { send, sent, error } = useAnswer(request);
  const schema = asRecord(request.params)["requestedSchema"];
  const fields = useMemo(() => formFields(schema), [schema]);
  const [values, setValues] = useState<Record<string, FieldValue>>(() =>
    Object.fromEntries(fields.map((field) => [field.name, field.initial])),
  );
  const [errors, setErrors] = useState<Record<string, string>>({});
  const title = asRecord(schema)["title"];
  const submit = async (form: HTMLFormElement) => {
    const result = await checkForm(fields, values, matchPattern);
    if ("content" in result) {
      send({ action: "accept", content: result.content });
      return;
    }
    setErrors(result.errors);
    const first = fields.find((field) => field.name in result.errors);
    const input = [...form.elements].find((element) => element.getAttribute("name") === first?.name);
    if (input instanceof HTMLElement) input.focus();
  };
  return (
    <Card label={t("request.question", { agent: request.agent })} icon="help">
      <p class="request-text">{request.params.message}</p>
      {typeof title === "string" && <p class="muted">{title}</p>}
      <form
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          if (enabled && !sent) void submit(event.currentTarget);
        }}
      >
        {fields.map((field) => (
          <FormFieldView
            key={field.name}
            field={field}
            value={values[field.name] ?? field.initial}
            error={errors[field.name] ?? null}
            onChange={(value) => {
              setValues((before) => ({ ...before, [field.name]: value }));
              setErrors(({ [field.name]: _, ...rest }) => rest);
            }}
          />
        ))}
        <AnswerError error={error} />
        <div class="button-row">
          <button type="submit" class="primary" disabled={!enabled}>
            {t("request.send")}
          </button>
          <button type="button" disabled={!enabled} onClick={() => send({ action: "decline" })}>
            {t("request.decline")}
          </button>
          <button type="button" class="quiet" disabled={!enabled} onClick={() => send({ action: "cancel" })}>
            {t("app.cancel")}
          </button>
        </div>
      </form>
    </Card>
  );
}

/** Asks before it opens a web page. Shows the whole address, and the host on its own. */
function LinkCard({ request, session }: { request: ElicitationRequest; session: Session }) {
  const enabled = useEnabled();
  const { send, sent, error } = useAnswer(request);
  const params = asRecord(request.params);
  const text = typeof params["url"] === "string" ? params["url"] : "";
  const url = webUrl(text);
  const open = () => {
    if (!url || sent) return;
    window.open(url.href, "_blank", "noopener,noreferrer");
    const id = params["elicitationId"];
    if (typeof id === "string") {
      session.openedLinks.value = [...session.openedLinks.value, { id, url: url.href }];
    }
    send({ action: "accept" });
  };
  return (
    <Card label={t("request.page", { agent: request.agent })} icon="fetch">
      <p class="request-text">{request.params.message}</p>
      {url ? (
        <p class="link-address">
          <strong>{url.host}</strong>
          <span>{url.href}</span>
        </p>
      ) : (
        <p class="error-text">{t("request.noAddress", { text })}</p>
      )}
      {url && <LinkWarning url={url} />}
      <AnswerError error={error} />
      <div class="button-row">
        <button type="button" class="allow" disabled={!enabled || !url} onClick={open}>
          {t("request.openPage")}
        </button>
        <button type="button" class="reject" disabled={!enabled} onClick={() => send({ action: "decline" })}>
          {t("request.decline")}
        </button>
        <button type="button" class="quiet" disabled={!enabled} onClick={() => send({ action: "cancel" })}>
          {t("app.cancel")}
        </button>
      </div>
    </Card>
  );
}

function LinkWarning({ url }: { url: URL }) {
  const unencrypted = url.protocol === "http:";
  const lookAlike = url.hostname.split(".").some((part) => part.startsWith("xn--"));
  if (!unencrypted && !lookAlike) return null;
  return (
    <p class="error-text">
      {unencrypted && `${t("request.unencrypted")} `}
      {lookAlike && `${t("request.lookAlike")} `}
      {t("request.expected")}
    </p>
  );
}

function webUrl(text: string): URL | null {
  const url = URL.canParse(text) ? new URL(text) : null;
  return url && (url.protocol === "https:" || url.protocol === "http:") ? url : null;
}

/** A plain question with suggested answers. The user can also write an answer. */
function QuestionCard({ request }: { request: ExtensionRequest }) {
  const enabled = useEnabled();
  const { send, error } = useAnswer(request);
  const [text, setText] = useState("");
  return (
    <Card label={t("request.question", { agent: request.agent })} icon="help">
      <p class="request-text">{requestSummary(request)}</p>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (enabled && text.trim() !== "") send({ answer: text });
        }}
      >
        <textarea
          aria-label={t("request.yourAnswer")}
          rows={1}
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
        <AnswerError error={error} />
        <div class="button-row">
          {suggestedAnswers(request).map((option) => (
            <button type="button" key={option} disabled={!enabled} onClick={() => send({ answer: option })}>
              {option}
            </button>
          ))}
          <button type="submit" class="primary" disabled={!enabled || text.trim() === ""}>
            {t("request.send")}
          </button>
        </div>
      </form>
    </Card>
  );
}

function suggestedAnswers(request: ExtensionRequest): string[] {
  const options = request.params["options"];
  if (!Array.isArray(options)) return [];
  return options
    .filter((option): option is string => typeof option === "string" && option.trim() !== "")
    .slice(0, MAX_SUGGESTED_ANSWERS);
}
