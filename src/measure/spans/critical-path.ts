/**
 * Critical path: which of several overlapping pieces of work each moment was waiting for. Cuts a time window into segments
 * with one piece of work each; the segments add up to the window.
 */

export interface PathPiece<K> {
  /** The name under which it counts. */
  key: K;
  startMs: number;
  endMs: number;
  /**
   * null: work. Else the rank of a wait, 0 first. Waits only fill moments for which no work is known.
   */
  waitRank: number | null;
}

export interface PathSegment<K> {
  /** null: nothing is known about this time. */
  key: K | null;
  startMs: number;
  endMs: number;
}

/** Tolerance for differences between threads' clocks, when a cause seems to end after its effect began. */
const CLOCK_SLACK_MS = 0.05;

/**
 * Walks backwards from the window's end: the work that ended last before the current moment is what was waited for, and the
 * walk continues at its start. Work that runs past the moment cannot be its cause and overlaps. Gaps go to the wait with the
 * best rank, else to work that runs meanwhile. Segments are in time order, without gaps, from fromMs to toMs.
 */
export function criticalPath<K>(
  pieces: readonly PathPiece<K>[],
  fromMs: number,
  toMs: number,
): PathSegment<K>[] {
  const within = pieces
    .map((piece) => ({
      ...piece,
      startMs: Math.max(piece.startMs, fromMs),
      endMs: Math.min(piece.endMs, toMs),
    }))
    .filter(({ startMs, endMs }) => startMs < endMs);
  const work = within.filter(({ waitRank }) => waitRank === null).sort((a, b) => a.endMs - b.endMs);
  const segments: PathSegment<K>[] = [];
  let now = toMs;
  for (let next = work.pop(); next && now > fromMs; next = work.pop()) {
    const endMs = Math.min(next.endMs, now);
    if (next.endMs > now + CLOCK_SLACK_MS || next.startMs >= endMs) continue;
    segments.push(...fill(within, endMs, now).reverse(), { key: next.key, startMs: next.startMs, endMs });
    now = next.startMs;
  }
  segments.push(...fill(within, fromMs, now).reverse());
  return merged(segments.reverse());
}

/** Fills a gap between two moments of the path. */
function fill<K>(pieces: readonly PathPiece<K>[], fromMs: number, toMs: number): PathSegment<K>[] {
  if (fromMs >= toMs) return [];
  const covering = pieces.filter(({ startMs, endMs }) => startMs < toMs && endMs > fromMs);
  const cuts = [fromMs, toMs, ...covering.flatMap(({ startMs, endMs }) => [startMs, endMs])]
    .filter((cut) => cut >= fromMs && cut <= toMs)
    .sort((a, b) => a - b);
  const rank = ({ waitRank }: PathPiece<K>): number => waitRank ?? Number.POSITIVE_INFINITY;
  const segments: PathSegment<K>[] = [];
  for (let i = 1; i < cuts.length; i++) {
    const [startMs, endMs] = [cuts[i - 1]!, cuts[i]!];
    if (startMs === endMs) continue;
    let best: PathPiece<K> | null = null;
    for (const piece of covering) {
      if (piece.startMs > startMs || piece.endMs < endMs) continue;
      if (!best || rank(piece) < rank(best)) best = piece;
    }
    segments.push({ key: best ? best.key : null, startMs, endMs });
  }
  return segments;
}

function merged<K>(segments: readonly PathSegment<K>[]): PathSegment<K>[] {
  const result: PathSegment<K>[] = [];
  for (const segment of segments) {
    const last = result.at(-1);
    if (last && last.key === segment.key) last.endMs = segment.endMs;
    else result.push({ ...segment });
  }
  return result;
}
