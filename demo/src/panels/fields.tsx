/** Form fields for settings. Each writes its setting when the user is done, not on every key press. */
import '../styles/fields.css';
import type { ComponentChildren } from 'preact';

interface FieldProps {
  label: string;
  /** One sentence below the field. */
  help: string;
}

export type Choices = readonly (readonly [value: string, name: string])[];

/** Choices shown by their values. */
export const asNamed = (values: readonly string[]): Choices => values.map((value) => [value, value]);

/** Change handler of a number's input. If the value is empty or refused, the current value stays and is shown. */
export const numberChanged =
  (value: number, onChange: (value: number) => void) =>
  ({ currentTarget: input }: { currentTarget: HTMLInputElement }): void => {
    const { valueAsNumber: wanted } = input;
    if (Number.isFinite(wanted)) onChange(wanted);
    input.value = String(value);
  };

export function NumberField(
  props: FieldProps & {
    value: number;
    min: number;
    max?: number;
    step?: number;
    onChange: (value: number) => void;
  },
) {
  const { label, help, value, min, max, step = 1, onChange } = props;
  return (
    <Field label={label} help={help}>
      <input
        type="number"
        inputMode={step < 1 ? 'decimal' : 'numeric'}
        min={min}
        max={max}
        step={step}
        value={value}
        onChange={numberChanged(value, onChange)}
      />
    </Field>
  );
}

export function ChoiceField(
  props: FieldProps & {
    value: string;
    choices: Choices;
    onChange: (value: string) => void;
  },
) {
  const { label, help, value, choices, onChange } = props;
  const known = choices.some(([choice]) => choice === value)
    ? choices
    : [...choices, [value, value] as const];
  return (
    <Field label={label} help={help}>
      <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        {known.map(([choice, name]) => (
          <option key={choice} value={choice}>
            {name}
          </option>
        ))}
      </select>
    </Field>
  );
}

export function SwitchField(props: FieldProps & { value: boolean; onChange: (value: boolean) => void }) {
  const { label, help, value, onChange } = props;
  return (
    <label class="field field-switch">
      <input type="checkbox" checked={value} onChange={(event) => onChange(event.currentTarget.checked)} />
      <span class="field-label" translate>
        {label}
      </span>
      <span class="field-help" translate>
        {help}
      </span>
    </label>
  );
}

function Field({ label, help, children }: FieldProps & { children: ComponentChildren }) {
  return (
    // biome-ignore lint/a11y/noLabelWithoutControl: the control is the child
    <label class="field">
      <span class="field-label" translate>
        {label}
      </span>
      {children}
      {/* Another text is another element: see index.html. */}
      <span key={help} class="field-help" translate>
        {help}
      </span>
    </label>
  );
}
