/**
 * Copies on their way between the grids, for the eye: a copy that took milliseconds is shown for about a second, one that
 * took longer (a slow link) keeps the pace of its bytes. Of a streamed hand-over each chunk flies by itself. Knows
 * transfers and elapsed time; draws nothing.
 */
import type { BlockPairs, Role, TransferView } from '../session/types.ts';
import { type Direction, directionOf, readerOf } from './direction.ts';
import { type Box, centre, clamp, type Point } from './geometry.ts';

/** The shortest time that a copy is shown for. */
const LEAST_SHOWN_MS = 1100;
/** What ended before this, when the page first looks, is not shown again. */
const STALE_MS = 1500;
/** Share of the way that one block needs, the others following it. */
const BLOCK_SHARE = 0.45;

export interface Flight {
  key: string;
  direction: Direction;
  pairs: BlockPairs;
  /** 0 to 1: how far the picture is. Never ahead of the bytes. */
  shown: number;
  /** Copied share of the bytes, 0 to 1. */
  done: number;
  /** Milliseconds that it took; null while it runs. */
  realMs: number | null;
  failed: boolean;
}

export class Flights {
  #flights = new Map<string, Flight>();
  /** Transfers that were shown, or were over before anybody looked. */
  #seen = new Set<string>();
  #lastMs = 0;

  /**
   * Takes in the transfers as they are now, and moves the picture on. Returns true while something flies. `onDeparture`
   * hears of each flight once. `endOf`: when a copy's end is known although it is shown as it runs, the picture keeps its time.
   */
  advance(
    transfers: readonly TransferView[],
    nowMs: number,
    elapsedMs: number,
    onDeparture: (flight: Flight) => void = () => {},
    endOf: (transfer: TransferView) => number | null = () => null,
  ): boolean {
    if (nowMs < this.#lastMs) {
      // Shown again from before: what flies then has not landed.
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

  /** Ends all pictures at once: for those who asked for less motion. */
  land(): void {
    this.#flights.clear();
  }

  get all(): readonly Flight[] {
    return [...this.#flights.values()];
  }

  /** Blocks of the reader whose copies are still in the air; left out: of every reader. */
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

/** What flies as one: a transfer, or a chunk of a streamed one, which is told when its bytes are in the slab. */
function piecesOf(transfer: TransferView): Pick<Flight, 'key' | 'pairs' | 'done'>[] {
  const { requestId, startMs, pairs, chunks, bytes, bytesDone } = transfer;
  const key = `${requestId} ${startMs}`;
  if (chunks) return chunks.map((chunk, i) => ({ key: `${key} ${i}`, pairs: chunk, done: 1 }));
  return [{ key, pairs, done: bytes === 0 ? 1 : clamp(bytesDone / bytes, 0, 1) }];
}

/** More blocks take a little longer, so that they can be told apart. */
const shownMs = (blocks: number): number => LEAST_SHOWN_MS + Math.min(blocks * 25, 900);

/** How far block i of a flight is: they leave one after the other, and the last arrives with the picture's end. */
export function progressOf(flight: Pick<Flight, 'pairs' | 'shown'>, i: number): number {
  const last = Math.max(1, flight.pairs.length - 1);
  const leaves = (i / last) * (1 - BLOCK_SHARE);
  return clamp((flight.shown - leaves) / BLOCK_SHARE, 0, 1);
}

/** Where a block is on its way from one cell over the slab to the other: it slows down in the slab. */
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
