/**
 * An agent asks for permission: what it wants to do, one main answer, the others in a menu, and a field to say
 * what it should do instead.
 */
import type * as acp from "@agentclientprotocol/sdk";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { t } from "../messages/messages.ts";
import { useGateway } from "../state/gateway.ts";
import {
  arrangeOptions,
  optionLabel,
  rejection,
  requestedCommand,
  type PermissionRequest,
  type RequestedCommand,
} from "../state/pending-requests.ts";
import { newPrompt } from "../state/prompt-queue.ts";
import type { Session } from "../state/session.ts";
import { AnswerError, Card, useAnswer, useEnabled } from "./Card.tsx";
import { CodeBlock } from "./ContentBlocks.tsx";
import { Icon } from "./elements.tsx";
import { ToolCallContent } from "./ToolCallView.tsx";

export function PermissionCard({ request, session }: { request: PermissionRequest; session: Session }) {
  const gateway = useGateway();
  const enabled = useEnabled();
  const { send, sent, error } = useAnswer(request);
  const { toolCall, options } = request.params;
  const known = session.conversation.value.toolCall(toolCall.toolCallId);
  const title = toolCall.title || known?.title || t("request.tool");
  const rawInput = toolCall.rawInput ?? known?.rawInput;
  const command = requestedCommand(rawInput);
  const folder = command?.folder ?? session.address.cwd;
  const content = withoutCommand(toolCall.content ?? known?.content ?? [], command, folder);
  const choose = (index: number) => {
    const option = options[index];
    if (option && enabled) send({ outcome: { outcome: "selected", optionId: option.optionId } });
  };
  const sayInstead = (text: string) => {
    if (!enabled || sent) return;
    send(rejection(options));
    gateway.sayInstead(session, newPrompt([{ type: "text", text }]));
  };
  return (
    <Card label={t("request.permission")} icon="warning" onDigit={(digit) => choose(digit - 1)}>
      {title !== command?.line && <p class="request-text">{title}</p>}
      <div class="request-details">
        {command && <CommandView line={command.line} folder={folder} />}
        <ToolCallContent
          session={session}
          content={content}
          running={false}
          rawInput={rawInput}
          rawInputOpen={command ? false : undefined}
        />
      </div>
      <Answers
        title={title}
        options={options}
        enabled={enabled}
        sent={sent}
        onChoose={choose}
        onSayInstead={sayInstead}
      />
      <AnswerError error={error} />
    </Card>
  );
}

/** The command as a shell shows it, with its folder. */
function CommandView({ line, folder }: { line: string; folder: string }) {
  const caption = (
    <span class="command-folder">
      <Icon name="folder" /> <span class="path">{t("request.folder", { folder })}</span>
    </span>
  );
  return <CodeBlock text={line} language="sh" shellPrompt caption={caption} />;
}

/** The content of the tool call without what `CommandView` shows, if it is exactly that. */
function withoutCommand(
  content: readonly acp.ToolCallContent[],
  command: RequestedCommand | null,
  folder: string,
): readonly acp.ToolCallContent[] {
  const shown = [`$ ${command?.line}`, `in ${folder}`];
  const texts = content.map(textOf);
  if (command === null || !shown.every((text) => texts.includes(text))) return content;
  return content.filter((_, index) => !shown.includes(texts[index] ?? ""));
}

/** The text of an item, such as a code block without its fences. */
function textOf(item: acp.ToolCallContent): string | null {
  if (item.type !== "content" || item.content.type !== "text") return null;
  return item.content.text
    .trim()
    .replace(/^`{3,}\w*\n/, "")
    .replace(/\n`{3,}$/, "");
}

interface AnswersProps {
  title: string;
  options: readonly acp.PermissionOption[];
  enabled: boolean;
  sent: boolean;
  onChoose: (index: number) => void;
  onSayInstead: (text: string) => void;
}

function Answers({ title, options, enabled, sent, onChoose, onSayInstead }: AnswersProps) {
  const [open, setOpen] = useState<"menu" | "instead" | null>(null);
  const { primary, reject, others } = arrangeOptions(options);
  const button = (index: number, className: string) => {
    const option = options[index];
    if (!option) return null;
    return (
      <button
        type="button"
        class={className}
        data-kind={option.kind}
        disabled={!enabled}
        aria-disabled={sent}
        aria-keyshortcuts={index < 9 ? String(index + 1) : undefined}
        onClick={() => onChoose(index)}
      >
        {optionLabel(option)}
        <KeyHint index={index} />
      </button>
    );
  };
  if (open === "instead") {
    return <InsteadForm enabled={enabled && !sent} onSend={onSayInstead} onBack={() => setOpen(null)} />;
  }
  return (
    <>
      <div class="button-row" role="group" aria-label={t("request.answers", { title })}>
        {primary !== null && button(primary, "primary")}
        {reject !== null && button(reject, "reject")}
        <button
          type="button"
          class="instead-button"
          disabled={!enabled}
          aria-disabled={sent}
          onClick={() => setOpen("instead")}
        >
          {t("request.instead")}
        </button>
        {others.length > 0 && (
          <button
            type="button"
            class="quiet more-button"
            aria-haspopup="menu"
            aria-expanded={open === "menu"}
            disabled={!enabled}
            onClick={() => setOpen(open === "menu" ? null : "menu")}
          >
            {t("request.more", { count: others.length })}
            <span class="menu-arrow">
              <Icon name="chevron" />
            </span>
          </button>
        )}
      </div>
      {open === "menu" && (
        <OptionMenu
          options={options}
          indexes={others}
          enabled={enabled && !sent}
          onChoose={onChoose}
          onClose={() => setOpen(null)}
        />
      )}
    </>
  );
}

/** The digit that chooses an option while the focus is in the card. */
function KeyHint({ index }: { index: number }) {
  return index < 9 ? (
    <kbd class="key-hint" aria-hidden="true">
      {index + 1}
    </kbd>
  ) : null;
}

interface OptionMenuProps {
  options: readonly acp.PermissionOption[];
  indexes: readonly number[];
  enabled: boolean;
  onChoose: (index: number) => void;
  onClose: () => void;
}

/** The other answers. Arrow keys move, Esc closes and returns to the button. */
function OptionMenu({ options, indexes, enabled, onChoose, onClose }: OptionMenuProps) {
  const menu = useRef<HTMLDivElement>(null);
  // Before the menu is painted: a key right after it belongs to the menu.
  useLayoutEffect(() => menu.current?.querySelector("button")?.focus(), []);
  const close = () => {
    const opener = menu.current?.previousElementSibling?.querySelector<HTMLElement>("[aria-haspopup]");
    onClose();
    opener?.focus();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const items = [...(menu.current?.querySelectorAll("button") ?? [])];
    const at = items.indexOf(document.activeElement as HTMLButtonElement);
    const steps: Record<string, number> = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 };
    const next = steps[event.key];
    if (event.key === "Escape") close();
    else if (next !== undefined) items.at(next % items.length)?.focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="menu" role="menu" aria-label={t("request.moreLabel")} ref={menu} onKeyDown={onKeyDown}>
      {indexes.map((index) => {
        const option = options[index];
        return (
          option && (
            <button
              type="button"
              role="menuitem"
              key={option.optionId}
              data-kind={option.kind}
              aria-disabled={!enabled}
              onClick={() => onChoose(index)}
            >
              <span>{optionLabel(option)}</span>
              <KeyHint index={index} />
            </button>
          )
        );
      })}
    </div>
  );
}

interface InsteadFormProps {
  enabled: boolean;
  onSend: (text: string) => void;
  onBack: () => void;
}

/** Rejects, and tells the agent what to do instead. */
function InsteadForm({ enabled, onSend, onBack }: InsteadFormProps) {
  const [text, setText] = useState("");
  const field = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => field.current?.focus(), []);
  const back = () => {
    field.current?.closest<HTMLElement>("[data-request]")?.focus();
    onBack();
  };
  const submit = () => {
    if (text.trim() !== "") onSend(text.trim());
  };
  return (
    <form
      class="instead"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <textarea
        ref={field}
        rows={2}
        dir="auto"
        aria-label={t("request.insteadLabel")}
        placeholder={t("request.insteadLabel")}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Escape") back();
          else if (event.key === "Enter" && !event.shiftKey && !event.isComposing && !event.repeat) submit();
          else {
            event.stopPropagation(); // a digit is text here, not an answer
            return;
          }
          event.preventDefault();
        }}
      />
      <div class="button-row">
        <button type="submit" class="primary" disabled={!enabled || text.trim() === ""}>
          {t("request.insteadSend")}
        </button>
        <button type="button" class="quiet" onClick={back}>
          {t("request.insteadBack")}
        </button>
      </div>
    </form>
  );
}
