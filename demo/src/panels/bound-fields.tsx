/** Fields bound to a setting by its key: they show its value, and write it when it is changed. */
import { LABELS } from '../session/settings.ts';
import type { Settings } from '../session/types.ts';
import { ChoiceField, type Choices, NumberField, SwitchField } from './fields.tsx';

/** Settings whose every value is a T. */
type KeyOf<T> = { [K in keyof Settings]: Settings[K] extends T ? K : never }[keyof Settings];

/** The settings' schema checks what is written, here a key and a value that were read from the same field. */
export function boundFields(settings: Settings, set: (change: Partial<Settings>) => void) {
  const put = (key: keyof Settings) => (value: unknown) => set({ [key]: value } as Partial<Settings>);
  return {
    number: (
      key: KeyOf<number> & keyof typeof LABELS,
      help: string,
      range: { min: number; max?: number; step?: number },
    ) => <NumberField label={LABELS[key]} help={help} {...range} value={settings[key]} onChange={put(key)} />,
    /** A number's choices are its digits. */
    choice(key: KeyOf<string | number>, label: string, help: string, choices: Choices) {
      const value = settings[key];
      const write = put(key);
      return (
        <ChoiceField
          label={label}
          help={help}
          value={String(value)}
          choices={choices}
          onChange={(chosen) => write(typeof value === 'number' ? Number(chosen) : chosen)}
        />
      );
    },
    onOff: (key: KeyOf<boolean>, label: string, help: string) => (
      <SwitchField label={label} help={help} value={settings[key]} onChange={put(key)} />
    ),
  };
}
