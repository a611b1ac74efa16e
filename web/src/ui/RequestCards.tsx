/**
 * Cards for the pending requests of agents: permissions, forms, links and questions.
 *
 * A card never takes the focus by itself, and its buttons are disabled for a moment after it appears or
 * moves. So a user who is typing or clicking cannot answer a request by accident.
 */
import type * as acp from "@agentclientprotocol/sdk";
import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { t } from "../messages/messages.ts";
import { checkForm, formFields, matchPattern, type FieldValue } from "../state/form.ts";
import {
  optionLabel,
  requestedCommand,
  requestSummary,
  type ElicitationRequest,
  type ExtensionRequest,
  type PendingRequest,
  type PermissionRequest,
} from "../state/pending-requests.ts";
import type { Session } from "../state/session.ts";
import { asRecord, ASK_USER, errorReport } from "../wire/extension-methods.ts";
import { ErrorText, Icon, type IconName } from "./elements.tsx";
import { CodeBlock } from "./ContentBlocks.tsx";
import { FormFieldView } from "./FormFields.tsx";
import { ToolCallContent } from "./ToolCallView.tsx";

const DISABLED_MS = 500;
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

interface CardProps {
  label: string;
  icon: IconName;
  children: ComponentChildren;
  /** Called when the user presses a digit while the focus is in the card. */
  onDigit?: (digit: number) => void;
}

/** Counts the cards that appeared or disappeared. Each time, the other cards may move. */
const cardMoves = signal(0);

function Card({ label, icon, children, onDigit }: CardProps) {
  const card = useRef<HTMLElement>(null);
  useLayoutEffect(() => {
    const element = card.current;
    cardMoves.value += 1;
    return () => {
      cardMoves.value += 1;
      // Move the focus to the prompt instead of losing it with the card.
      if (element?.contains(document.activeElement)) document.getElementById("prompt")?.focus();
    };
  }, []);
  const onKeyDown = (event: KeyboardEvent) => {
    const modified = event.repeat || event.ctrlKey || event.metaKey || event.altKey;
    if (!onDigit || !/^[1-9]$/.test(event.key) || modified) return;
    // The answer moves the focus to the prompt. Do not type the digit there.
    event.preventDefault();
    onDigit(Number(event.key));
  };
  return (
    <section
      class="card"
      ref={card}
      role="group"
      aria-label={label}
      tabIndex={-1}
      data-request
      onKeyDown={onKeyDown}
    >
      <header>
        <Icon name={icon} /> <h3>{label}</h3>
      </header>
      {children}
    </section>
  );
}

/** Whether no card has moved for a moment, so that a click is meant for the button under the pointer. */
function useEnabled(): boolean {
  const moves = cardMoves.value;
  const [settledMoves, setSettledMoves] = useState(-1);
  useEffect(() => {
    const timer = setTimeout(() => setSettledMoves(moves), DISABLED_MS);
    return () => clearTimeout(timer);
  }, [moves]);
  return settledMoves === moves;
}

/** Sends one answer. If that fails, reports the error and allows another attempt. */
function useAnswer(request: PendingRequest) {
  const [sent, setSent] = useState(false);
  const [error, setError] = useState<string | null>(null);
  const send = (result: unknown) => {
    if (sent) return;
    setSent(true);
    request.answer(result).catch((reason: unknown) => {
      setSent(false);
      setError(errorReport(reason).message);
    });
  };
  return { send, sent, error };
}

function AnswerError({ error }: { error: string | null }) {
  return error && <ErrorText>{t("request.answerFailed", { reason: error })}</ErrorText>;
}

function PermissionCard({ request, session }: { request: PermissionRequest; session: Session }) {
  const enabled = useEnabled();
  const { send, sent, error } = useAnswer(request);
  const { toolCall, options } = request.params;
  const known = session.conversation.value.toolCall(toolCall.toolCallId);
  const title = toolCall.title || known?.title || t("request.tool");
  const content = toolCall.content ?? known?.content ?? [];
  const rawInput = toolCall.rawInput ?? known?.rawInput;
  const command = requestedCommand(rawInput);
  const folder = command?.folder ?? session.address.cwd;
  const choose = (index: number) => {
    const option = options[index];
    if (option && enabled) send({ outcome: { outcome: "selected", optionId: option.optionId } });
  };
  return (
    <Card label={t("request.permission")} icon="warning" onDigit={(digit) => choose(digit - 1)}>
      <p class="request-text">{title}</p>
      <div class="request-details">
        {command && !(showsText(content, `$ ${command.line}`) && showsText(content, `in ${folder}`)) && (
          <>
            <CodeBlock text={`$ ${command.line}`} language="sh" />
            <p class="muted">{t("request.folder", { folder })}</p>
          </>
        )}
        <ToolCallContent
          session={session}
          content={content}
          running={false}
          rawInput={rawInput}
          rawInputOpen={command ? false : undefined}
        />
      </div>
      <div class="button-row" role="group" aria-label={t("request.answers", { title })}>
        {options.map((option, index) => (
          <button
            type="button"
            key={option.optionId}
            class={option.kind.startsWith("allow") ? "allow" : "reject"}
            data-kind={option.kind}
            disabled={!enabled}
            aria-disabled={sent}
            onClick={() => choose(index)}
          >
            {optionLabel(option)}
          </button>
        ))}
      </div>
      <AnswerError error={error} />
    </Card>
  );
}

/** Whether an item in the content of a tool call, such as a code block, is exactly this text. */
function showsText(content: readonly acp.ToolCallContent[], text: string): boolean {
  return content.some((item) => {
    if (item.type !== "content" || item.content.type !== "text") return false;
    return item.content.text.trim().replace(/^`{3,}\w*\n/, "").replace(/\n`{3,}$/, "") === text;
  });
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
