/** Forms that an agent asks to be filled in: fields, their first values, and whether what was entered fits. */
import { record } from "../wire/vendor.ts";

export interface Choice {
  value: string;
  title: string;
  description: string | null;
}

export interface Field {
  name: string;
  type: "string" | "number" | "integer" | "boolean" | "choice" | "choices" | "unknown";
  title: string;
  description: string | null;
  required: boolean;
  choices: Choice[];
  format: string | null;
  pattern: string | null;
  least: number | null;
  most: number | null;
  initial: Value;
}

export type Value = string | boolean | string[];
export type Content = Record<string, string | number | boolean | string[]>;
export type Checked = { content: Content } | { errors: Record<string, string> };

/** Whether a text matches a pattern of the agent's; bounded in time, since such a pattern can be made to run for ever. */
export type Matches = (pattern: string, text: string) => Promise<boolean>;

export function fields(schema: unknown): Field[] {
  const required = record(schema)["required"];
  const names = Array.isArray(required) ? required : [];
  return Object.entries(record(record(schema)["properties"])).map(([name, value]) => {
    const property = record(value);
    const choices = choicesOf(property);
    const type = typeOf(property, choices);
    return {
      name,
      type,
      title: text(property["title"]) ?? name,
      description: text(property["description"]),
      required: names.includes(name),
      choices,
      format: text(property["format"]),
      pattern: text(property["pattern"]),
      least: bound(property, type, ["minLength", "minimum", "minItems"]),
      most: bound(property, type, ["maxLength", "maximum", "maxItems"]),
      initial: initialOf(property["default"], type),
    };
  });
}

export async function check(all: readonly Field[], values: Record<string, Value>, matches: Matches): Promise<Checked> {
  const content: Content = {};
  const errors: Record<string, string> = {};
  for (const field of all) {
    const value = values[field.name] ?? field.initial;
    const problem = await fault(field, value, matches);
    if (problem !== null) errors[field.name] = problem;
    else if (typeof value === "boolean") content[field.name] = value;
    else if (value.length > 0 || (field.required && field.type === "string")) {
      content[field.name] = entered(field, value);
    }
  }
  return Object.keys(errors).length > 0 ? { errors } : { content };
}

function entered(field: Field, value: string | string[]): string | number | string[] {
  if (field.type === "number" || field.type === "integer") return Number(value);
  // A browser's field for dates and times knows no time zone; the protocol's format needs one.
  if (field.format === "date-time" && typeof value === "string" && value !== "") return new Date(value).toISOString();
  return value;
}

async function fault(field: Field, value: Value, matches: Matches): Promise<string | null> {
  if (typeof value === "boolean") return null;
  if (field.type === "unknown") return field.required ? "This page does not know this kind of field; decline instead." : null;
  if (value.length === 0) return field.required ? "This is needed." : null;
  if (Array.isArray(value)) {
    if (field.least !== null && value.length < field.least) return `Choose at least ${field.least}.`;
    if (field.most !== null && value.length > field.most) return `Choose at most ${field.most}.`;
    return null;
  }
  if (field.type === "number" || field.type === "integer") return numberFault(field, value);
  const length = [...value].length;
  if (field.type === "choice") return field.choices.some((choice) => choice.value === value) ? null : "Choose one of the list.";
  if (field.least !== null && length < field.least) return `At least ${field.least} characters, please.`;
  if (field.most !== null && length > field.most) return `At most ${field.most} characters, please.`;
  const shape = formatFault(field.format, value);
  if (shape !== null) return shape;
  if (field.pattern !== null && !(await matches(field.pattern, value))) return `This has to match ${field.pattern}`;
  return null;
}

function numberFault(field: Field, value: string): string | null {
  const number = Number(value);
  if (!Number.isFinite(number) || value.trim() === "") return "This has to be a number.";
  if (field.type === "integer" && !Number.isInteger(number)) return "This has to be a whole number.";
  if (field.least !== null && number < field.least) return `At least ${field.least}, please.`;
  if (field.most !== null && number > field.most) return `At most ${field.most}, please.`;
  return null;
}

function formatFault(format: string | null, value: string): string | null {
  if (format === "email") return /^[^\s@]+@[^\s@]+$/.test(value) ? null : "This has to be an e-mail address.";
  if (format === "uri") return URL.canParse(value) ? null : "This has to be an address such as https://example.com.";
  if (format === "date") return /^\d{4}-\d{2}-\d{2}$/.test(value) && !Number.isNaN(Date.parse(value)) ? null : "This has to be a date.";
  if (format === "date-time") return Number.isNaN(Date.parse(value)) ? "This has to be a date and a time." : null;
  return null;
}

function choicesOf(property: Record<string, unknown>): Choice[] {
  const items = record(property["items"]);
  const titled = property["oneOf"] ?? items["anyOf"] ?? items["oneOf"];
  if (Array.isArray(titled)) {
    return titled.map(record).flatMap((item) => {
      const value = item["const"];
      return typeof value === "string" ? [{ value, title: text(item["title"]) ?? value, description: text(item["description"]) }] : [];
    });
  }
  const plain = property["enum"] ?? items["enum"];
  return Array.isArray(plain) ? plain.map((value) => ({ value: String(value), title: String(value), description: null })) : [];
}

function typeOf(property: Record<string, unknown>, choices: readonly Choice[]): Field["type"] {
  const type = property["type"];
  if (type === "array") return "choices";
  if (type === "string") return choices.length > 0 ? "choice" : "string";
  return type === "number" || type === "integer" || type === "boolean" ? type : "unknown";
}

function bound(property: Record<string, unknown>, type: Field["type"], names: readonly [string, string, string]): number | null {
  const name = type === "choices" ? names[2] : type === "number" || type === "integer" ? names[1] : names[0];
  const value = property[name];
  return typeof value === "number" ? value : null;
}

function initialOf(value: unknown, type: Field["type"]): Value {
  if (type === "boolean") return value === true;
  if (type === "choices") return Array.isArray(value) ? value.filter((item): item is string => typeof item === "string") : [];
  return typeof value === "string" || typeof value === "number" ? String(value) : "";
}

function text(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}
