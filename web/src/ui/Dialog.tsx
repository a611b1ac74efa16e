/** A dialog over the page, and a menu below a button. Both return the focus to where it was. */
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import { t } from "../messages/messages.ts";
import { Icon, type IconName } from "./elements.tsx";

interface DialogProps {
  title: string;
  class?: string;
  onClose: () => void;
  children: ComponentChildren;
}

/** A native dialog, which traps the focus and closes with Esc. */
export function Dialog({ title, class: name = "", onClose, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const opener = document.activeElement;
    dialog.current?.showModal();
    return () => {
      if (opener instanceof HTMLElement) opener.focus();
    };
  }, []);
  return (
    <dialog
      ref={dialog}
      class={`dialog ${name}`}
      aria-labelledby={id}
      onClose={onClose}
      onClick={(event) => {
        if (event.target === dialog.current) dialog.current?.close(); // the backdrop
      }}
    >
      <header class="dialog-header">
        <h2 id={id}>{title}</h2>
        <button
          type="button"
          class="quiet round"
          aria-label={t("app.close")}
          onClick={() => dialog.current?.close()}
        >
          <Icon name="close" />
        </button>
      </header>
      {children}
    </dialog>
  );
}

export interface MenuItem {
  label: string;
  icon: IconName;
  danger?: boolean;
  action: () => void;
}

interface MenuProps {
  label: string;
  items: readonly MenuItem[];
  open: boolean;
  onOpen: (open: boolean) => void;
}

/** A round button with a menu. Arrow keys move, Esc closes. */
export function MenuButton({ label, items, open, onOpen }: MenuProps) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!open) return;
    box.current?.querySelector<HTMLElement>("[role=menuitem]")?.focus();
    const closeOutside = (event: Event) => {
      if (!box.current?.contains(event.target as Node)) onOpen(false);
    };
    addEventListener("pointerdown", closeOutside);
    return () => removeEventListener("pointerdown", closeOutside);
  }, [open]);
  const close = () => {
    onOpen(false);
    box.current?.querySelector<HTMLElement>("[aria-haspopup]")?.focus();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (!open) return;
    const entries = [...(box.current?.querySelectorAll<HTMLElement>("[role=menuitem]") ?? [])];
    const at = entries.indexOf(document.activeElement as HTMLElement);
    const steps: Record<string, number> = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 };
    const next = steps[event.key];
    if (event.key === "Escape" || event.key === "Tab") close();
    else if (next !== undefined) entries.at(next % entries.length)?.focus();
    else return;
    event.preventDefault();
  };
  return (
    <div class="menu-box" ref={box} onKeyDown={onKeyDown}>
      <button
        type="button"
        class="quiet round"
        aria-haspopup="menu"
        aria-expanded={open}
        aria-label={label}
        title={label}
        onClick={() => onOpen(!open)}
      >
        <Icon name="more" />
      </button>
      {open && (
        <div class="popup-menu" role="menu" aria-label={label}>
          {items.map((item) => (
            <button
              type="button"
              role="menuitem"
              key={item.label}
              class={item.danger ? "danger" : undefined}
              onClick={() => {
                close();
                item.action();
              }}
            >
              <Icon name={item.icon} /> {item.label}
            </button>
          ))}
        </div>
      )}
    </div>
  );
}
