/** Looks up the texts of the page in the language of the user. */
import { signal } from "@preact/signals";
import { en } from "./en.ts";

type English = typeof en;
export type MessageKey = keyof English;
type PluralForms = { other: string } & Partial<Record<Intl.LDMLPluralRule, string>>;
/** One text, or its plural forms, such as `one` and `other`. */
export type Message = string | PluralForms;
/** The texts of a language. English is shown for those that it lacks. */
export type Messages = Partial<Record<MessageKey, Message>>;
type Value = string | number;

type TextOf<M> = M extends string ? M : M extends { other: infer Other } ? Other : never;
type Placeholder<S> = S extends `${string}{${infer Name}}${infer Rest}` ? Name | Placeholder<Rest> : never;
type NameIn<K extends MessageKey> = Placeholder<TextOf<English[K]>>;
export type MessageValues<K extends MessageKey> = Record<NameIn<K>, Value>;
/** The values are left out if the text has no placeholder. */
type Values<K extends MessageKey> = [NameIn<K>] extends [never] ? [] : [MessageValues<K>];
/** The texts without placeholders. */
export type PlainKey = { [K in MessageKey]: [NameIn<K>] extends [never] ? K : never }[MessageKey];

/**
 * The other languages, each with a function that loads its file. To add a language, copy `en.ts`, translate it
 * and add a line such as `de: () => import("./de.ts").then((file) => file.de)`.
 */
const LANGUAGES: Record<string, () => Promise<Messages>> = {};

interface Language {
  code: string;
  messages: Messages;
  plurals: Intl.PluralRules;
}

const language = signal(languageOf("en", en));

/** The language of the texts, such as `en`. */
export function languageCode(): string {
  return language.value.code;
}

/** The text with its values. A component that calls it is drawn again when the language changes. */
export function t<K extends MessageKey>(key: K, ...values: Values<K>): string {
  return fill(template(key, values[0]), values[0]);
}

/** The text of a message before its values are filled in. */
export function template(key: MessageKey, values: Record<string, Value> = {}): string {
  const { messages, plurals } = language.value;
  const message: Message = messages[key] ?? en[key];
  if (typeof message === "string") return message;
  return message[plurals.select(Number(values["count"] ?? 0))] ?? message.other;
}

/** Replaces `{name}` by its value. Values are inserted as they are. */
export function fill(text: string, values: Record<string, Value> = {}): string {
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => String(values[name] ?? whole));
}

/** Loads the first language of the browser that the page has. */
export async function chooseLanguage(
  wanted: readonly string[] = navigator.languages,
  available: Record<string, () => Promise<Messages>> = LANGUAGES,
): Promise<void> {
  const codes = wanted.map((tag) => tag.split("-")[0]?.toLowerCase() ?? "");
  const code = codes.find((one) => one === "en" || Object.hasOwn(available, one)) ?? "en";
  const messages = await available[code]?.().catch(() => null);
  language.value = messages ? languageOf(code, messages) : languageOf("en", en);
  document.documentElement.lang = language.value.code;
}

function languageOf(code: string, messages: Messages): Language {
  return { code, messages, plurals: new Intl.PluralRules(code) };
}
