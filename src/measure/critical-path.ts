/**
 * Which of several things that overlap a moment was waited for. Cuts a time window into segments, each given to one piece
 * of work, so that the segments of a window add up to the window.
 */

export interface PathPiece<K> {
  /** What it is counted as. */
  key: K;
  startMs: number;
  endMs: number;
  /**
   * null: work. Else how much a wait says about a moment in which no work was waited for, 0 the most: it only fills
   * what work leaves.
   */
  waitRank: number | null;
}

export interface PathSegment<K> {
  /** null: nothing is known of this time. */
  key: K | null;
  startMs: number;
  endMs: number;
}

/** Threads' clocks may differ by so much: a cause that seems to end later than its effect began is still taken for one. */
const CLOCK_SLACK_MS = 0.05;

/**
 * Goes back from the window's end: what ended last before the present moment is what was waited for; then the moment is
 * its start. What runs beyond the moment cannot be its cause, and overlaps. Times between are given to the wait that says
 * most, else to work that runs meanwhile. Segments come in order of time, without gaps, from fromMs to toMs.
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

/** What was going on between two moments of the path, piece by piece. */
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
