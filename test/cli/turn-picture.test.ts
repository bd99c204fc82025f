import { expect, it } from 'vitest';
import { turnPicture } from '../../src/cli/output/turn-picture.ts';
import type { Report } from '../../src/measure/schemas/report.ts';
import { turnReport } from '../measure/turns.ts';

const pulled = turnReport({
  turn: 2,
  prompt_tokens: 100,
  pulled_tokens: 90,
  ttft_ms: 26,
  stages_ms: {
    pull_wait: 2,
    pull_readback: 3,
    prefill: 9,
    sampling_p: 1,
    hand_over_upload: 1,
    first_decode_step: 10,
  },
});
const computed = turnReport({
  turn: 2,
  prompt_tokens: 100,
  ttft_ms: 52,
  stages_ms: { prefill: 40, hand_over_scatter: 2, first_decode_step: 9, sampling_d: 0.5, other: 0.5 },
});
const summary = {};
const runs = [
  { mode: 'unidirectional', turns: [turnReport(), computed], summary },
  { mode: 'bidirectional', turns: [turnReport(), pulled], summary },
];

it('the picture shows the turn that pulled the most in every mode, with bars to scale', () => {
  const [title, recompute, pull, legend] = turnPicture({ runs } as unknown as Report);
  expect(title).toBe('turn 2 (100 prompt tokens): time to the first token by stage');
  expect(recompute).toBe(`unidirectional  ${'█'.repeat(40)}░░${'▓'.repeat(10)}     52.0 ms`);
  expect(pull).toBe(
    `bidirectional   ${'▒'.repeat(5)}${'█'.repeat(10)}░${'▓'.repeat(10)}${' '.repeat(26)}     26.0 ms`,
  );
  expect(legend).toContain('▒ pull D→P');
  for (const line of [title, recompute, pull, legend]) expect(line!.length).toBeLessThanOrEqual(80);
});

it('the picture names the conversation if there are several', () => {
  const other = { ...computed, conversation_id: 'b' };
  const several = runs.map((run) => ({ ...run, turns: [...run.turns, other] }));
  const [title] = turnPicture({ runs: several } as unknown as Report);
  expect(title).toMatch(`turn 2 of ${pulled.conversation_id} (100 prompt tokens): `);
});

it('there is no picture if nothing was pulled', () => {
  expect(turnPicture({ runs: runs.slice(0, 1) } as unknown as Report)).toEqual([]);
});

it('the picture does not label loads from a store as pulled from D', () => {
  const stored = runs.map((run) => ({ ...run, summary: { bytes_from_store: 0 } }));
  const legend = turnPicture({ runs: stored } as unknown as Report).at(-1)!;
  expect(legend).toContain('▒ load, pull  █');
  expect(legend.length).toBeLessThanOrEqual(80);
});
