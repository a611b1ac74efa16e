/** The input fields of a form that an agent asks the user to fill in. */
import { useId } from "preact/hooks";
import { t } from "../messages/messages.ts";
import type { FieldValue, FormField } from "../state/form.ts";

/** A choice with at most this many items uses radio buttons, otherwise a select. */
const MAX_RADIO_BUTTONS = 5;
/** Texts that may be longer use a textarea. */
const MAX_INPUT_LENGTH = 200;

interface FieldProps {
  field: FormField;
  value: FieldValue;
  error: string | null;
  onChange: (value: FieldValue) => void;
}

/** One field with its label, description and error. */
export function FormFieldView(props: FieldProps) {
  const { field, error } = props;
  const id = useId();
  const describedBy = [field.description ? `${id}-description` : "", error ? `${id}-error` : ""];
  const describedByIds = describedBy.filter(Boolean).join(" ") || undefined;
  const label = (
    <>
      {field.title}
      {field.required && <span class="required">{t("form.required")}</span>}
    </>
  );
  const notes = (
    <>
      {field.description && (
        <p id={`${id}-description`} class="muted">
          {field.description}
        </p>
      )}
      {error && (
        <p id={`${id}-error`} class="error-text" role="alert">
          {error}
        </p>
      )}
    </>
  );
  const grouped =
    field.type === "choices" || (field.type === "choice" && field.choices.length <= MAX_RADIO_BUTTONS);
  if (grouped) {
    return (
      <fieldset class="field" aria-describedby={describedByIds}>
        <legend>{label}</legend>
        <ChoiceButtons {...props} />
        {notes}
      </fieldset>
    );
  }
  return (
    <div class={`field ${field.type === "boolean" ? "inline" : ""}`}>
      <label for={id}>{label}</label>
      <FieldInput {...props} id={id} describedBy={describedByIds} />
      {notes}
    </div>
  );
}

/** Check boxes or radio buttons. */
function ChoiceButtons({ field, value, onChange }: FieldProps) {
  const chosen = (Array.isArray(value) ? value : [value]).map(String);
  const multiple = field.type === "choices";
  const change = (choice: string, checked: boolean) => {
    if (!multiple) onChange(choice);
    else if (checked) onChange([...chosen.filter(Boolean), choice]);
    else onChange(chosen.filter((one) => one !== choice));
  };
  return (
    <>
      {field.choices.map((choice) => (
        <label class="choice" key={choice.value}>
          <input
            type={multiple ? "checkbox" : "radio"}
            name={field.name}
            checked={chosen.includes(choice.value)}
            onChange={(event) => change(choice.value, event.currentTarget.checked)}
          />
          <span>
            {choice.title}
            {choice.description && <span class="muted"> {choice.description}</span>}
          </span>
        </label>
      ))}
    </>
  );
}

const INPUT_TYPES: Record<string, "email" | "url" | "date" | "datetime-local"> = {
  email: "email",
  uri: "url",
  date: "date",
  "date-time": "datetime-local",
};

interface FieldInputProps extends FieldProps {
  id: string;
  describedBy: string | undefined;
}

function FieldInput({ field, value, onChange, error, id, describedBy }: FieldInputProps) {
  const attributes = {
    id,
    name: field.name,
    "aria-invalid": error !== null,
    "aria-describedby": describedBy,
    "aria-required": field.required,
  };
  if (field.type === "boolean") {
    return (
      <input
        {...attributes}
        type="checkbox"
        checked={value === true}
        onChange={(event) => onChange(event.currentTarget.checked)}
      />
    );
  }
  if (field.type === "choice") {
    return (
      <select {...attributes} value={String(value)} onChange={(event) => onChange(event.currentTarget.value)}>
        <option value="">{t("form.choose")}</option>
        {field.choices.map((choice) => (
          <option key={choice.value} value={choice.value}>
            {choice.title}
          </option>
        ))}
      </select>
    );
  }
  const numeric = field.type === "number" || field.type === "integer";
  const type = numeric ? "text" : (INPUT_TYPES[field.format ?? ""] ?? "text");
  const long = type === "text" && !numeric && (field.max === null || field.max > MAX_INPUT_LENGTH);
  const onInput = (event: { currentTarget: { value: string } }) => onChange(event.currentTarget.value);
  if (long) return <textarea {...attributes} rows={1} value={String(value)} onInput={onInput} />;
  return (
    <input
      {...attributes}
      {...({ type } as { type: "text" })}
      inputMode={numeric ? "decimal" : undefined}
      value={String(value)}
      onInput={onInput}
    />
  );
}
