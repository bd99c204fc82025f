import { expect, it } from 'vitest';
import { atRouter, laneName, onGpu, onHost, onLink } from '../../src/measure/spans.ts';
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

function lanesOf(engines: Parameters<typeof timelineSection>[1]): string[] {
  const spans = PLACES.map((place) => ({
    name: 'wait',
    lane: laneName(place),
    group: 'pull',
    start_ms: 0,
    end_ms: 1,
    clock: 'host' as const,
    bytes: null,
  }));
  const timeline = { mode: 'bidirectional', conversation_id: 'c', turn: 2, ttft_ms: 1, spans, left_out: 0 };
  const [piece] = timelineSection(timeline, engines).pieces;
  return piece?.kind === 'timeline' ? piece.lanes.map(({ name }) => name) : [];
}

it('draws P above the links above D, whatever they are called, and lanes of others last', () => {
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

it('calls engines by their ids where a role has several', () => {
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
