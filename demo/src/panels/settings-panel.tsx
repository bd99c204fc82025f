/** All settings, the model chooser, and the history editor. */
import { ROUTING_NAMES } from '../../../src/config/routing.ts';
import { EVICTIONS } from '../../../src/config/store.ts';
import { MOST_BLOCKS } from '../session/settings.ts';
import type { Session, Settings } from '../session/types.ts';
import { ChoiceField, NumberField, SwitchField } from './fields.tsx';
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
  return (
    <>
      <p class="settings-note">
        All of these settings are in the address, so a link opens another browser in the same state.
        {recorded && ' These are the settings that the recording was made with.'}
      </p>
      <fieldset class="settings-grid" disabled={recorded}>
        <legend class="visually-hidden">Settings</legend>
        <ModelField session={session} />
        <NumberField
          label="Recompute threshold, tokens"
          help="P pulls only if D has at least this many tokens more than P. 0: always pull."
          min={0}
          value={settings.threshold}
          onChange={(threshold) => set({ threshold })}
        />
        <ChoiceField
          label="What decides a pull"
          help="Predicted costs are based on measurements on this computer: a short one first, then every turn."
          value={settings.pullPolicy}
          choices={[
            ['threshold', 'the threshold, as in vLLM'],
            ['cost-aware', 'predicted costs'],
          ]}
          onChange={(pullPolicy) => set({ pullPolicy: pullPolicy as Settings['pullPolicy'] })}
        />
        <ChoiceField
          label="Link between P and D"
          help="A modelled link only adds delay. Bytes are still copied, and modelled times are labelled."
          value={settings.link ?? 'off'}
          choices={LINKS}
          onChange={(link) => set({ link: link === 'off' ? null : link })}
        />
        <ChoiceField
          label="Handover from P to D"
          help="Streamed (kvferry only, not in vLLM): D gets the request at once and reads blocks while P still computes."
          value={settings.handover}
          choices={[
            ['pull', 'when P is done, as in vLLM'],
            ['streamed', 'streamed (kvferry only)'],
          ]}
          onChange={(handover) => set({ handover: handover as Settings['handover'] })}
        />
        <SwitchField
          label="Prefix caching on P"
          help="P keeps the blocks of earlier turns and reuses them."
          value={settings.prefixCaching}
          onChange={(prefixCaching) => set({ prefixCaching })}
        />
        <SwitchField
          label="Token check"
          help="A pull stops at the first token that differs from the prompt. If off, as in vLLM, an edited history gets wrong KV."
          value={settings.tokenCheck}
          onChange={(tokenCheck) => set({ tokenCheck })}
        />
        <SwitchField
          label="Keep all KV of windows"
          help="For comparison: layers with a sliding window keep all KV too. If off, they keep only what the window sees."
          value={settings.allFullKv}
          onChange={(allFullKv) => set({ allFullKv })}
        />
        <StoreFields settings={settings} set={set} empty={() => void actions.emptyFolder()} />
        <NumberField
          label="Prefill engines"
          help="Each is a thread with its own WebGPU device; all share this computer's GPU. Engines can join and leave while turns run."
          min={1}
          max={3}
          value={settings.prefill}
          onChange={(prefill) => set({ prefill })}
        />
        <NumberField
          label="Decode engines"
          help="Any P can hand over to any D and pull from it. The buttons next to an engine's name choose which one is drawn."
          min={1}
          max={3}
          value={settings.decode}
          onChange={(decode) => set({ decode })}
        />
        <ChoiceField
          label="Routing policy"
          help="Chooses the P and the D for each turn, if there are several."
          value={settings.routing}
          choices={ROUTING_NAMES.map((name) => [name, name] as const)}
          onChange={(routing) => set({ routing: routing as Settings['routing'] })}
        />
        <NumberField
          label="P's pool, blocks"
          help="Includes the null block."
          min={2}
          max={MOST_BLOCKS}
          value={settings.pBlocks}
          onChange={(pBlocks) => set({ pBlocks })}
        />
        <NumberField
          label="D's pool, blocks"
          help="Includes the null block."
          min={2}
          max={MOST_BLOCKS}
          value={settings.dBlocks}
          onChange={(dBlocks) => set({ dBlocks })}
        />
        <ChoiceField
          label="Block size, tokens"
          help="A change restarts the engines."
          value={String(settings.blockSize)}
          choices={['8', '16', '32', '64', '128'].map((size) => [size, size] as const)}
          onChange={(size) => set({ blockSize: Number(size) })}
        />
        <NumberField
          label="D's hold, seconds"
          help="How long D keeps a finished turn's blocks for P. vLLM's default: 480."
          min={1}
          value={settings.ttl}
          onChange={(ttl) => set({ ttl })}
        />
        <ChoiceField
          label="Conversations at once"
          help="P and D share this computer's GPU. With one conversation they take turns on it; with two they compete."
          value={String(settings.conversations)}
          choices={[
            ['1', 'one: P and D take turns'],
            ['2', 'two: P and D compete'],
          ]}
          onChange={(count) => set({ conversations: Number(count) })}
        />
        <NumberField
          label="Temperature"
          help="0 always chooses the most likely token."
          min={0}
          step={0.1}
          value={settings.temperature}
          onChange={(temperature) => set({ temperature })}
        />
        <NumberField
          label="Seed"
          help="For sampling, and for the weights of the random presets."
          min={0}
          value={settings.seed}
          onChange={(seed) => set({ seed })}
        />
        <NumberField
          label="Longest answer, tokens"
          help="An end token ends an answer earlier."
          min={1}
          value={settings.maxTokens}
          onChange={(maxTokens) => set({ maxTokens })}
        />
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
  const { store, storeDir, storeEviction, offloadPromptOnly, path } = settings;
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
      <ChoiceField
        label="Store eviction policy"
        help="What a full store drops first. A change restarts the engines."
        value={storeEviction}
        choices={EVICTIONS.map((name) => [name, name] as const)}
        onChange={(name) => set({ storeEviction: name as Settings['storeEviction'] })}
      />
      <ChoiceField
        label="Path of KV"
        help="With a store. The same paths as in kvferry bench --paths."
        value={path}
        choices={[
          ['both', 'both: each block from where it is'],
          ['first-hit', "first-hit: vLLM's rule, store first"],
          ['store', 'store: everything, even P to D'],
        ]}
        onChange={(way) => set({ path: way as Settings['path'] })}
      />
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
