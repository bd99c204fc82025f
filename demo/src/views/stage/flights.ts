/**
 * Animates copies between the grids. A copy that took milliseconds is shown for about a second; a longer one (a slow
 * link) moves at the pace of its bytes. In a streamed handover each chunk is a flight of its own. Draws nothing.
 */
import type { BlockPairs, Role, TransferView } from '../../session/types.ts';
import { type Box, centre, clamp, type Point } from '../geometry.ts';
import { type Direction, directionOf, readerOf } from './direction.ts';

/** A copy is shown for at least this long. */
const LEAST_SHOWN_MS = 1100;
/** A copy that ended longer ago than this, when first seen, is not shown. */
const STALE_MS = 1500;
/** Share of a flight's time that one block needs; the blocks leave one after the other. */
const BLOCK_SHARE = 0.45;

export interface Flight {
  key: string;
  direction: Direction;
  pairs: BlockPairs;
  /** Progress of the animation, 0 to 1. Never ahead of the bytes. */
  shown: number;
  /** Copied share of the bytes, 0 to 1. */
  done: number;
  /** Duration of the copy, milliseconds; null while it runs. */
  realMs: number | null;
  failed: boolean;
}

export class Flights {
  #flights = new Map<string, Flight>();
  /** Transfers that were shown, or were over when first seen. */
  #seen = new Set<string>();
  #lastMs = 0;

  /**
   * Updates from the transfers and advances the animation. Returns true while something is in flight. `onDeparture` is
   * called once per flight. `endOf` returns the end of a copy that is shown again, if known: then its flight follows the clock.
   */
  advance(
    transfers: readonly TransferView[],
    nowMs: number,
    elapsedMs: number,
    onDeparture: (flight: Flight) => void = () => {},
    endOf: (transfer: TransferView) => number | null = () => null,
  ): boolean {
    if (nowMs < this.#lastMs) {
      // Time went back: nothing has landed yet.
      this.#flights.clear();
      this.#seen.clear();
    }
    this.#lastMs = nowMs;
    const keys = new Set(transfers.flatMap((transfer) => piecesOf(transfer).map(({ key }) => key)));
    for (const key of this.#seen) if (!keys.has(key)) this.#seen.delete(key);
    for (const transfer of transfers) this.#take(transfer, nowMs, onDeparture);
    const slowly = new Map<string, number>();
    for (const transfer of transfers) {
      const endMs = transfer.chunks ? null : endOf(transfer);
      if (endMs === null) continue;
      const { startMs } = transfer;
      const share = endMs > startMs ? clamp((nowMs - startMs) / (endMs - startMs), 0, 1) : 1;
      for (const { key } of piecesOf(transfer)) slowly.set(key, share);
    }
    for (const flight of [...this.#flights.values()]) {
      const share = slowly.get(flight.key);
      if (share !== undefined) {
        flight.shown = share;
        if (share >= 1) this.#flights.delete(flight.key);
        continue;
      }
      const pace = elapsedMs / shownMs(flight.pairs.length);
      flight.shown = Math.min(flight.shown + pace, flight.realMs === null ? 0.1 + 0.9 * flight.done : 1);
      if (flight.shown >= 1 || !keys.has(flight.key)) this.#flights.delete(flight.key);
    }
    return this.#flights.size > 0;
  }

  #take(transfer: TransferView, nowMs: number, onDeparture: (flight: Flight) => void): void {
    const { startMs, endMs, outcome } = transfer;
    const direction = directionOf(transfer);
    const realMs = endMs === null ? null : endMs - startMs;
    const failed = outcome !== null && outcome !== 'done';
    const stale = endMs !== null && Math.abs(nowMs - endMs) > STALE_MS;
    for (const { key, pairs, done } of piecesOf(transfer)) {
      const known = this.#flights.get(key);
      if (known) {
        Object.assign(known, { done: Math.max(known.done, done), realMs, failed });
      } else if (!this.#seen.has(key)) {
        this.#seen.add(key);
        if (stale || pairs.length === 0) continue;
        const flight = { key, direction, pairs, shown: 0, done, realMs, failed };
        this.#flights.set(key, flight);
        onDeparture(flight);
      }
    }
  }

  /** Ends all flights at once, for reduced motion. */
  land(): void {
    this.#flights.clear();
  }

  get all(): readonly Flight[] {
    return [...this.#flights.values()];
  }

  /** Ids of the reader's blocks whose copies are still in flight. Default: those of every reader. */
  awaited(reader: Role | null = null): Set<number> {
    const blocks = new Set<number>();
    for (const flight of this.#flights.values()) {
      if (reader !== null && readerOf(flight.direction) !== reader) continue;
      flight.pairs.forEach(([, to], i) => {
        if (progressOf(flight, i) < 1) blocks.add(to);
      });
    }
    return blocks;
  }
}

/** What moves as one flight: a transfer, or one chunk of a streamed transfer (reported when its bytes are in the slab). */
function piecesOf(transfer: TransferView): Pick<Flight, 'key' | 'pairs' | 'done'>[] {
  const { requestId, startMs, pairs, chunks, bytes, bytesDone } = transfer;
  const key = `${requestId} ${startMs}`;
  if (chunks) return chunks.map((chunk, i) => ({ key: `${key} ${i}`, pairs: chunk, done: 1 }));
  return [{ key, pairs, done: bytes === 0 ? 1 : clamp(bytesDone / bytes, 0, 1) }];
}

/** More blocks take a little longer, so that they can be distinguished. */
const shownMs = (blocks: number): number => LEAST_SHOWN_MS + Math.min(blocks * 25, 900);

/** Progress of block i of a flight, 0 to 1. Blocks leave one after the other; the last arrives when the flight ends. */
export function progressOf(flight: Pick<Flight, 'pairs' | 'shown'>, i: number): number {
  const last = Math.max(1, flight.pairs.length - 1);
  const leaves = (i / last) * (1 - BLOCK_SHARE);
  return clamp((flight.shown - leaves) / BLOCK_SHARE, 0, 1);
}

/** Position of a block on its way from one cell through the slab to another cell. It slows down in the slab. */
export function pointOnWay(from: Box, over: Box, to: Box, progress: number): Point {
  const [a, b, c] = [centre(from), centre(over), centre(to)];
  const t = progress < 0.5 ? ease(progress * 2) / 2 : 0.5 + ease(progress * 2 - 1) / 2;
  return t < 0.5 ? mix(a, b, t * 2) : mix(b, c, t * 2 - 1);
}

const ease = (t: number): number => (t < 0.5 ? 2 * t * t : 1 - (2 - 2 * t) ** 2 / 2);
const mix = (a: Point, b: Point, t: number): Point => ({
  x: a.x + (b.x - a.x) * t,
  y: a.y + (b.y - a.y) * t,
});
