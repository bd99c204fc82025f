/** Fields for the conversations and for the fleet's engines. */
import { EVICTIONS } from '../../../src/config/store.ts';
import { NAMED_COSTS } from '../../../src/simulate/costs/published.ts';
import { asNamed, ChoiceField, NumberField } from '../panels/fields.tsx';
import { costsHere } from '../session/experiments/costs.ts';
import { plural } from '../views/format.ts';
import type { Fleet } from './fleet.ts';
import { costsInWords, type FleetSettings, MEASURED, MOST_ENGINES, REAL_MOST } from './settings.ts';

type Whole =
  | 'prefill'
  | 'decode'
  | 'blocks'
  | 'store'
  | 'storeFolder'
  | 'startUp'
  | 'turns'
  | 'question'
  | 'answer'
  | 'system'
  | 'think'
  | 'seed';

interface WholeField {
  key: Whole;
  label: string;
  help: string;
  min: number;
  max?: number;
  anew: boolean;
}

const FIELDS: readonly WholeField[] = [
  {
    key: 'prefill',
    label: 'P at the start',
    help: 'Prefill engines.',
    min: 1,
    max: MOST_ENGINES,
    anew: true,
  },
  { key: 'decode', label: 'D at the start', help: 'Decode engines.', min: 1, max: MOST_ENGINES, anew: true },
  {
    key: 'blocks',
    label: 'Pool, blocks',
    help: 'Per engine; 64 tokens each.',
    min: 32,
    max: 4096,
    anew: true,
  },
  {
    key: 'store',
    label: 'Store, blocks',
    help: 'Shared by all engines; 0: none.',
    min: 0,
    max: 8192,
    anew: true,
  },
  {
    key: 'storeFolder',
    label: 'Store folder, blocks',
    help: 'On disk, below the store; 0: none.',
    min: 0,
    max: 65_536,
    anew: true,
  },
  {
    key: 'startUp',
    label: 'Start-up, s',
    help: 'Assumed time until a new engine serves. BLIS: 240 s.',
    min: 0,
    max: 600,
    anew: true,
  },
  { key: 'seed', label: 'Seed', help: 'For arrivals and lengths.', min: 0, anew: true },
  { key: 'turns', label: 'Turns', help: 'Per conversation.', min: 1, max: 12, anew: false },
  {
    key: 'question',
    label: 'Question, tokens',
    help: 'Mean; lognormal.',
    min: 1,
    max: 1000,
    anew: false,
  },
  { key: 'answer', label: 'Answer, tokens', help: 'Mean; lognormal.', min: 1, max: 500, anew: false },
  {
    key: 'system',
    label: 'System prompt, tokens',
    help: 'One of four, before each first question.',
    min: 0,
    max: 2000,
    anew: false,
  },
  {
    key: 'think',
    label: 'Think time, s',
    help: 'Between an answer and the next question.',
    min: 0,
    max: 60,
    anew: false,
  },
];

/** Fields that apply only to simulated engines. */
const MODELLED: ReadonlySet<Whole> = new Set(['startUp', 'storeFolder']);

export function WorkloadFields({ fleet }: { fleet: Fleet }) {
  const settings = fleet.settings.value;
  const set = (change: Partial<FleetSettings>) => fleet.set(change);
  const names = [...(costsHere.value ? [MEASURED] : []), ...Object.keys(NAMED_COSTS)];
  const real = fleet.isReal.value;
  const fields = (anew: boolean) =>
    FIELDS.filter((field) => field.anew === anew && !(real && MODELLED.has(field.key))).map(
      ({ key, anew: _, ...field }) => (
        <NumberField
          key={key}
          {...field}
          {...(real && key in REAL_MOST ? { max: REAL_MOST[key as keyof typeof REAL_MOST] } : {})}
          value={settings[key]}
          onChange={(value) => set({ [key]: value })}
        />
      ),
    );
  return (
    <details class="panel fleet-made">
      <summary>
        {settings.prefill} P and {settings.decode} D{settings.store > 0 && ', a store'}, conversations of{' '}
        {plural(settings.turns, 'turn')}
      </summary>
      <h3>Conversations</h3>
      <div class="fleet-fields">{fields(false)}</div>
      <h3>Engines (a change restarts the fleet)</h3>
      <div class="fleet-fields">
        {fields(true)}
        <ChoiceField
          label="KV back to P"
          help="Both ways: P pulls what D has of a conversation."
          value={settings.mode}
          choices={[
            ['bidirectional', 'both ways'],
            ['unidirectional', 'one way'],
          ]}
          onChange={(mode) => set({ mode: mode as FleetSettings['mode'] })}
        />
        {settings.store > 0 && (
          <ChoiceField
            label="Store eviction"
            help="What a full memory drops first."
            value={settings.storeEviction}
            choices={asNamed(EVICTIONS)}
            onChange={(name) => set({ storeEviction: name as FleetSettings['storeEviction'] })}
          />
        )}
        {!real && (
          <ChoiceField
            label="Cost model"
            help={costsInWords(settings, costsHere.value)}
            value={settings.costs}
            choices={asNamed(names)}
            onChange={(costs) => set({ costs })}
          />
        )}
      </div>
    </details>
  );
}
