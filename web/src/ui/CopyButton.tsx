/** A button that copies a text as it is, with its hidden characters. */
import { useState } from "preact/hooks";
import { t } from "../messages/messages.ts";
import { Icon } from "./elements.tsx";

const SHOWN_MS = 1500;

interface CopyButtonProps {
  text: string;
  /** What screen readers say, if there are several buttons. */
  label?: string;
  /** Shows the picture without the word. */
  compact?: boolean;
  /** The word beside the picture, if it is not "Copy". */
  children?: string;
}

export function CopyButton({ text, label, compact = false, children }: CopyButtonProps) {
  const [copied, setCopied] = useState(false);
  const onCopy = async () => {
    setCopied(await copyText(text));
    setTimeout(() => setCopied(false), SHOWN_MS);
  };
  const word = copied ? t("code.copied") : (children ?? t("code.copy"));
  return (
    <button
      type="button"
      class="quiet small"
      aria-label={copied ? word : label}
      title={compact ? (label ?? word) : undefined}
      onClick={() => void onCopy()}
    >
      <Icon name={copied ? "check" : "copy"} />
      {!compact && ` ${word}`}
    </button>
  );
}

/** Copies a text. Browsers offer the clipboard API only over TLS and on loopback, so there is a fallback. */
async function copyText(text: string): Promise<boolean> {
  if (navigator.clipboard !== undefined) {
    return navigator.clipboard.writeText(text).then(
      () => true,
      () => false,
    );
  }
  const area = document.createElement("textarea");
  Object.assign(area, { value: text, className: "visually-hidden" });
  // In an open dialog, nothing outside of it can be selected.
  (document.querySelector("dialog[open]") ?? document.body).appendChild(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  return copied;
}
