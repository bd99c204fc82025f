import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Span } from '../../../demo/src/session/types.ts';
import { drawnIds } from '../../../demo/src/views/stage/direction.ts';
import { describeSpan, spanInWords } from '../../../demo/src/views/timeline/describe-span.ts';
import { type Lane, laneOf, packRows } from '../../../demo/src/views/timeline/lanes.ts';
import { sumStages } from '../../../demo/src/views/timeline/stage-sums.ts';
import {
  LEAST_SPAN_MS,
  pan,
  pinch,
  spanOf,
  tickLabel,
  tickStep,
  ticks,
  toMs,
  toX,
  zoom,
} from '../../../demo/src/views/timeline/time-scale.ts';
import {
  barAt,
  barFrom,
  fitTo,
  layoutTimeline,
  placeSpans,
} from '../../../demo/src/views/timeline/timeline-model.ts';
import { atRouter, onGpu, onHost, onLink } from '../../../src/measure/spans/spans.ts';
import { turn1, turn2 } from './fixture.ts';
import { fixtureState } from './fixture-state.ts';

const stage: Span = {
  name: 'readback',
  ...onHost('d'),
  startMs: 0,
  endMs: 4,
  clock: 'host',
  requestId: null,
  turns: [],
  args: { bytes: 2_000_000, chunk: 0 },
};

const whole = { startMs: 1000, endMs: 5000 };
const domain = { startMs: 2000, endMs: 3000 };

describe('the time axis', () => {
  it('maps pixels to times and back', () => {
    fc.assert(
      fc.property(fc.double({ min: 0, max: 800, noNaN: true }), (x) => {
        expect(toX(domain, 800, toMs(domain, 800, x))).toBeCloseTo(x, 6);
      }),
    );
  });

  it('keeps the time under the pointer fixed while zooming', () => {
    fc.assert(
      fc.property(
        fc.double({ min: 2100, max: 2900, noNaN: true }),
        fc.double({ min: 0.2, max: 1.2, noNaN: true }),
        (about, factor) => {
          const after = zoom(domain, whole, about, factor);
          expect(toX(after, 800, about)).toBeCloseTo(toX(domain, 800, about), 4);
        },
      ),
    );
  });

  it('limits zooming to the whole range and to the clock’s resolution', () => {
    expect(zoom(domain, whole, 2500, 100)).toEqual(whole);
    expect(spanOf(zoom(domain, whole, 2500, 1e-9))).toBeCloseTo(LEAST_SPAN_MS);
    expect(pan(domain, whole, -1e6)).toEqual({ startMs: 1000, endMs: 2000 });
    expect(pan(domain, whole, 1e6)).toEqual({ startMs: 4000, endMs: 5000 });
  });

  it('keeps the times under two fingers fixed while pinching', () => {
    const after = pinch(domain, whole, 800, [300, 500], [250, 550]);
    expect(toX(after, 800, toMs(domain, 800, 300))).toBeCloseTo(250, 4);
    expect(toX(after, 800, toMs(domain, 800, 500))).toBeCloseTo(550, 4);
  });

  it('has ticks at round times from the origin, at a readable distance', () => {
    const at = ticks(domain, 800, 2000);
    expect(at[0]).toBe(2000);
    expect(tickStep(domain, 800)).toBe(100);
    expect(at.every((ms) => ms >= domain.startMs && ms <= domain.endMs)).toBe(true);
  });

  it.each([
    ['milliseconds below 10 s', 500, 9000, ['0 ms', '500 ms', '1,000 ms']],
    ['seconds on a longer axis', 500, 12_000, ['0.0 s', '0.5 s', '1.0 s']],
    ['seconds for steps of seconds', 5000, 9000, ['0 s', '5 s', '10 s']],
    ['fractions, where a tick differs from the next in them', 0.05, 3, ['0.00 ms', '0.05 ms', '0.10 ms']],
    ['fractions of seconds', 2, 12_000, ['0.000 s', '0.002 s', '0.004 s']],
  ])('labels the ticks in one unit: %s', (_, step, endMs, labels) => {
    expect([0, step, 2 * step].map((ms) => tickLabel(ms, step, endMs))).toEqual(labels);
  });
});

const drawn = { prefill: 'p', decode: 'd' };

describe('the lane of a span', () => {
  it.each<[Pick<Span, 'engineId' | 'lane' | 'way'>, Lane | null]>([
    [onHost('p'), 'P host'],
    [onGpu('d'), 'D gpu'],
    [{ ...onHost('d'), way: { from: 'd', to: 'p' } }, 'D host'],
    [onLink({ from: 'p', to: 'd' }), 'link P>D'],
    [onLink({ from: 'd', to: 'p' }), 'link D>P'],
    [onLink({ from: 'd', to: 'another p' }), null],
    [atRouter, 'router'],
    [onHost('another p'), null],
  ])('for %j is %s', (where, lane) => {
    expect(laneOf({ ...stage, ...where }, drawn)).toBe(lane);
  });

  it('is null while no engine is drawn', () => {
    expect(laneOf({ ...stage, ...onHost('p') }, { prefill: null, decode: null })).toBeNull();
  });

  it('is packed into rows without overlap if there are enough rows', () => {
    const interval = fc.record({ startMs: fc.nat(100), length: fc.integer({ min: 1, max: 9 }) });
    fc.assert(
      fc.property(fc.array(interval, { maxLength: 40, size: 'max' }), (list) => {
        const items = list.map(({ startMs, length }) => ({ startMs, endMs: startMs + length }));
        const { packed } = packRows(items, 100);
        expect(packed).toHaveLength(items.length);
        for (const [i, a] of packed.entries()) {
          for (const b of packed.slice(i + 1)) {
            if (a.row !== b.row) continue;
            expect(a.item.endMs <= b.item.startMs || b.item.endMs <= a.item.startMs).toBe(true);
          }
        }
      }),
    );
  });

  it('never has more rows than allowed', () => {
    const same = Array.from({ length: 9 }, () => ({ startMs: 0, endMs: 5 }));
    expect(packRows(same, 4).rows).toBe(4);
  });
});

describe('the bars of the timeline', () => {
  const state = fixtureState([...turn1, ...turn2]);
  const lanes = placeSpans(state.spans.value, drawnIds(state));
  const layout = layoutTimeline(
    800,
    lanes.map(({ rows }) => rows),
  );
  const first = fitTo('first token', state.turns.value, 4000)!;

  it('are found where they are drawn, and none in empty places', () => {
    const bar = lanes.find(({ lane }) => lane === 'P gpu')!.bars.at(-1)!;
    const lane = layout.lanes.find((place) => place.lane === 'P gpu')!;
    const plot = 800 - layout.gutter;
    const x = layout.gutter + toX(first, plot, (bar.span.startMs + bar.span.endMs) / 2);
    expect(barAt(lanes, layout, first, 800, { x, y: lane.y + 5 })).toBe(bar);
    expect(barAt(lanes, layout, first, 800, { x: layout.gutter + 3, y: lane.y + 5 })).toBeNull();
  });

  it('have the colour of their engine or of the direction of their bytes', () => {
    const tones = new Map(
      lanes.flatMap(({ lane, bars }) => bars.map((bar) => [`${lane} ${bar.span.name}`, bar.tone])),
    );
    expect(tones.get('P gpu prefill')).toBe('p');
    expect(tones.get('D gpu decode')).toBe('d');
    expect(tones.get('P host upload')).toBe('pull');
    expect(tones.get('D host upload')).toBe('over');
    expect(tones.get('D host readback')).toBe('pull');
  });

  it('can be reached with arrow keys, lane by lane', () => {
    const from = barFrom(lanes, first, null, 'ArrowRight')!;
    const down = barFrom(lanes, first, from, 'ArrowDown')!;
    expect(down.lane).not.toBe(from.lane);
    expect(barFrom(lanes, first, down, 'ArrowUp')!.lane).toBe(from.lane);
  });

  it('can show the last turn to its first token, the whole turn, or the last turns', () => {
    const { turns } = state;
    const whole = fitTo('whole turn', turns.value, 4000)!;
    const last = fitTo('last turns', turns.value, 4000)!;
    expect(first.startMs).toBeLessThanOrEqual(3000);
    expect(first.endMs).toBeGreaterThan(3040);
    expect(whole.endMs).toBeGreaterThan(3060);
    expect(last.startMs).toBeLessThan(1000);
    expect(fitTo('first token', [], 0)).toBeNull();
  });
});

describe('a stage in words', () => {
  it('has its milliseconds, bytes, rate and clock', () => {
    expect(describeSpan(stage, drawn)).toMatchObject({
      where: 'D · host',
      took: '4 ms',
      moved: '2 MB, 500 MB/s',
      clock: 'host clock',
    });
  });

  it('names engines that are not drawn by letter and number, after those that are', () => {
    const others = { prefill: 'prefill-1', decode: 'decode-1' };
    const where = (place: object) => describeSpan({ ...stage, ...place }, others).where;
    expect(where(onGpu('decode-0'))).toBe('D0 · GPU');
    expect(where(onHost('prefill-2'))).toBe('P2 · host');
    expect(where(onLink({ from: 'decode-0', to: 'prefill-1' }))).toBe('D0 → P1');
    const spans = ['decode-0', 'decode-1'].map((engineId) => ({ ...stage, ...onHost(engineId) }));
    const sums = sumStages(spans, { startMs: 0, endMs: 9 }, others);
    expect(sums.map((sum) => sum.where)).toEqual(['D · host', 'D0 · host']);
  });

  it('marks a modelled time as not measured', () => {
    expect(spanInWords({ ...stage, clock: 'modelled' }, drawn)).toContain('modelled, not measured');
  });

  it('is summed over a turn by lane, stage and clock', () => {
    const state = fixtureState(turn1);
    const sums = sumStages(state.spans.value, state.turns.value[0]!, drawnIds(state));
    expect(sums.find(({ where, name }) => where === 'D · GPU' && name === 'decode')).toMatchObject({
      count: 64,
    });
    expect(sums.find(({ name }) => name === 'upload')).toMatchObject({ bytes: 49_152, ms: 3 });
  });
});
