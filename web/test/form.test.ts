/** Forms: fields from a schema, and validation. */
import { expect, test } from "vitest";
import { checkForm, formFields, type FieldValue } from "../src/state/form.ts";

const matches = async (pattern: string, text: string) => new RegExp(pattern, "u").test(text);

const SCHEMA = {
  type: "object",
  required: ["name", "kind"],
  properties: {
    name: { type: "string", minLength: 2, maxLength: 5, pattern: "^[a-z]+$" },
    kind: {
      type: "string",
      oneOf: [
        { const: "lib", title: "Library" },
        { const: "app", title: "Application" },
      ],
    },
    many: { type: "array", items: { type: "string", enum: ["a", "b", "c"] }, minItems: 1, maxItems: 2 },
    count: { type: "integer", minimum: 1, maximum: 9, default: 3 },
    ratio: { type: "number" },
    yes: { type: "boolean", default: true },
    mail: { type: "string", format: "email" },
    when: { type: "string", format: "date" },
  },
};

async function submit(values: Record<string, FieldValue>) {
  return checkForm(formFields(SCHEMA), values, matches);
}

test("sends defaults and leaves out empty optional fields", async () => {
  expect(await submit({ name: "abc", kind: "lib" })).toEqual({
    content: { name: "abc", kind: "lib", count: 3, yes: true },
  });
});

test("rejects values outside every limit", async () => {
  const invalid: [string, FieldValue][] = [
    ["name", ""],
    ["name", "a"],
    ["name", "abcdef"],
    ["name", "AB"],
    ["kind", "other"],
    ["many", ["a", "b", "c"]],
    ["count", "0"],
    ["count", "10"],
    ["count", "1.5"],
    ["count", "x"],
    ["ratio", "much"],
    ["mail", "no address"],
    ["when", "tomorrow"],
  ];
  for (const [name, value] of invalid) {
    const result = await submit({ name: "abc", kind: "lib", [name]: value });
    expect(Object.keys("errors" in result ? result.errors : {}), `${name}=${String(value)}`).toEqual([name]);
  }
});

test("sends numbers as numbers and multiple choices as lists", async () => {
  const result = await submit({
    name: "abc",
    kind: "app",
    count: "4",
    ratio: "-0.5",
    many: ["a", "b"],
    yes: false,
    mail: "a@b",
    when: "2026-11-16",
  });
  expect(result).toEqual({
    content: {
      name: "abc",
      kind: "app",
      count: 4,
      ratio: -0.5,
      many: ["a", "b"],
      yes: false,
      mail: "a@b",
      when: "2026-11-16",
    },
  });
});

test("has no fields without a schema, and rejects a required field of unknown type", async () => {
  expect(formFields(null)).toEqual([]);
  const unknown = formFields({ properties: { x: { type: "map" } }, required: ["x"] });
  expect(await checkForm(unknown, {}, matches)).toHaveProperty("errors.x");
});
