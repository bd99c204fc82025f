import { expect, it } from 'vitest';
import { atRouter, laneName, onGpu, onHost, onLink } from '../../src/measure/spans/spans.ts';
import { timelineSection } from '../../src/report/timeline.ts';

const engine = (engine_id: string, role: 'prefill' | 'decode') => ({
  engine_id,
  role,
  num_blocks: 8,
  load_ms: 1,
  compile_ms: 1,
  pipelines: 1,
});

const PLACES = [
  onGpu('y'),
  onLink({ from: 'x', to: 'y' }),
  onHost('gone'),
  onHost('y'),
  onHost('x'),
  onLink({ from: 'y', to: 'x' }),
  onGpu('x'),
  atRouter,
];

function lanesOf(engines: Parameters<typeof timelineSection>[1], places = PLACES): string[] {
  const spans = places.map((place) => ({
    name: 'wait',
    lane: laneName(place),
    group: 'pull',
    start_ms: 0,
    end_ms: 1,
    clock: 'host' as const,
    bytes: null,
  }));
  const timeline = { mode: 'bidirectional', conversation_id: 'c', turn: 2, ttft_ms: 1, spans, left_out: 0 };
  const [piece] = timelineSection(timeline, engines, false).pieces;
  return piece?.kind === 'timeline' ? piece.lanes.map(({ name }) => name) : [];
}

it('the timeline has P above the links above D, whatever their ids, and other lanes last', () => {
  expect(lanesOf([engine('x', 'prefill'), engine('y', 'decode')])).toEqual([
    'router',
    'P gpu',
    'P host',
    'link D→P',
    'link P→D',
    'D gpu',
    'D host',
    'gone host',
  ]);
});

it("the timeline names a store's links like those between engines, and puts them next to those", () => {
  const places = [onLink({ from: 'x', to: 'store' }), onLink({ from: 'store', to: 'y' }), ...PLACES];
  expect(lanesOf([engine('x', 'prefill'), engine('y', 'decode')], places)).toEqual([
    ...['router', 'P gpu', 'P host'],
    ...['link D→P', 'link P→D', 'link P→store', 'link store→D'],
    ...['D gpu', 'D host', 'gone host'],
  ]);
});

it('the timeline says that its turn pulled the most, or that it is the last since none pulled, and names its conversation among several', () => {
  const introOf = (group: string, several = false) => {
    const span = { name: 'forward', lane: 'x host', group, start_ms: 0, end_ms: 1, clock: 'host' as const };
    const turn = { mode: 'some', conversation_id: 'c', turn: 2, ttft_ms: 1, left_out: 0 };
    return timelineSection({ ...turn, spans: [{ ...span, bytes: null }] }, [], several).intro;
  };
  expect(introOf('pull')).toContain('Turn 2 in some, the one that pulled the most:');
  expect(introOf('pull', true)).toContain('Turn 2 of c in some, the one that pulled the most:');
  expect(introOf('prefill')).toContain('Turn 2 in some, the last one, because none pulled KV back:');
});

it('the timeline names engines by id if a role has several', () => {
  const engines = [engine('x', 'prefill'), engine('gone', 'prefill'), engine('y', 'decode')];
  expect(lanesOf(engines)).toEqual([
    'router',
    'x gpu',
    'x host',
    'gone host',
    'link D→x',
    'link x→D',
    'D gpu',
    'D host',
  ]);
});

it('the timeline says how modelled bars are drawn, if there are any, and how many spans are omitted', () => {
  const noteOf = (clock: 'host' | 'modelled', left_out: number) => {
    const times = { start_ms: 0, end_ms: 1, bytes: null };
    const span = { name: 'link', lane: 'link x>y', group: 'handover', clock, ...times } as const;
    const turn = { mode: 'bidirectional', conversation_id: 'c', turn: 2, ttft_ms: 1 };
    const [piece] = timelineSection({ ...turn, spans: [span], left_out }, [], false).pieces;
    return piece?.kind === 'timeline' ? piece.note : null;
  };
  const modelled = 'Pale bars with a dashed edge are modelled, not measured.';
  expect(noteOf('host', 0)).toBeUndefined();
  expect(noteOf('modelled', 0)).toBe(modelled);
  expect(noteOf('modelled', 2)).toBe(`${modelled} 2 shorter spans omitted.`);
});

it('the timeline says why its turn was chosen: it pulled or loaded the most, or is the last one', () => {
  const chosen = (group: string, pulled_tokens?: number) => {
    const span = { name: 'transfer', lane: 'router', group, start_ms: 0, end_ms: 1, clock: 'host' as const };
    const timeline = { mode: 'm', conversation_id: 'c', turn: 2, ttft_ms: 1, left_out: 0 };
    const spans = [{ ...span, bytes: 64 }];
    return timelineSection(
      { ...timeline, spans, ...(pulled_tokens === undefined ? {} : { pulled_tokens }) },
      [],
      false,
    ).intro;
  };
  expect(chosen('pull', 64)).toContain('the one that pulled the most');
  expect(chosen('load', 64)).toContain('the one that loaded the most from the store');
  expect(chosen('load', 0)).toContain('the last one, because none pulled KV back');
  expect(chosen('pull')).toContain('the one that pulled the most');
  expect(chosen('handover')).toContain('the last one, because none pulled KV back');
});
