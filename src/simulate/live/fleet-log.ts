/**
 * What is remembered of a watched fleet, simulated or real: its last turns, their TTFTs, what was done to it by hand,
 * and what became of its requests. Knows no engine.
 */
import type { BlockFact } from '../../engine/inspect/block-facts.ts';
import type { ClusterNotice } from '../../fleet/notices.ts';
import type { Span } from '../../measure/spans/spans.ts';
import type { TurnResult } from '../../router/turn-types.ts';
import type { Counting } from '../load/load.ts';
import { LatencyWindow } from './latency.ts';
import { BLOCK_SIZE } from './room.ts';
import { StoreMoves } from './store-moves.ts';
import { TurnLog } from './turn-log.ts';
import type { LiveBlocks, LiveEvent, LiveLook, LiveStore, StoreContent, TurnPath } from './view.ts';

/** Points that are kept, one a second. */
const MOST_POINTS = 180;
const MOST_EVENTS = 100;

export class FleetLog implements Counting {
  readonly #turns: TurnLog;
  readonly #moves: StoreMoves;
  readonly #latency = new LatencyWindow(MOST_POINTS);
  readonly #events: LiveEvent[] = [];
  readonly #requests = { answered: 0, failed: 0, underWay: 0 };

  /** `originMs`: time of notices and spans that is 0 for the viewer. */
  constructor(originMs = 0) {
    this.#turns = new TurnLog(originMs);
    this.#moves = new StoreMoves(originMs);
  }

  heard(notice: ClusterNotice): void {
    if (notice.kind === 'turn') this.#turns.begins(notice);
    if (notice.kind === 'request') this.#turns.requestStarts(notice);
    if (notice.kind === 'turn ended') this.#turns.ends(notice.result);
  }

  saw(span: Span): void {
    this.#turns.saw(span);
    this.#moves.saw(span);
  }

  happened(event: LiveEvent): void {
    this.#events.push(event);
    if (this.#events.length > MOST_EVENTS) this.#events.shift();
  }

  /** Call when everything that ended before nowMs has been added. */
  until(nowMs: number): void {
    this.#latency.until(nowMs);
  }

  blocks(engineId: string, numBlocks: number, facts: readonly BlockFact[]): LiveBlocks {
    return { engineId, numBlocks, blocks: this.#turns.blocks(facts, BLOCK_SIZE) };
  }

  store(content: StoreContent): LiveStore {
    return { ...content, ...this.#moves.look() };
  }

  path(turnId: string): TurnPath | null {
    return this.#turns.path(turnId);
  }

  look(): Pick<LiveLook, 'decisions' | 'latency' | 'events' | 'requests'> {
    return {
      decisions: this.#turns.last,
      latency: this.#latency.points,
      events: [...this.#events],
      requests: { ...this.#requests },
    };
  }

  arrives(): void {
    this.#requests.underWay++;
  }

  fails(): void {
    this.#requests.underWay--;
    this.#requests.failed++;
  }

  ends(startMs: number, { ttftMs, latencyMs }: TurnResult): void {
    this.#requests.underWay--;
    this.#requests.answered++;
    this.#latency.add({ endMs: startMs + latencyMs, ttftMs });
  }

  conversationEnds(): void {}
}
