/** What came of requests, kept in columns: a hundred bytes a request, however many there are. */
import { invariant } from '../errors.ts';
import type { RoutedTurn } from '../router/decision.ts';
import type { TurnResult } from '../router/turn-types.ts';

/** One request that ended well. */
export interface ServedRequest {
  /** When it came, on the virtual clock. */
  startMs: number;
  /** Of its conversation, the first is 1. */
  turn: number;
  ttftMs: number;
  latencyMs: number;
  promptTokens: number;
  outputTokens: number;
  localHitTokens: number;
  pulledTokens: number;
  bytesPToD: number;
  bytesDToP: number;
}

const COLUMNS = [
  'startMs',
  'turn',
  'ttftMs',
  'latencyMs',
  'promptTokens',
  'outputTokens',
  'localHitTokens',
  'pulledTokens',
  'bytesPToD',
  'bytesDToP',
] as const satisfies readonly (keyof ServedRequest)[];

/** A value of every request, each by its own name. */
export type ServedColumns = Record<keyof ServedRequest, Float64Array>;

/** Of the request at that place of the columns; null for a single token. */
export function tpotOf(
  { ttftMs, latencyMs, outputTokens }: Readonly<ServedColumns>,
  index: number,
): number | null {
  const tokens = outputTokens[index]!;
  return tokens > 1 ? (latencyMs[index]! - ttftMs[index]!) / (tokens - 1) : null;
}

export const keyOf = (conversationId: string, turn: number): string => `${conversationId}#${turn}`;

const FIRST_ROOM = 1024;

export class Collector {
  count = 0;
  /** Requests that came, whatever became of them. */
  arrived = 0;
  lastEndMs = 0;
  /** When what counts began: after what only warmed up. */
  fromMs = 0;
  /** Conversations that come by themselves: how many came, and are over; when the last one came, and who was there then; their turns, and thoughts between these, in all. */
  readonly conversations = { came: 0, over: 0, lastMs: 0, openAtLast: 0, turns: 0, thinkMs: 0 };
  /** Failed requests by message. */
  readonly errors = new Map<string, number>();
  /** Which turn each is, and where it went, where that is asked for. */
  readonly keys: string[] | null;
  readonly routed: (RoutedTurn | null)[] = [];
  #columns: ServedColumns;
  #failed = 0;
  /** Conversations of which a turn is under way. */
  readonly #open = new Set<string>();
  /** Somebody waits for the turns of these; null: nobody does. */
  #waited: { ids: Set<string>; resolve: () => void } | null = null;

  constructor({ keyed = false }: { keyed?: boolean } = {}) {
    this.keys = keyed ? [] : null;
    const columns = COLUMNS.map((key) => [key, new Float64Array(FIRST_ROOM)]);
    this.#columns = Object.fromEntries(columns) as ServedColumns;
  }

  get open(): number {
    return this.arrived - this.count - this.#failed;
  }

  get failed(): number {
    return this.#failed;
  }

  /** Throws InternalError for a turn that does not wait for the one before. */
  arrives(conversationId: string): void {
    invariant(!this.#open.has(conversationId), () => `two turns of ${conversationId} are under way`);
    this.#open.add(conversationId);
    this.arrived++;
  }

  /** A turn that came and is over only warmed up: nothing of it counts. */
  warmedUp(conversationId: string, atMs: number): void {
    this.#isOver(conversationId);
    this.arrived--;
    this.fromMs = Math.max(this.fromMs, atMs);
  }

  /** `thinkMs`: between two turns. */
  conversationComes(atMs: number, turns: number, thinkMs: number): void {
    const { conversations } = this;
    conversations.turns += turns;
    conversations.thinkMs += thinkMs * Math.max(0, turns - 1);
    conversations.openAtLast = conversations.came++ - conversations.over;
    conversations.lastMs = atMs;
  }

  conversationEnds(): void {
    this.conversations.over++;
  }

  /** How long a conversation stays that comes by itself, on average, if its turns take as long as those that ended; 0 without any. */
  get stayMs(): number {
    return this.stayMsSince(0);
  }

  /** As long as those that were asked for from then on: while a fleet fills, turns get longer. */
  stayMsSince(fromMs: number): number {
    const { came, turns, thinkMs } = this.conversations;
    const starts = this.column('startMs');
    const latencies = this.column('latencyMs').filter((_, i) => starts[i]! >= fromMs);
    if (came === 0 || latencies.length === 0) return 0;
    const latencyMs = latencies.reduce((sum, ms) => sum + ms, 0) / latencies.length;
    return (turns * latencyMs + thinkMs) / came;
  }

  /** Resolves when all have ended that are under way now. */
  underWayEnd(): Promise<void> {
    const waited = new Set(this.#open);
    if (waited.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#waited = { ids: waited, resolve };
    });
  }

  fails(conversationId: string, message: string, atMs: number): void {
    this.#isOver(conversationId);
    this.#failed++;
    this.lastEndMs = Math.max(this.lastEndMs, atMs);
    this.errors.set(message, (this.errors.get(message) ?? 0) + 1);
  }

  /** `startMs`: when the turn was asked for. */
  ends(startMs: number, result: TurnResult): void {
    const { turn, ttftMs, latencyMs, prompt, outputTokenIds, transfer } = result;
    this.#isOver(result.conversationId);
    if (this.keys) {
      this.keys.push(keyOf(result.conversationId, result.turn));
      this.routed.push(result.routed ?? null);
    }
    const { promptTokens, localHitTokens, pulledTokens } = prompt;
    const bytesPToD = transfer.pToD?.bytes ?? 0;
    const bytesDToP = transfer.dToP?.bytes ?? 0;
    const outputTokens = outputTokenIds.length;
    this.#add({
      startMs,
      turn,
      ttftMs,
      latencyMs,
      promptTokens,
      outputTokens,
      localHitTokens,
      pulledTokens,
      bytesPToD,
      bytesDToP,
    });
    this.lastEndMs = Math.max(this.lastEndMs, startMs + latencyMs);
  }

  /** One value of every request, in the order in which they ended. */
  column(key: keyof ServedRequest): Float64Array {
    return this.#columns[key].subarray(0, this.count);
  }

  /** All of them, copied. */
  columns(): ServedColumns {
    const columns = COLUMNS.map((key) => [key, this.column(key).slice()]);
    return Object.fromEntries(columns) as ServedColumns;
  }

  /** Of the request that ended as the so-manieth; null for a single token. */
  tpotMs(index: number): number | null {
    return tpotOf(this.#columns, index);
  }

  #isOver(conversationId: string): void {
    this.#open.delete(conversationId);
    const waited = this.#waited;
    if (waited?.ids.delete(conversationId) && waited.ids.size === 0) waited.resolve();
  }

  #add(served: ServedRequest): void {
    if (this.count === this.#columns.startMs.length) {
      for (const key of COLUMNS) {
        const longer = new Float64Array(2 * this.count);
        longer.set(this.#columns[key]);
        this.#columns[key] = longer;
      }
    }
    for (const key of COLUMNS) this.#columns[key][this.count] = served[key];
    this.count++;
  }
}
