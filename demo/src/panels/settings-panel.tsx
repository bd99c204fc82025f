/** All settings, other models, and the history's editor. */
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
        Everything here is in the address: a link brings another browser to the same state.
        {recorded && ' A recording shows the settings that it was made with.'}
      </p>
      <fieldset class="settings-grid" disabled={recorded}>
        <legend class="visually-hidden">Settings</legend>
        <ModelField session={session} />
        <NumberField
          label="Recompute threshold, tokens"
          help="P pulls only when D can give at least so many tokens beyond what P has. 0 always pulls."
          min={0}
          value={settings.threshold}
          onChange={(threshold) => set({ threshold })}
        />
        <ChoiceField
          label="What decides a pull"
          help="Cost-aware predicts both ways from what was measured here, and learns on; it measures a little first."
          value={settings.pullPolicy}
          choices={[
            ['threshold', "the threshold, as vLLM's"],
            ['cost-aware', 'predicted costs'],
          ]}
          onChange={(pullPolicy) => set({ pullPolicy: pullPolicy as Settings['pullPolicy'] })}
        />
        <ChoiceField
          label="Link between P and D"
          help="A modelled link only delays: bytes are copied as always, and its times are marked."
          value={settings.link ?? 'off'}
          choices={LINKS}
          onChange={(link) => set({ link: link === 'off' ? null : link })}
        />
        <ChoiceField
          label="Hand-over from P to D"
          help="Streamed is kvferry's own, not vLLM's: D is asked at once, and reads blocks while P still computes."
          value={settings.handover}
          choices={[
            ['pull', "when P is done, as vLLM's"],
            ['streamed', "streamed, kvferry's own"],
          ]}
          onChange={(handover) => set({ handover: handover as Settings['handover'] })}
        />
        <SwitchField
          label="Prefix caching on P"
          help="P keeps the blocks of earlier turns and finds them again."
          value={settings.prefixCaching}
          onChange={(prefixCaching) => set({ prefixCaching })}
        />
        <SwitchField
          label="Token check"
          help="A pull ends at the first token that differs from the prompt. Off, as in vLLM, an edited history gets wrong KV."
          value={settings.tokenCheck}
          onChange={(tokenCheck) => set({ tokenCheck })}
        />
        <SwitchField
          label="Keep all KV of windows"
          help="Of layers with a sliding window too, to compare. Off: what the window sees alone."
          value={settings.allFullKv}
          onChange={(allFullKv) => set({ allFullKv })}
        />
        <StoreFields settings={settings} set={set} empty={() => void actions.emptyFolder()} />
        <NumberField
          label="Prefill engines"
          help="Each a thread with a WebGPU device of its own; they share this computer's GPU. They join and leave while turns go on."
          min={1}
          max={3}
          value={settings.prefill}
          onChange={(prefill) => set({ prefill })}
        />
        <NumberField
          label="Decode engines"
          help="Any P may hand over to any D, and pull from it. Choose beside an engine's name which one is drawn."
          min={1}
          max={3}
          value={settings.decode}
          onChange={(decode) => set({ decode })}
        />
        <ChoiceField
          label="Routing, among several"
          help="Which P and which D get the next turn."
          value={settings.routing}
          choices={ROUTING_NAMES.map((name) => [name, name] as const)}
          onChange={(routing) => set({ routing: routing as Settings['routing'] })}
        />
        <NumberField
          label="P's pool, blocks"
          help="One of them is the null block."
          min={2}
          max={MOST_BLOCKS}
          value={settings.pBlocks}
          onChange={(pBlocks) => set({ pBlocks })}
        />
        <NumberField
          label="D's pool, blocks"
          help="One of them is the null block."
          min={2}
          max={MOST_BLOCKS}
          value={settings.dBlocks}
          onChange={(dBlocks) => set({ dBlocks })}
        />
        <ChoiceField
          label="Block size, tokens"
          help="Needs new engines."
          value={String(settings.blockSize)}
          choices={['8', '16', '32', '64', '128'].map((size) => [size, size] as const)}
          onChange={(size) => set({ blockSize: Number(size) })}
        />
        <NumberField
          label="D's hold, seconds"
          help="How long D keeps a finished turn's blocks for P. vLLM: 480."
          min={1}
          value={settings.ttl}
          onChange={(ttl) => set({ ttl })}
        />
        <ChoiceField
          label="Conversations at once"
          help="P and D share this computer's one GPU. With one conversation they take turns; with two they compete for it."
          value={String(settings.conversations)}
          choices={[
            ['1', 'one: phases one after the other'],
            ['2', 'two: P and D compete'],
          ]}
          onChange={(count) => set({ conversations: Number(count) })}
        />
        <NumberField
          label="Temperature"
          help="0 always takes the likeliest token."
          min={0}
          step={0.1}
          value={settings.temperature}
          onChange={(temperature) => set({ temperature })}
        />
        <NumberField
          label="Seed"
          help="Of the draws, and of the weights of presets that are not trained."
          min={0}
          value={settings.seed}
          onChange={(seed) => set({ seed })}
        />
        <NumberField
          label="Longest answer, tokens"
          help="An end token ends it sooner."
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

/** A store beside the engines: its tiers, what goes there, and the ways that KV takes. */
function StoreFields({ settings, set, empty }: StoreFieldsProps) {
  const { store, storeDir, storeEviction, offloadPromptOnly, path } = settings;
  return (
    <>
      <ChoiceField
        label="Store beside the engines"
        help="A thread that keeps KV blocks by what they say. Needs new engines."
        value={store === null ? 'off' : String(store)}
        choices={STORES}
        onChange={(size) => set({ store: size === 'off' ? null : Number(size) })}
      />
      <SwitchField
        label="Keep KV over a reload"
        help="A folder below the store, in this browser's own files, and the conversation in this tab."
        value={storeDir !== null}
        onChange={(kept) => set({ storeDir: kept ? 'kv' : null })}
      />
      {storeDir !== null && (
        <button type="button" class="quiet" onClick={empty}>
          Remove the KV that is kept
        </button>
      )}
      <SwitchField
        label="Save what is generated too"
        help="Off, as in vLLM, the store gets prompts alone."
        value={!offloadPromptOnly}
        onChange={(all) => set({ offloadPromptOnly: !all })}
      />
      <ChoiceField
        label="What leaves a full store"
        help="Needs new engines."
        value={storeEviction}
        choices={EVICTIONS.map((name) => [name, name] as const)}
        onChange={(name) => set({ storeEviction: name as Settings['storeEviction'] })}
      />
      <ChoiceField
        label="Ways through the store"
        help="As in kvferry bench --paths."
        value={path}
        choices={[
          ['both', 'both: each block from where it lies'],
          ['first-hit', "first-hit: vLLM's rule, the store first"],
          ['store', 'store: all through it, P to D too'],
        ]}
        onChange={(way) => set({ path: way as Settings['path'] })}
      />
    </>
  );
}

/** Changes what was said: with the token check off the next turn may be answered from KV of the old words. */
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
