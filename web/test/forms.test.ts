/** Forms: fields from a schema, and what may be sent. */
import { expect, test } from "vitest";
import { check, fields, type Value } from "../src/state/forms.ts";

const matches = async (pattern: string, text: string) => new RegExp(pattern, "u").test(text);

const SCHEMA = {
  type: "object",
  required: ["name", "kind"],
  properties: {
    name: { type: "string", minLength: 2, maxLength: 5, pattern: "^[a-z]+$" },
    kind: { type: "string", oneOf: [{ const: "lib", title: "Library" }, { const: "app", title: "Application" }] },
    many: { type: "array", items: { type: "string", enum: ["a", "b", "c"] }, minItems: 1, maxItems: 2 },
    count: { type: "integer", minimum: 1, maximum: 9, default: 3 },
    ratio: { type: "number" },
    yes: { type: "boolean", default: true },
    mail: { type: "string", format: "email" },
    when: { type: "string", format: "date" },
  },
};

async function sent(values: Record<string, Value>) {
  return check(fields(SCHEMA), values, matches);
}

test("defaults are there, empty optional fields are left out", async () => {
  expect(await sent({ name: "abc", kind: "lib" })).toEqual({ content: { name: "abc", kind: "lib", count: 3, yes: true } });
});

test("every bound is kept", async () => {
  const wrong: [string, Value][] = [
    ["name", ""], ["name", "a"], ["name", "abcdef"], ["name", "AB"], ["kind", "other"], ["many", ["a", "b", "c"]],
    ["count", "0"], ["count", "10"], ["count", "1.5"], ["count", "x"], ["ratio", "much"], ["mail", "nobody"], ["when", "tomorrow"],
  ];
  for (const [name, value] of wrong) {
    const checked = await sent({ name: "abc", kind: "lib", [name]: value });
    expect(Object.keys("errors" in checked ? checked.errors : {}), `${name}=${String(value)}`).toEqual([name]);
  }
});

test("numbers are numbers, choices are lists", async () => {
  const checked = await sent({ name: "abc", kind: "app", count: "4", ratio: "-0.5", many: ["a", "b"], yes: false, mail: "a@b", when: "2026-11-16" });
  expect(checked).toEqual({ content: { name: "abc", kind: "app", count: 4, ratio: -0.5, many: ["a", "b"], yes: false, mail: "a@b", when: "2026-11-16" } });
});

test("a schema that is none has no fields; an unknown type that is needed cannot be sent", async () => {
  expect(fields(null)).toEqual([]);
  const odd = fields({ properties: { x: { type: "map" } }, required: ["x"] });
  expect(await check(odd, {}, matches)).toHaveProperty("errors.x");
});
