import { expect, it } from 'vitest';
import type { Fault } from '../../../src/faults/schedule.ts';
import type { EpisodeResult } from '../../../src/lab/faults/episode.ts';
import { Tally } from '../../../src/lab/faults/tally.ts';
import type { ViolationKind } from '../../../src/lab/faults/types.ts';

const fault = (kind: Fault['kind']): Fault => ({
  kind,
  target: 'decode',
  at: { stage: 'streaming', count: 1 },
});

const episode = (faults: readonly Fault[], kinds: readonly ViolationKind[]): EpisodeResult => ({
  faults: faults.map((each) => ({ fault: each, turns: [] })),
  turns: { right: 0, error: 0, left: 0 },
  errors: {},
  found: kinds.map((kind) => ({ kind, detail: `${kind} here` })),
});

it('only violations that fewer faults caused again are reported with those faults', () => {
  const tally = new Tally();
  tally.add(7, episode([fault('flip'), fault('end')], ['wrong tokens', 'blocks held']));
  tally.add(8, episode([fault('slow')], ['wrong tokens']));
  tally.shrunk(7, [1], episode([fault('flip')], ['wrong tokens']));
  const [flip, end, slow] = [
    'bit flipped in the slab (decode), streaming 1',
    'thread ended (decode), streaming 1',
    'engine slow (decode), streaming 1',
  ];
  expect(tally.report(7, 0).violations).toEqual([
    { kind: 'wrong tokens', detail: 'wrong tokens here', seed: 7, picks: [1], faults: [flip] },
    { kind: 'blocks held', detail: 'blocks held here', seed: 7, picks: null, faults: [flip, end] },
    { kind: 'wrong tokens', detail: 'wrong tokens here', seed: 8, picks: null, faults: [slow] },
  ]);
});
