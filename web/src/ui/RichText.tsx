/** A text of the page in which `code` and [[keys]] are marked. */
import { fill, template, type MessageKey, type MessageValues } from "../messages/messages.ts";

interface RichTextProps<K extends MessageKey> {
  message: K;
  values?: MessageValues<K>;
}

export function RichText<K extends MessageKey>({ message, values }: RichTextProps<K>) {
  const parts = template(message, values).split(/(`[^`]*`|\[\[.*?\]\])/);
  return (
    <>
      {parts.map((part, index) => {
        if (part.startsWith("`")) return <code key={index}>{fill(part.slice(1, -1), values)}</code>;
        if (part.startsWith("[[")) return <kbd key={index}>{fill(part.slice(2, -2), values)}</kbd>;
        return fill(part, values);
      })}
    </>
  );
}
