/** A form that an agent asks to be filled in. */
import { useId, useMemo, useState } from "preact/hooks";
import { check, fields, type Field, type Value } from "../state/forms.ts";
import { matches } from "../state/pattern.ts";
import type { ElicitationQuestion } from "../state/questions.ts";
import { record } from "../wire/vendor.ts";
import { Card, useAnswer, useCalm } from "./Questions.tsx";

export function FormCard({ question }: { question: ElicitationQuestion }) {
  const calm = useCalm();
  const { send, sent, problem } = useAnswer(question);
  const schema = record(question.params)["requestedSchema"];
  const all = useMemo(() => fields(schema), [schema]);
  const [values, setValues] = useState<Record<string, Value>>(() => Object.fromEntries(all.map((field) => [field.name, field.initial])));
  const [errors, setErrors] = useState<Record<string, string>>({});
  const title = record(schema)["title"];
  const submit = async (form: HTMLFormElement) => {
    const checked = await check(all, values, matches);
    if ("content" in checked) send({ action: "accept", content: checked.content });
    else {
      setErrors(checked.errors);
      const first = all.find((field) => field.name in checked.errors);
      for (const element of form.elements) {
        if (element instanceof HTMLElement && element.getAttribute("name") === first?.name) {
          element.focus();
          break;
        }
      }
    }
  };
  return (
    <Card label={`${question.agent} asks`} icon="help">
      <p class="asked">{question.params.message}</p>
      {typeof title === "string" && <p class="faint">{title}</p>}
      <form
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          if (calm && !sent) void submit(event.currentTarget);
        }}
      >
        {all.map((field) => (
          <FieldView
            key={field.name}
            field={field}
            value={values[field.name] ?? field.initial}
            error={errors[field.name] ?? null}
            change={(value) => {
              setValues((before) => ({ ...before, [field.name]: value }));
              setErrors(({ [field.name]: _, ...rest }) => rest);
            }}
          />
        ))}
        {problem && (
          <p class="fault" role="alert">
            The answer could not be sent: {problem}
          </p>
        )}
        <div class="choices">
          <button type="submit" class="primary" disabled={!calm}>
            Send
          </button>
          <button type="button" disabled={!calm} onClick={() => send({ action: "decline" })}>
            Decline
          </button>
          <button type="button" class="quiet" disabled={!calm} onClick={() => send({ action: "cancel" })}>
            Cancel
          </button>
        </div>
      </form>
    </Card>
  );
}

interface FieldProperties {
  field: Field;
  value: Value;
  error: string | null;
  change: (value: Value) => void;
}

function FieldView(properties: FieldProperties) {
  const { field, error } = properties;
  const id = useId();
  const described = [field.description ? `${id}-about` : "", error ? `${id}-fault` : ""].filter(Boolean).join(" ") || undefined;
  const grouped = field.type === "choices" || (field.type === "choice" && field.choices.length <= 5);
  const label = (
    <>
      {field.title}
      {field.required && <span class="needed"> (needed)</span>}
    </>
  );
  const about = (
    <>
      {field.description && (
        <p id={`${id}-about`} class="faint">
          {field.description}
        </p>
      )}
      {error && (
        <p id={`${id}-fault`} class="fault" role="alert">
          {error}
        </p>
      )}
    </>
  );
  if (grouped) {
    return (
      <fieldset class="field" aria-describedby={described}>
        <legend>{label}</legend>
        <Options {...properties} />
        {about}
      </fieldset>
    );
  }
  return (
    <div class={`field ${field.type === "boolean" ? "inline" : ""}`}>
      <label for={id}>{label}</label>
      <Input {...properties} id={id} described={described} />
      {about}
    </div>
  );
}

function Options({ field, value, change }: FieldProperties) {
  const chosen = Array.isArray(value) ? value : [value];
  const many = field.type === "choices";
  return (
    <>
      {field.choices.map((choice) => (
        <label class="option" key={choice.value}>
          <input
            type={many ? "checkbox" : "radio"}
            name={field.name}
            checked={chosen.includes(choice.value)}
            onChange={(event) => {
              if (!many) change(choice.value);
              else change(event.currentTarget.checked ? [...chosen.filter(Boolean), choice.value].map(String) : chosen.filter((one) => one !== choice.value).map(String));
            }}
          />
          <span>
            {choice.title}
            {choice.description && <span class="faint"> {choice.description}</span>}
          </span>
        </label>
      ))}
    </>
  );
}

const INPUTS: Record<string, "email" | "url" | "date" | "datetime-local"> = { email: "email", uri: "url", date: "date", "date-time": "datetime-local" };

function Input({ field, value, change, error, id, described }: FieldProperties & { id: string; described: string | undefined }) {
  const common = { id, name: field.name, "aria-invalid": error !== null, "aria-describedby": described, "aria-required": field.required };
  if (field.type === "boolean") {
    return <input {...common} type="checkbox" checked={value === true} onChange={(event) => change(event.currentTarget.checked)} />;
  }
  if (field.type === "choice") {
    return (
      <select {...common} value={String(value)} onChange={(event) => change(event.currentTarget.value)}>
        <option value="">Choose…</option>
        {field.choices.map((choice) => (
          <option key={choice.value} value={choice.value}>
            {choice.title}
          </option>
        ))}
      </select>
    );
  }
  const numeric = field.type === "number" || field.type === "integer";
  const type = numeric ? "text" : (INPUTS[field.format ?? ""] ?? "text");
  const long = type === "text" && !numeric && (field.most === null || field.most > 200);
  const entered = (event: { currentTarget: { value: string } }) => change(event.currentTarget.value);
  if (long) return <textarea {...common} rows={1} value={String(value)} onInput={entered} />;
  return <input {...common} {...({ type } as { type: "text" })} inputMode={numeric ? "decimal" : undefined} value={String(value)} onInput={entered} />;
}
