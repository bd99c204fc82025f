/** Applies session events to the page's signals, for engines and recordings alike. */
import { batch, computed, type Signal, signal } from '@preact/signals';
import { emptyBlock } from '../../../src/recording/empty-block.ts';
import { isConversation } from './conversation/conversation.ts';
import { defaultSettings, type Settings } from './settings.ts';
import { countBytes, isOfStore, withTransfer } from './transfers.ts';
import { resumed, withTurn } from './turns.ts';
import type {
  BlockView,
  Crossover,
  EngineState,
  EngineStatsView,
  Machine,
  Note,
  Pointed,
  Race,
  ReplayView,
  Role,
  SessionEvent,
  SessionState,
  SlabView,
  Span,
  Stall,
  Status,
  StoreView,
  TimeView,
  TransferView,
  TurnView,
} from './types.ts';

const MOST_SPANS = 4096;
const MOST_NOTES = 50;

type Writable<T> = { [K in keyof T]: T[K] extends { readonly value: infer V } ? Signal<V> : T[K] };

export interface WritableEngine extends EngineState {
  alive: Signal<boolean>;
  message: Signal<string | null>;
  stats: Signal<EngineStatsView | null>;
  blocks: Signal<readonly BlockView[]>;
}

export interface WritableState extends Writable<Omit<SessionState, 'engines'>> {
  engines: Signal<ReadonlyMap<string, WritableEngine>>;
}

const newEngine = (engineId: string, role: Role): WritableEngine => ({
  engineId,
  role,
  alive: signal(false),
  message: signal<string | null>(null),
  stats: signal<EngineStatsView | null>(null),
  blocks: signal<readonly BlockView[]>([]),
});

/** Which end of a copy an engine of this role is. */
const atWork = (role: Role, { side }: TransferView): 'from' | 'to' => (side === role ? 'to' : 'from');

export function createState(
  nowMs: () => number,
  settings: Settings = defaultSettings,
  endOf: SessionState['endOf'] = () => null,
): WritableState {
  const engines = signal<ReadonlyMap<string, WritableEngine>>(new Map());
  const transfers = signal<readonly TransferView[]>([]);
  const looked = signal<Readonly<Record<Role, string | null>>>({ prefill: null, decode: null });
  const first = (role: Role) =>
    computed(() => {
      const all = [...engines.value.values()].filter((engine) => engine.role === role);
      const last = transfers.value.at(-1);
      const living = (id: string | null | undefined) =>
        all.find(({ engineId, alive }) => engineId === id && alive.value);
      return (
        living(looked.value[role]) ??
        living(last?.[atWork(role, last)]) ??
        all.find(({ alive }) => alive.value) ??
        all.at(-1) ??
        null
      );
    });
  return {
    status: signal<Status>({ phase: 'starting', message: 'Starting', progress: null }),
    settings: signal(settings),
    machine: signal<Machine | null>(null),
    engines,
    looked,
    pointed: signal<Pointed | null>(null),
    drawn: { prefill: first('prefill'), decode: first('decode') },
    transfers,
    store: signal<StoreView | null>(null),
    storeTransfers: signal<readonly TransferView[]>([]),
    slabs: signal<ReadonlyMap<string, SlabView>>(new Map()),
    beganMs: signal(Number.NEGATIVE_INFINITY),
    turns: signal<readonly TurnView[]>([]),
    spans: signal<readonly Span[]>([]),
    notes: signal<readonly Note[]>([]),
    race: signal<Race | null>(null),
    stall: signal<Stall | null>(null),
    crossover: signal<Crossover | null>(null),
    replay: signal<ReplayView | null>(null),
    time: signal<TimeView>({ atMs: 0, lengthMs: 0, follows: true, playing: false, speed: 1 }),
    playing: signal(false),
    suggestions: signal<readonly string[]>([]),
    nowMs,
    endOf,
  };
}

/** Clears everything except the settings, the replay and its status. */
export function clearState(state: WritableState): void {
  batch(() => {
    state.machine.value = null;
    clearEngines(state);
    clearMeasured(state);
    const { turns, spans, notes } = state;
    for (const list of [turns, spans, notes]) list.value = [];
    state.beganMs.value = Number.NEGATIVE_INFINITY;
  });
}

/** Keeps a copy of the state. Returns a function that restores it, except settings, clock and suggestions. */
export function keepState(state: WritableState): () => void {
  const { status, machine, engines, transfers, slabs, turns, spans, notes, race, stall, crossover } = state;
  const kept = [
    ...[status, machine, engines, transfers, slabs, turns, spans, notes],
    ...[race, stall, crossover, state.store, state.storeTransfers, state.beganMs],
  ].map((one) => keepSignal(one as Signal<unknown>));
  const inEngines = [...engines.peek().values()].flatMap(({ alive, message, stats, blocks }) =>
    [alive, message, stats, blocks].map((one) => keepSignal(one as Signal<unknown>)),
  );
  return () =>
    batch(() => {
      for (const restore of [...kept, ...inEngines]) restore();
    });
}

function keepSignal(from: Signal<unknown>): () => void {
  const value = from.peek();
  return () => {
    from.value = value;
  };
}

/** Removes the engines and the store, before new ones start. */
export function clearEngines(state: WritableState): void {
  batch(() => {
    state.engines.value = new Map();
    state.store.value = null;
    state.slabs.value = new Map();
  });
}

/** Removes measurements of engines that are being replaced, perhaps with another model. */
export function clearMeasured(state: WritableState): void {
  batch(() => {
    for (const list of [state.transfers, state.storeTransfers]) list.value = [];
    for (const made of [state.race, state.stall, state.crossover]) made.value = null;
  });
}

export function applyEvent(state: WritableState, event: SessionEvent): void {
  batch(() => apply(state, event));
}

function apply(state: WritableState, event: SessionEvent): void {
  switch (event.kind) {
    case 'status':
      // A replay keeps its own status.
      if (!state.replay.value) state.status.value = pick(event, ['phase', 'message', 'progress']);
      break;
    case 'settings':
      // Checked where they came from: a control, the address or a recording.
      state.settings.value = { ...state.settings.value, ...event.settings };
      break;
    case 'machine':
      state.machine.value = event.machine;
      for (const { engineId, role } of event.machine.engines) engineOf(state, engineId, role);
      break;
    case 'engine': {
      const engine = engineOf(state, event.engineId, event.role);
      engine.alive.value = event.alive;
      engine.message.value = event.message;
      // An engine that ended or has just started has no blocks.
      engine.blocks.value = [];
      break;
    }
    case 'stats': {
      const engine = state.engines.value.get(event.engineId);
      if (engine) engine.stats.value = event.stats;
      break;
    }
    case 'blocks': {
      const engine = state.engines.value.get(event.engineId);
      if (engine) engine.blocks.value = withBlocks(engine.blocks.value, event.numBlocks, event.changed);
      break;
    }
    case 'spans':
      state.spans.value = [...state.spans.value, ...event.spans].slice(-MOST_SPANS);
      countBytes(state, event.spans);
      break;
    case 'transfer_started':
    case 'transfer_ended': {
      const transfers = isOfStore(event) ? state.storeTransfers : state.transfers;
      const saidIn = (engineId: string, block: number) =>
        state.engines.value.get(engineId)?.blocks.value[block]?.text ?? null;
      transfers.value = withTransfer(transfers.value, event, saidIn);
      break;
    }
    case 'transfer_chunk':
      state.transfers.value = withTransfer(state.transfers.value, event);
      break;
    case 'store':
      state.store.value = event.figures && { ...(state.store.value ?? emptyStore), figures: event.figures };
      break;
    case 'store_blocks': {
      const { tier, numBlocks, changed } = event;
      const store = state.store.value;
      if (store) state.store.value = { ...store, [tier]: withBlocks(store[tier], numBlocks + 1, changed) };
      break;
    }
    case 'slab':
      state.slabs.value = new Map(state.slabs.value).set(
        event.engineId,
        pick(event, ['slotsInUse', 'slots', 'slotBytes']),
      );
      break;
    case 'note':
      state.notes.value = withNote(state.notes.value, event);
      break;
    case 'race':
      state.race.value = event.race;
      break;
    case 'stall':
      state.stall.value = event.stall;
      break;
    case 'crossover':
      state.crossover.value = event.crossover;
      break;
    case 'history_edited': {
      const { conversation, from, to } = event;
      state.turns.value = state.turns.value.map((turn) =>
        turn.conversation === conversation ? { ...turn, edits: [...turn.edits, { from, to }] } : turn,
      );
      break;
    }
    case 'conversation_resumed':
      state.turns.value = event.turns.map((turn) => resumed(event.conversation, turn, event.atMs));
      break;
    case 'conversation_ended':
      if (isConversation(event)) {
        state.beganMs.value = event.atMs;
        // A failed race may have no start time to compare with.
        if (state.race.value?.error) state.race.value = null;
      }
      state.turns.value = state.turns.value.filter((turn) => turn.conversation !== event.conversation);
      break;
    default:
      state.turns.value = withTurn(state.turns.value, event);
  }
}

function pick<T extends object, K extends keyof T>(from: T, keys: readonly K[]): Pick<T, K> {
  return Object.fromEntries(keys.map((key) => [key, from[key]])) as Pick<T, K>;
}

const emptyStore = { memory: [], folder: [] };

/** The engine with this id; created if it is new. */
function engineOf({ engines }: WritableState, engineId: string, role: Role): WritableEngine {
  const known = engines.value.get(engineId);
  if (known) return known;
  const engine = newEngine(engineId, role);
  engines.value = new Map(engines.value).set(engineId, engine);
  return engine;
}

function withBlocks(
  before: readonly BlockView[],
  numBlocks: number,
  changed: readonly BlockView[],
): readonly BlockView[] {
  const blocks = Array.from({ length: numBlocks }, (_, id) => before[id] ?? emptyBlock(id));
  for (const block of changed) if (block.id < numBlocks) blocks[block.id] = block;
  return blocks;
}

/** A repeated message moves to the end, as a new note. */
function withNote(before: readonly Note[], event: Extract<SessionEvent, { kind: 'note' }>): readonly Note[] {
  const { atMs, level, message } = event;
  const others = before.filter((note) => note.level !== level || note.message !== message);
  return [...others, { id: (before.at(-1)?.id ?? 0) + 1, atMs, level, message }].slice(-MOST_NOTES);
}
