import { describe, expect, it } from 'vitest';
import { loadOverTime } from '../../src/cli/simulate/load-over-time.ts';

type Engine = Parameters<typeof loadOverTime>[0][number];

/** An engine with slices of `sliceMs` each from `fromMs` on, and the requests that wait in each. */
const engine = (
  engine_id: string,
  role: 'prefill' | 'decode',
  waiting: readonly number[],
  sliceMs: number,
  fromMs = 0,
): Engine => ({
  engine_id,
  role,
  combined: false,
  load: waiting.map((n, i) => ({
    ...{ start_ms: fromMs + i * sliceMs, end_ms: fromMs + (i + 1) * sliceMs },
    ...{ waiting: n, running: 0, kv_used: 0, busy: 0 },
  })),
});

const waitingOf = (engines: readonly Engine[]) => loadOverTime(engines, ({ waiting }) => waiting);

describe('load over time', () => {
  it('has one line per engine for few engines, whatever their slices are', () => {
    const [p, d] = waitingOf([
      engine('prefill-0', 'prefill', [1, 3], 6000),
      engine('decode-0', 'decode', [2, 2, 2, 5, 5, 5], 2000),
    ]);
    expect([p!.name, d!.name]).toEqual(['prefill-0', 'decode-0']);
    const half = (points: typeof p, from: number) =>
      new Set(points!.points.filter(({ x }) => x >= from && x < from + 6).map(({ y }) => y));
    expect([half(p, 0), half(p, 6)]).toEqual([new Set([1]), new Set([3])]);
    expect([half(d, 0), half(d, 6)]).toEqual([new Set([2]), new Set([5])]);
  });

  it('has a median and a band per role for many engines, from those present at the time', () => {
    const waits = [0, 1, 2, 3, 14];
    const engines = waits.map((n, i) => engine(`prefill-${i}`, 'prefill', [n], 12_000));
    const late = engine('decode-0', 'decode', [7], 3000, 9000);
    const [prefill, decode] = waitingOf([...engines, late]);
    expect(prefill).toMatchObject({ name: 'prefill, median of 5', band: true });
    expect(prefill!.points).toHaveLength(120);
    for (const point of prefill!.points) expect(point).toMatchObject({ y: 2, low: 0, high: 14 });
    expect(decode!.name).toBe('decode, median of 1');
    expect(decode!.points.every(({ x, y }) => x > 9 && y === 7)).toBe(true);
  });

  it('has no line through a time in which there was no engine of the role', () => {
    const before = engine('prefill-0', 'prefill', [4], 3000);
    const after = engine('prefill-0.2', 'prefill', [8], 6000, 6000);
    const rest = [0, 1, 2, 3].map((n) => engine(`decode-${n}`, 'decode', [n], 12_000));
    const [prefill, decode] = waitingOf([before, after, ...rest]);
    const begins = prefill!.points.filter(({ apart }) => apart);
    expect(begins.map(({ y }) => y)).toEqual([8]);
    expect(begins[0]!.x).toBeCloseTo(6, 0);
    expect(decode!.points.some(({ apart }) => apart)).toBe(false);
  });

  it('has a line of its own for engines that do both', () => {
    const engines = [0, 1, 2, 3].map((n) => engine(`decode-${n}`, 'decode', [n], 12_000));
    const both = (n: number) => ({ ...engine(`both-${n}`, 'decode', [9], 12_000), combined: true });
    const [decode, combined] = waitingOf([...engines, both(0), both(1)]);
    expect([decode!.name, combined!.name]).toEqual(['decode, median of 4', 'both, median of 2']);
    expect(decode!.points[0]).toMatchObject({ low: 0, high: 3 });
  });

  it('weights each slice by its time in a cell', () => {
    // A cell is 0.1 s: the first has 40 ms of one slice and 60 ms of the other.
    const load = engine('prefill-0', 'prefill', [10, 0], 40).load.map((slice, i) =>
      i === 0 ? slice : { ...slice, end_ms: 12_000 },
    );
    const [line] = waitingOf([{ ...engine('prefill-0', 'prefill', [], 0), load }]);
    expect(line!.points[0]!.y).toBeCloseTo(4, 9);
    expect(line!.points[1]!.y).toBe(0);
  });
});
