/** Results of requests, kept in columns: about a hundred bytes a request, however many there are. */
import { invariant } from '../../errors.ts';
import type { RoutedTurn } from '../../router/decision.ts';
import type { TurnResult } from '../../router/turn-types.ts';
import { sum } from '../../sum.ts';

/** One request that succeeded. */
export interface ServedRequest {
  /** When it arrived, on the fleet's clock. */
  startMs: number;
  /** Number of the turn in its conversation, from 1 on. */
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

/** One column for each value, with an entry for every request. */
export type ServedColumns = Record<keyof ServedRequest, Float64Array>;

/** TPOT of the request at `index`, ms; null for a single token. */
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
  /** Requests that arrived, whatever became of them. */
  arrived = 0;
  lastEndMs = 0;
  /** When counting began, ms: after the warm-up. */
  fromMs = 0;
  /**
   * Conversations of an arrival load: how many arrived, and ended; when the last one arrived, ms, and how many were
   * open then; their turns and the think times between these, ms, in total.
   */
  readonly conversations = { arrived: 0, ended: 0, lastMs: 0, openAtLast: 0, turns: 0, thinkMs: 0 };
  /** Failed requests by message. */
  readonly errors = new Map<string, number>();
  /** Key of each request, and where it went; null and empty unless `keyed`. */
  readonly keys: string[] | null;
  readonly routed: (RoutedTurn | null)[] = [];
  #columns: ServedColumns;
  /** When each failed request had arrived, ms. */
  readonly #failedMs: number[] = [];
  /** Conversations with a turn under way, and when that arrived, ms. */
  readonly #open = new Map<string, number>();
  /** Conversations whose turns underWayEnd() waits for; null: it was not called. */
  #waited: { ids: Set<string>; resolve: () => void } | null = null;

  constructor({ keyed = false }: { keyed?: boolean } = {}) {
    this.keys = keyed ? [] : null;
    const columns = COLUMNS.map((key) => [key, new Float64Array(FIRST_ROOM)]);
    this.#columns = Object.fromEntries(columns) as ServedColumns;
  }

  get open(): number {
    return this.arrived - this.count - this.failed;
  }

  get failed(): number {
    return this.#failedMs.length;
  }

  /** When the failed requests had arrived, and those under way, ms. */
  get failedMs(): readonly number[] {
    return this.#failedMs;
  }

  get openMs(): readonly number[] {
    return [...this.#open.values()];
  }

  /** A turn arrives. Throws InternalError if the conversation's turn before it has not ended. */
  arrives(conversationId: string, atMs: number): void {
    invariant(!this.#open.has(conversationId), () => `two turns of ${conversationId} are under way`);
    this.#open.set(conversationId, atMs);
    this.arrived++;
  }

  /** The turn has ended and was only a warm-up: nothing of it counts. */
  warmedUp(conversationId: string, atMs: number): void {
    this.#turnEnded(conversationId);
    this.arrived--;
    this.fromMs = Math.max(this.fromMs, atMs);
  }

  /** A conversation arrives. `thinkMs`: time between two of its turns. */
  conversationComes(atMs: number, turns: number, thinkMs: number): void {
    const { conversations } = this;
    conversations.turns += turns;
    conversations.thinkMs += thinkMs * Math.max(0, turns - 1);
    conversations.openAtLast = conversations.arrived++ - conversations.ended;
    conversations.lastMs = atMs;
  }

  conversationEnds(): void {
    this.conversations.ended++;
  }

  /** Mean stay of a conversation of an arrival load, ms, if its turns take as long as those that ended; 0 without any. */
  get stayMs(): number {
    return this.stayMsSince(0);
  }

  /** The same, from turns that arrived at fromMs or later: while a fleet fills, turns get longer. */
  stayMsSince(fromMs: number): number {
    const { arrived, turns, thinkMs } = this.conversations;
    const starts = this.column('startMs');
    const latencies = this.column('latencyMs').filter((_, i) => starts[i]! >= fromMs);
    if (arrived === 0 || latencies.length === 0) return 0;
    const latencyMs = sum(latencies) / latencies.length;
    return (turns * latencyMs + thinkMs) / arrived;
  }

  /** Resolves when all turns have ended that are under way now. Call it once. */
  underWayEnd(): Promise<void> {
    const waited = new Set(this.#open.keys());
    if (waited.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#waited = { ids: waited, resolve };
    });
  }

  fails(conversationId: string, message: string, atMs: number): void {
    this.#failedMs.push(this.#open.get(conversationId)!);
    this.#turnEnded(conversationId);
    this.lastEndMs = Math.max(this.lastEndMs, atMs);
    this.errors.set(message, (this.errors.get(message) ?? 0) + 1);
  }

  /** A turn succeeded. `startMs`: when it was sent. */
  ends(startMs: number, result: TurnResult): void {
    const { turn, ttftMs, latencyMs, prompt, outputTokenIds, transfer } = result;
    this.#turnEnded(result.conversationId);
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

  /** One value of every request, in the order in which they ended. A view, not a copy. */
  column(key: keyof ServedRequest): Float64Array {
    return this.#columns[key].subarray(0, this.count);
  }

  /** All columns, copied. */
  columns(): ServedColumns {
    const columns = COLUMNS.map((key) => [key, this.column(key).slice()]);
    return Object.fromEntries(columns) as ServedColumns;
  }

  /** TPOT of the request that ended at position `index`, from 0 on, ms; null for a single token. */
  tpotMs(index: number): number | null {
    return tpotOf(this.#columns, index);
  }

  #turnEnded(conversationId: string): void {
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
