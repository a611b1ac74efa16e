/** Forms that agents ask users to fill in: the fields of a schema, their initial values, and validation. */
import { t } from "../messages/messages.ts";
import { asRecord, nonEmptyText } from "../wire/extension-methods.ts";

const PATTERN_TIMEOUT_MS = 300;

export interface FieldChoice {
  value: string;
  title: string;
  description: string | null;
}

export interface FormField {
  name: string;
  type: "string" | "number" | "integer" | "boolean" | "choice" | "choices" | "unknown";
  title: string;
  description: string | null;
  required: boolean;
  choices: FieldChoice[];
  format: string | null;
  pattern: string | null;
  /** Smallest length, number or count of choices. */
  min: number | null;
  max: number | null;
  initial: FieldValue;
}

/** What a user entered in a field. */
export type FieldValue = string | boolean | string[];
/** What is sent to the agent. */
export type FormContent = Record<string, string | number | boolean | string[]>;
export type FormResult = { content: FormContent } | { errors: Record<string, string> };
export type PatternMatcher = (pattern: string, text: string) => Promise<boolean>;

/** The fields of the form that a JSON Schema describes. */
export function formFields(schema: unknown): FormField[] {
  const required = asRecord(schema)["required"];
  const requiredNames = Array.isArray(required) ? required : [];
  return Object.entries(asRecord(asRecord(schema)["properties"])).map(([name, value]) => {
    const property = asRecord(value);
    const choices = fieldChoices(property);
    const type = fieldType(property, choices);
    return {
      name,
      type,
      title: nonEmptyText(property["title"]) ?? name,
      description: nonEmptyText(property["description"]),
      required: requiredNames.includes(name),
      choices,
      format: nonEmptyText(property["format"]),
      pattern: nonEmptyText(property["pattern"]),
      min: fieldLimit(property, type, ["minLength", "minimum", "minItems"]),
      max: fieldLimit(property, type, ["maxLength", "maximum", "maxItems"]),
      initial: initialValue(property["default"], type),
    };
  });
}

/** Validates the values. Returns the content to send, or an error message for each invalid field. */
export async function checkForm(
  fields: readonly FormField[],
  values: Record<string, FieldValue>,
  matches: PatternMatcher,
): Promise<FormResult> {
  const content: FormContent = {};
  const errors: Record<string, string> = {};
  for (const field of fields) {
    const value = values[field.name] ?? field.initial;
    const error = await fieldError(field, value, matches);
    if (error !== null) errors[field.name] = error;
    else if (typeof value === "boolean") content[field.name] = value;
    else if (value.length > 0 || (field.required && field.type === "string")) {
      content[field.name] = fieldContent(field, value);
    }
  }
  return Object.keys(errors).length > 0 ? { errors } : { content };
}

/**
 * Tests an agent's pattern in a worker, because a pattern can take forever. After the time limit the text
 * counts as valid, and the agent can still reject it.
 */
export function matchPattern(pattern: string, text: string): Promise<boolean> {
  return new Promise((resolve) => {
    const worker = new Worker(new URL("./pattern-worker.ts", import.meta.url), { type: "module" });
    const finish = (matches: boolean) => {
      clearTimeout(timer);
      worker.terminate();
      resolve(matches);
    };
    const timer = setTimeout(() => finish(true), PATTERN_TIMEOUT_MS);
    worker.onmessage = (event: MessageEvent<boolean>) => finish(event.data);
    worker.onerror = () => finish(true);
    worker.postMessage({ pattern, text });
  });
}

function fieldContent(field: FormField, value: string | string[]): string | number | string[] {
  if (field.type === "number" || field.type === "integer") return Number(value);
  // The browser's date and time input has no time zone, but the protocol's format requires one.
  if (field.format === "date-time" && typeof value === "string" && value !== "") {
    return new Date(value).toISOString();
  }
  return value;
}

async function fieldError(
  field: FormField,
  value: FieldValue,
  matches: PatternMatcher,
): Promise<string | null> {
  if (typeof value === "boolean") return null;
  if (field.type === "unknown") {
    return field.required ? t("form.unsupported") : null;
  }
  if (value.length === 0) return field.required ? t("form.missing") : null;
  if (Array.isArray(value)) {
    if (field.min !== null && value.length < field.min) return t("form.chooseAtLeast", { limit: field.min });
    if (field.max !== null && value.length > field.max) return t("form.chooseAtMost", { limit: field.max });
    return null;
  }
  if (field.type === "number" || field.type === "integer") return numberError(field, value);
  if (field.type === "choice") {
    return field.choices.some((choice) => choice.value === value) ? null : t("form.notInList");
  }
  const length = [...value].length;
  if (field.min !== null && length < field.min) return t("form.tooShort", { count: field.min });
  if (field.max !== null && length > field.max) return t("form.tooLong", { count: field.max });
  const error = formatError(field.format, value);
  if (error !== null) return error;
  if (field.pattern !== null && !(await matches(field.pattern, value))) {
    return t("form.pattern", { pattern: field.pattern });
  }
  return null;
}

function numberError(field: FormField, value: string): string | null {
  const number = Number(value);
  if (!Number.isFinite(number) || value.trim() === "") return t("form.number");
  if (field.type === "integer" && !Number.isInteger(number)) return t("form.integer");
  if (field.min !== null && number < field.min) return t("form.atLeast", { limit: field.min });
  if (field.max !== null && number > field.max) return t("form.atMost", { limit: field.max });
  return null;
}

function formatError(format: string | null, value: string): string | null {
  switch (format) {
    case "email":
      return /^[^\s@]+@[^\s@]+$/.test(value) ? null : t("form.email");
    case "uri":
      return URL.canParse(value) ? null : t("form.address");
    case "date":
      return /^\d{4}-\d{2}-\d{2}$/.test(value) && !Number.isNaN(Date.parse(value)) ? null : t("form.date");
    case "date-time":
      return Number.isNaN(Date.parse(value)) ? t("form.dateTime") : null;
    default:
      return null;
  }
}

function fieldChoices(property: Record<string, unknown>): FieldChoice[] {
  const items = asRecord(property["items"]);
  const titled = property["oneOf"] ?? items["anyOf"] ?? items["oneOf"];
  if (Array.isArray(titled)) {
    return titled.map(asRecord).flatMap((item) => {
      const value = item["const"];
      if (typeof value !== "string") return [];
      return [
        {
          value,
          title: nonEmptyText(item["title"]) ?? value,
          description: nonEmptyText(item["description"]),
        },
      ];
    });
  }
  const plain = property["enum"] ?? items["enum"];
  if (!Array.isArray(plain)) return [];
  return plain.map((value) => ({ value: String(value), title: String(value), description: null }));
}

function fieldType(property: Record<string, unknown>, choices: readonly FieldChoice[]): FormField["type"] {
  const type = property["type"];
  if (type === "array") return "choices";
  if (type === "string") return choices.length > 0 ? "choice" : "string";
  return type === "number" || type === "integer" || type === "boolean" ? type : "unknown";
}

/** Reads the keyword that applies to the type: one for texts, one for numbers, one for lists. */
function fieldLimit(
  property: Record<string, unknown>,
  type: FormField["type"],
  [forText, forNumber, forList]: readonly [string, string, string],
): number | null {
  const keyword =
    type === "choices" ? forList : type === "number" || type === "integer" ? forNumber : forText;
  const value = property[keyword];
  return typeof value === "number" ? value : null;
}

function initialValue(value: unknown, type: FormField["type"]): FieldValue {
  if (type === "boolean") return value === true;
  if (type === "choices") {
    return Array.isArray(value) ? value.filter((item): item is string => typeof item === "string") : [];
  }
  return typeof value === "string" || typeof value === "number" ? String(value) : "";
}
