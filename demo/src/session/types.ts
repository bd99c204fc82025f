/**
 * The contract between the session (engines or a recording, and everything that happens) and the views (which draw).
 * Views read SessionState's signals and call SessionActions; they change nothing themselves. A live session and a
 * replayed one look the same from here. All times are milliseconds since the session began (`nowMs`).
 */
import type { ReadonlySignal } from '@preact/signals';
import type { Span, TurnSide } from '../../../src/measure/spans.ts';
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

export type { Span, TurnSide } from '../../../src/measure/spans.ts';
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
 * starting: engines are being built. ready: the next turn can be asked. busy: a turn, a race or a sweep runs.
 * recorded: no engines, a recording is replayed. failed: nothing runs; the message says why and what to do.
 */
export interface Status {
  phase: 'starting' | 'ready' | 'busy' | 'recorded' | 'failed';
  message: string;
  /** 0 to 1; null when not known. */
  progress: number | null;
}

export interface EngineState {
  engineId: string;
  role: Role;
  /** false after a kill or a lost device, until it was rebuilt. */
  alive: ReadonlySignal<boolean>;
  /** Why it is not alive; null while it is. */
  message: ReadonlySignal<string | null>;
  stats: ReadonlySignal<EngineStatsView | null>;
  /** By block id, the null block first. A new array with every change; unchanged blocks stay the same objects. */
  blocks: ReadonlySignal<readonly BlockView[]>;
}

/** Block ids at the holder and at the reader. */
export type BlockPairs = readonly (readonly [number, number])[];

/** A transfer under way, or one of the last that ended. */
export interface TransferView {
  /** The reader's request: the one under way of this request is meant. */
  requestId: string;
  /** Engine ids: holder and reader. */
  from: string;
  to: string;
  /** Of the reader's request: prefill pulls back, decode takes over. */
  side: TurnSide;
  /** In the order of the sequence. */
  pairs: BlockPairs;
  /** What the holder's blocks said when it began, in the order of the pairs; left out where they came later. */
  said?: readonly (string | null)[];
  /** Of a streamed hand-over: the pairs by chunk, as far as they came. null: all were known at the start. */
  chunks: readonly BlockPairs[] | null;
  bytes: number;
  /** Of bytes, copied out of the slab so far (from the spans of its chunks). */
  bytesDone: number;
  startMs: number;
  /** null while it runs. */
  endMs: number | null;
  outcome: string | null;
  message: string;
  /** Milliseconds by stage, summed over chunks; empty while it runs. */
  stagesMs: Readonly<Record<string, number>>;
  throttled: boolean;
  /** Of a streamed one that ended: the time in which its bytes moved; null otherwise. */
  movingMs: number | null;
}

/** The store beside the engines. */
export interface StoreView {
  figures: StoreFigures;
  /** By cell, the first unused. cached: there; held: being read; arriving: being written. */
  memory: readonly BlockView[];
  /** The tier below; empty where there is none. */
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
  /** From 1 on. */
  turn: number;
  mode: Mode;
  question: string;
  /** The history was changed by the user before this turn. */
  edited: boolean;
  /** First token of the prompt that is not the one that the engines had KV of; null when all are. */
  differsAt: number | null;
  /** What the user changed afterwards in what was said here. */
  edits: readonly { from: string; to: string }[];
  /** As far as streamed. */
  answer: string;
  tokens: number;
  startMs: number;
  firstTokenMs: number | null;
  endMs: number | null;
  /** Account, TTFT, stages, bytes: once it ended. */
  result: RecordedTurn | null;
  /** One sentence, when it did not end well. */
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
  /** Why it is shown in place of engines; null: they can run, and take its place. */
  why: string | null;
}

/** The clock of all that is shown. */
export interface TimeView {
  /** Of the last turn, or of a recording, from its start. */
  atMs: number;
  lengthMs: number;
  /** Shows what happens as it happens. */
  follows: boolean;
  /** Runs, behind what happens. */
  playing: boolean;
  /** Of the wall's clock; 1 is as it happened. */
  speed: number;
}

/** Of what was said in a turn. */
export type Part = 'question' | 'answer';

/** What somebody points at: a block, or a word by its first character in what was said. */
export type Pointed =
  | { at: 'block'; role: Role; id: number }
  | { at: 'word'; turnId: string; part: Part; start: number };

export interface SessionState {
  status: ReadonlySignal<Status>;
  settings: ReadonlySignal<Settings>;
  /** null until the engines were built. */
  machine: ReadonlySignal<Machine | null>;
  /** By id. */
  engines: ReadonlySignal<ReadonlyMap<string, EngineState>>;
  /** Which engine of a role somebody wants to see; null: whichever. */
  looked: ReadonlySignal<Readonly<Record<Role, string | null>>>;
  /** null: nothing is pointed at now. */
  pointed: ReadonlySignal<Pointed | null>;
  /** "The P" and "the D", which are drawn: the one looked at, that of the last copy, the first that lives, or the last there was. */
  drawn: Readonly<Record<Role, ReadonlySignal<EngineState | null>>>;
  /** Between engines. Oldest first; the last 64, those under way included. */
  transfers: ReadonlySignal<readonly TransferView[]>;
  /** null: there is none. */
  store: ReadonlySignal<StoreView | null>;
  /** The same of what the store gave and got: its id is STORE. */
  storeTransfers: ReadonlySignal<readonly TransferView[]>;
  /** By the holder's id. */
  slabs: ReadonlySignal<ReadonlyMap<string, SlabView>>;
  /** When the user's last conversation ended, if one did: what was measured before it is another's story. */
  beganMs: ReadonlySignal<number>;
  /** Oldest first, since the last reset; the last one may be running. */
  turns: ReadonlySignal<readonly TurnView[]>;
  /** The last 4096, in order of arrival. */
  spans: ReadonlySignal<readonly Span[]>;
  /** Oldest first, the last 50. */
  notes: ReadonlySignal<readonly Note[]>;
  race: ReadonlySignal<Race | null>;
  stall: ReadonlySignal<Stall | null>;
  crossover: ReadonlySignal<Crossover | null>;
  /** null unless a recording is replayed. */
  replay: ReadonlySignal<ReplayView | null>;
  time: ReadonlySignal<TimeView>;
  /** The shipped conversation is being played by itself. */
  playing: ReadonlySignal<boolean>;
  /** What the user could ask next, best first. */
  suggestions: ReadonlySignal<readonly string[]>;
  /** The shown clock, for animation: call it in a frame, it is no signal. */
  nowMs(): number;
  /** When a copy ends that is shown later than it ran; null: nobody knows yet. */
  endOf(transfer: Pick<TransferView, 'requestId' | 'startMs'>): number | null;
}

/** What the controls and lessons do. Nothing throws: what goes wrong becomes a note or the status. */
export interface SessionActions {
  /** Asks in the running conversation; resolves when the turn ended. */
  ask(question: string): Promise<void>;
  /** Stops the turn under way. */
  stop(): void;
  /** Plays the shipped conversation from where it is. */
  play(): void;
  pause(): void;
  /** Asks the shipped conversation's next question only. */
  step(): Promise<void>;
  /** Ends the conversation, empties both caches and begins a new conversation. */
  reset(): Promise<void>;
  /**
   * Changes settings; the URL follows. Engines are rebuilt only where that is needed, and where a change empties them the
   * conversation is computed again, so that it goes on.
   */
  configure(change: Partial<Settings>): Promise<void>;
  /** A new conversation with these settings, on empty engines; what plays stops. */
  begin(change: Partial<Settings>): Promise<void>;
  /** Engines in place of a recording. */
  endReplay(): Promise<void>;
  /** Removes all blocks that the store keeps in this browser's files; the conversation goes on. */
  emptyFolder(): Promise<void>;
  /** Changes what was said before: `from` becomes `to` in the history of the next turn. */
  editHistory(from: string, to: string): void;
  /** Empties P's prefix cache. */
  evictPrefill(): Promise<void>;
  /** Lets D's holds for P run out now. */
  expireHold(): Promise<void>;
  /** A clean stop without notifications; the other engine finds out as it would from a crash. */
  kill(role: Role): Promise<void>;
  /** Draws this one of the role's engines. */
  look(role: Role, engineId: string): void;
  /** With a pointer, a finger or the keyboard; null: no more. */
  point(at: Pointed | null): void;
  /** Builds engines that ended anew. */
  revive(): Promise<void>;
  /** The next turn of the conversation, once recomputed and once pulled. */
  runRace(): Promise<void>;
  /** One user is answered as another pastes a long text: on one engine, and on P and D. */
  runStall(): Promise<void>;
  runCrossover(): Promise<void>;
  /** What the engines' steps and copies take, for fleets that are simulated (costs.ts has it then). */
  measureCosts(): Promise<void>;
  /** A dropped Hugging Face directory, or its URL. */
  loadModel(source: { files: readonly File[]; name: string } | { url: string }): Promise<void>;
  saveRecording(): Promise<void>;
  loadRecording(file: File): Promise<void>;
  /** The shown clock runs on, or stands still. */
  playTime(): void;
  pauseTime(): void;
  /** To a time of the last turn, or of a recording; stands still there. */
  seek(atMs: number): void;
  /** To the next stage; stands still there. */
  stepTime(): void;
  /** To what happens now. */
  toNow(): void;
}

export interface Session {
  state: SessionState;
  actions: SessionActions;
}
