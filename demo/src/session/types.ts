/**
 * The interface between the session (engines or a recording) and the views. Views read SessionState's signals and call
 * SessionActions; they change no state themselves. Live and replayed sessions look the same. All times are milliseconds
 * since the session began (`nowMs`).
 */
import type { ReadonlySignal } from '@preact/signals';
import type { Span, TurnSide } from '../../../src/measure/spans/spans.ts';
import type {
  BlockView,
  EngineStatsView,
  Machine,
  Mode,
  RecordedTurn,
  Role,
  StoreFigures,
} from '../../../src/recording/events.ts';
import type { Crossover, Race, Stall } from '../../../src/recording/experiments.ts';
import type { Settings } from './settings.ts';

export type { Span, TurnSide } from '../../../src/measure/spans/spans.ts';
export type {
  BlockView,
  EngineStatsView,
  Machine,
  Mode,
  RecordedTurn as TurnReport,
  Role,
  SessionEvent,
  StoreFigures,
} from '../../../src/recording/events.ts';
export type {
  Crossover,
  Race,
  RaceLane,
  Stall,
  StallRun,
  StallSide,
} from '../../../src/recording/experiments.ts';
export type { Settings } from './settings.ts';

/**
 * starting: engines are starting. ready: a turn can be asked. busy: a turn or a measurement runs.
 * recorded: a recording is replayed, without engines. failed: nothing runs; the message says why and what to do.
 */
export interface Status {
  phase: 'starting' | 'ready' | 'busy' | 'recorded' | 'failed';
  message: string;
  /** 0 to 1; null: unknown. */
  progress: number | null;
}

export interface EngineState {
  engineId: string;
  role: Role;
  /** false after a kill or a lost device, until the engine is restarted. */
  alive: ReadonlySignal<boolean>;
  /** Why it is not alive; null while it is. */
  message: ReadonlySignal<string | null>;
  stats: ReadonlySignal<EngineStatsView | null>;
  /** By block id; the null block is first. Every change creates a new array; unchanged blocks stay the same objects. */
  blocks: ReadonlySignal<readonly BlockView[]>;
}

/** Pairs of block ids: at the holder, at the reader. */
export type BlockPairs = readonly (readonly [number, number])[];

/** A running transfer, or one that ended recently. */
export interface TransferView {
  /** The reader's request. It may have several transfers, of which at most one runs. */
  requestId: string;
  /** Engine ids: holder and reader. */
  from: string;
  to: string;
  /** Side of the reader's request. prefill: P pulls back; decode: the handover. */
  side: TurnSide;
  /** In the order of the tokens. */
  pairs: BlockPairs;
  /** Text of the holder's blocks when the transfer began, one for each pair. Omitted if the pairs came later. */
  said?: readonly (string | null)[];
  /** For a streamed handover: the pairs of each chunk so far. null: all pairs were known at the start. */
  chunks: readonly BlockPairs[] | null;
  bytes: number;
  /** Part of `bytes` copied out of the slab so far (from the spans of its chunks). */
  bytesDone: number;
  startMs: number;
  /** null while it runs. */
  endMs: number | null;
  outcome: string | null;
  message: string;
  /** Milliseconds by stage, summed over chunks; empty while it runs. */
  stagesMs: Readonly<Record<string, number>>;
  throttled: boolean;
  /** For a streamed transfer that ended: the time in which bytes moved; else null. */
  movingMs: number | null;
}

/** The store next to the engines. */
export interface StoreView {
  figures: StoreFigures;
  /** By cell; the first element is unused. States: cached (stored), held (being read), arriving (being written). */
  memory: readonly BlockView[];
  /** The folder tier; empty if there is none. */
  folder: readonly BlockView[];
}

export interface SlabView {
  slotsInUse: number;
  slots: number;
  slotBytes: number;
}

export interface TurnView {
  turnId: string;
  conversation: string;
  /** From 1. */
  turn: number;
  mode: Mode;
  question: string;
  /** The history was changed by the user before this turn. */
  edited: boolean;
  /** Index of the first prompt token that differs from the conversation that the engines have KV of; null if none does. */
  differsAt: number | null;
  /** The user's later edits of this turn's text. */
  edits: readonly { from: string; to: string }[];
  /** The answer as streamed so far. */
  answer: string;
  tokens: number;
  startMs: number;
  firstTokenMs: number | null;
  endMs: number | null;
  /** The turn's report; null until it has ended. */
  result: RecordedTurn | null;
  /** One sentence if the turn failed; else null. */
  error: string | null;
}

export interface Note {
  id: number;
  atMs: number;
  level: 'info' | 'warning';
  message: string;
}

export interface ReplayView {
  title: string;
  /** Why the recording is shown instead of engines; null: the engines can run. */
  why: string | null;
}

/** The clock of everything shown. */
export interface TimeView {
  /** Milliseconds from the start of the last turn or of the recording. */
  atMs: number;
  lengthMs: number;
  /** Live: events are shown as they happen. */
  follows: boolean;
  /** The clock runs, but not live. */
  playing: boolean;
  /** Speed relative to wall time; 1 is as it happened. */
  speed: number;
}

/** A part of a turn's text. */
export type Part = 'question' | 'answer';

/** What is pointed at: a block, or a word by the offset of its first character. */
export type Pointed =
  | { at: 'block'; role: Role; id: number }
  | { at: 'word'; turnId: string; part: Part; start: number };

export interface SessionState {
  status: ReadonlySignal<Status>;
  settings: ReadonlySignal<Settings>;
  /** null until the engines have started. */
  machine: ReadonlySignal<Machine | null>;
  /** By id. */
  engines: ReadonlySignal<ReadonlyMap<string, EngineState>>;
  /** The engine of each role that the user chose to see; null: no choice. */
  looked: ReadonlySignal<Readonly<Record<Role, string | null>>>;
  /** null: nothing is pointed at. */
  pointed: ReadonlySignal<Pointed | null>;
  /** The drawn P and D: the chosen one, else that of the last copy, else the first live one, else the last one. */
  drawn: Readonly<Record<Role, ReadonlySignal<EngineState | null>>>;
  /** Transfers between engines, oldest first; the last 64, including running ones. */
  transfers: ReadonlySignal<readonly TransferView[]>;
  /** null: no store. */
  store: ReadonlySignal<StoreView | null>;
  /** Loads from and saves to the store, whose engine id is that of STORE_ADDRESS. */
  storeTransfers: ReadonlySignal<readonly TransferView[]>;
  /** By the holder's engine id. */
  slabs: ReadonlySignal<ReadonlyMap<string, SlabView>>;
  /** When the user's last conversation ended; measurements before that do not belong to this one. -Infinity: none ended. */
  beganMs: ReadonlySignal<number>;
  /** Since the last reset, oldest first; the last one may be running. */
  turns: ReadonlySignal<readonly TurnView[]>;
  /** The last 4096 spans, in order of arrival. */
  spans: ReadonlySignal<readonly Span[]>;
  /** The last 50 notes, oldest first. */
  notes: ReadonlySignal<readonly Note[]>;
  race: ReadonlySignal<Race | null>;
  stall: ReadonlySignal<Stall | null>;
  crossover: ReadonlySignal<Crossover | null>;
  /** null unless a recording is replayed. */
  replay: ReadonlySignal<ReplayView | null>;
  time: ReadonlySignal<TimeView>;
  /** The shipped conversation is being played automatically. */
  playing: ReadonlySignal<boolean>;
  /** Suggested questions, best first. */
  suggestions: ReadonlySignal<readonly string[]>;
  /** The shown time, for animation. It is not a signal: call it in each frame. */
  nowMs(): number;
  /** When a copy ends that is shown later than it ran; null: not known yet. */
  endOf(transfer: Pick<TransferView, 'requestId' | 'startMs'>): number | null;
}

/** The actions of controls and lessons. They do not throw: errors become notes or the status. */
export interface SessionActions {
  /** Asks a question in the current conversation; resolves when the turn has ended. */
  ask(question: string): Promise<void>;
  /** Stops the running turn or measurement. */
  stop(): void;
  /** Continues the shipped conversation. */
  play(): void;
  pause(): void;
  /** Asks only the shipped conversation's next question. */
  step(): Promise<void>;
  /** Ends the conversation, empties both caches and begins a new conversation. */
  reset(): Promise<void>;
  /**
   * Changes settings and the URL. Engines are restarted only if needed. If a change empties them, the conversation's KV is
   * computed again so that it can continue.
   */
  configure(change: Partial<Settings>): Promise<void>;
  /** Begins a new conversation with these settings on empty engines; stops playing. */
  begin(change: Partial<Settings>): Promise<void>;
  /** Ends a recording and restarts the engines. */
  endReplay(): Promise<void>;
  /** Deletes all blocks that the store keeps in this browser's files; the conversation continues. */
  emptyFolder(): Promise<void>;
  /** Edits the history for the next turn: replaces `from` with `to`. */
  editHistory(from: string, to: string): void;
  /** Empties P's prefix cache. */
  evictPrefill(): Promise<void>;
  /** Expires D's holds for P now. */
  expireHold(): Promise<void>;
  /** Stops the drawn engine of a role without notifying the others, which notice it like a crash. */
  kill(role: Role): Promise<void>;
  /** Chooses the drawn engine of a role. */
  look(role: Role, engineId: string): void;
  /** Points at a block or a word, with any input device; null: at nothing. */
  point(at: Pointed | null): void;
  /** Restarts engines that have ended. */
  revive(): Promise<void>;
  /** Races the conversation's next turn: recomputed and pulled, three times each. */
  runRace(): Promise<void>;
  /** One user gets an answer while another pastes a long text: on one engine, and on P and D. */
  runStall(): Promise<void>;
  runCrossover(): Promise<void>;
  /** Measures the engines' steps and copies for simulated fleets; the result is in costs.ts. */
  measureCosts(): Promise<void>;
  /** Loads a dropped Hugging Face directory, or one from a URL. */
  loadModel(source: { files: readonly File[]; name: string } | { url: string }): Promise<void>;
  saveRecording(): Promise<void>;
  loadRecording(file: File): Promise<void>;
  /** Starts or stops the shown clock. */
  playTime(): void;
  pauseTime(): void;
  /** Goes to a time of the last turn or of the recording, and stops the clock. */
  seek(atMs: number): void;
  /** Goes to the next stage and stops the clock. */
  stepTime(): void;
  /** Returns to live. */
  toNow(): void;
}

export interface Session {
  state: SessionState;
  actions: SessionActions;
}
