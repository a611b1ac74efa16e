/**
 * Characters that cannot be seen but change what is: those that turn the direction of the text around, so that `cod.sh` reads
 * `hs.doc`, and those that hide words in it. They are shown by their number, wherever text of others is shown.
 *
 * Marks of direction that real texts need (U+200E, U+200F, U+061C) and the joiners of letters and emoji stay what they are.
 */
import { Fragment, options, type ComponentChildren } from "preact";

const UNSEEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u200b\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;

export function visible(text: string): string {
  return text.replace(UNSEEN, (character) => `‹U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}›`);
}

const TEXTS = ["title", "aria-label", "aria-valuetext", "alt", "placeholder", "label"];

/** From now on every text that becomes part of the page goes through `visible`; values of fields do not. */
export function showUnseen(): void {
  const before = options.vnode;
  options.vnode = (vnode) => {
    if (typeof vnode.type === "string" || vnode.type === Fragment) {
      const props = vnode.props as Record<string, unknown>;
      if (props["children"] !== undefined) props["children"] = seen(props["children"] as ComponentChildren);
      for (const name of TEXTS) if (typeof props[name] === "string") props[name] = visible(props[name]);
    }
    before?.(vnode);
  };
}

function seen(children: ComponentChildren): ComponentChildren {
  if (typeof children === "string") return visible(children);
  return Array.isArray(children) && children.some((child) => typeof child === "string" || Array.isArray(child)) ? children.map(seen) : children;
}
