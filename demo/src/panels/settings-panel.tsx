/** All settings, the model chooser, and the history editor. */
import { ROUTING_NAMES } from '../../../src/config/routing.ts';
import { EVICTIONS } from '../../../src/config/store.ts';
import { MOST_BLOCKS } from '../session/settings.ts';
import type { Session, Settings } from '../session/types.ts';
import { boundFields } from './bound-fields.tsx';
import { asNamed, ChoiceField, SwitchField } from './fields.tsx';
import { ModelField } from './model-field.tsx';

const LINKS = [
  ['off', 'off: as fast as this computer copies'],
  ['10gbe', '10 Gbit/s Ethernet'],
  ['1gbe', '1 Gbit/s Ethernet'],
  ['10e6,1ms', '10 MB/s, 1 ms'],
  ['1e6,5ms', '1 MB/s, 5 ms'],
  ['200e3,20ms', '200 kB/s, 20 ms'],
  ['40e3,5ms', '40 kB/s, 5 ms'],
] as const;

const STORES = [
  ['off', 'off'],
  [String(2 ** 19), '512 KiB'],
  [String(2 ** 20), '1 MiB'],
  [String(2 ** 22), '4 MiB'],
  [String(2 ** 26), '64 MiB'],
] as const;

export function SettingsPanel({ session }: { session: Session }) {
  const { state, actions } = session;
  const settings = state.settings.value;
  const recorded = state.status.value.phase === 'recorded';
  const set = (change: Partial<Settings>) => void actions.configure(change);
  const { number, choice, onOff } = boundFields(settings, set);
  return (
    <>
      <p class="settings-note">
        All of these settings are in the address, so a link opens another browser in the same state.
        {recorded && ' These are the settings that the recording was made with.'}
      </p>
      <fieldset class="settings-grid" disabled={recorded}>
        <legend class="visually-hidden">Settings</legend>
        <ModelField session={session} />
        {number('threshold', 'P pulls only if D has at least this many tokens more than P. 0: always pull.', {
          min: 0,
        })}
        {choice(
          'pullPolicy',
          'What decides a pull',
          'Predicted costs are based on measurements on this computer: a short one first, then every turn.',
          [
            ['threshold', 'the threshold, as in vLLM'],
            ['cost-aware', 'predicted costs'],
          ],
        )}
        <ChoiceField
          label="Link between P and D"
          help="A modelled link only adds delay. Bytes are still copied, and modelled times are labelled."
          value={settings.link ?? 'off'}
          choices={LINKS}
          onChange={(link) => set({ link: link === 'off' ? null : link })}
        />
        {choice(
          'handover',
          'Handover from P to D',
          'Streamed (kvferry only, not in vLLM): D gets the request at once and reads blocks while P still computes.',
          [
            ['pull', 'when P is done, as in vLLM'],
            ['streamed', 'streamed (kvferry only)'],
          ],
        )}
        {onOff(
          'prefixCaching',
          'Prefix caching on P',
          'P keeps the blocks of earlier turns and reuses them.',
        )}
        {onOff(
          'tokenCheck',
          'Token check',
          'A pull stops at the first token that differs from the prompt. If off, as in vLLM, an edited history gets wrong KV.',
        )}
        {onOff(
          'allFullKv',
          'Keep all KV of windows',
          'For comparison: layers with a sliding window keep all KV too. If off, they keep only what the window sees.',
        )}
        <StoreFields settings={settings} set={set} empty={() => void actions.emptyFolder()} />
        {number(
          'prefill',
          "Each is a thread with its own WebGPU device; all share this computer's GPU. Engines can join and leave while turns run.",
          { min: 1, max: 3 },
        )}
        {number(
          'decode',
          "Any P can hand over to any D and pull from it. The buttons next to an engine's name choose which one is drawn.",
          { min: 1, max: 3 },
        )}
        {choice(
          'routing',
          'Routing policy',
          'Chooses the P and the D for each turn, if there are several.',
          asNamed(ROUTING_NAMES),
        )}
        {number('pBlocks', 'Includes the null block.', { min: 2, max: MOST_BLOCKS })}
        {number('dBlocks', 'Includes the null block.', { min: 2, max: MOST_BLOCKS })}
        {choice(
          'blockSize',
          'Block size, tokens',
          'A change restarts the engines.',
          asNamed(['8', '16', '32', '64', '128']),
        )}
        {number('ttl', "How long D keeps a finished turn's blocks for P. vLLM's default: 480.", { min: 1 })}
        {choice(
          'conversations',
          'Conversations at once',
          "P and D share this computer's GPU. With one conversation they take turns on it; with two they compete.",
          [
            ['1', 'one: P and D take turns'],
            ['2', 'two: P and D compete'],
          ],
        )}
        {number('temperature', '0 always chooses the most likely token.', {
          min: 0,
          step: 0.1,
        })}
        {number('seed', 'For sampling, and for the weights of the random presets.', { min: 0 })}
        {number('maxTokens', 'An end token ends an answer earlier.', { min: 1 })}
      </fieldset>
      {!recorded && <EditHistory session={session} />}
    </>
  );
}

interface StoreFieldsProps {
  settings: Settings;
  set: (change: Partial<Settings>) => void;
  empty: () => void;
}

/** The store next to the engines: its tiers, what it saves, and which path KV takes. */
function StoreFields({ settings, set, empty }: StoreFieldsProps) {
  const { store, storeDir, offloadPromptOnly } = settings;
  const { choice } = boundFields(settings, set);
  return (
    <>
      <ChoiceField
        label="Store next to the engines"
        help="A thread that keeps KV blocks by the hash of their tokens. A change restarts the engines."
        value={store === null ? 'off' : String(store)}
        choices={STORES}
        onChange={(size) => set({ store: size === 'off' ? null : Number(size) })}
      />
      <SwitchField
        label="Keep KV over a reload"
        help="Keeps KV in a folder below the store, in this browser's private files, and the conversation in this tab."
        value={storeDir !== null}
        onChange={(kept) => set({ storeDir: kept ? 'kv' : null })}
      />
      {storeDir !== null && (
        <button type="button" class="quiet" onClick={empty}>
          Delete the kept KV
        </button>
      )}
      <SwitchField
        label="Save what is generated too"
        help="If off, as in vLLM, the store saves only prompts."
        value={!offloadPromptOnly}
        onChange={(all) => set({ offloadPromptOnly: !all })}
      />
      {choice(
        'storeEviction',
        'Store eviction policy',
        'What a full store drops first. A change restarts the engines.',
        asNamed(EVICTIONS),
      )}
      {choice('path', 'Path of KV', 'With a store. The same paths as in kvferry bench --paths.', [
        ['both', 'both: each block from where it is'],
        ['first-hit', "first-hit: vLLM's rule, store first"],
        ['store', 'store: everything, even P to D'],
      ])}
    </>
  );
}

/** Changes the history. With the token check off, the next turn may be answered from KV of the old words. */
function EditHistory({ session: { state, actions } }: { session: Session }) {
  const { phase } = state.status.value;
  return (
    <form
      class="edit-history"
      onSubmit={(event) => {
        event.preventDefault();
        const data = new FormData(event.currentTarget);
        const [from, to] = [String(data.get('from')).trim(), String(data.get('to')).trim()];
        if (from !== '' && to !== '') actions.editHistory(from, to);
      }}
    >
      <label>
        In the history, change <input name="from" placeholder="bear" required />
      </label>
      <label>
        to <input name="to" placeholder="fox" required />
      </label>
      <button type="submit" disabled={phase !== 'ready' || state.turns.value.length === 0}>
        Edit history
      </button>
    </form>
  );
}
