import { describe, expect, it } from 'vitest';
import { fastestOf } from '../../src/model/autotune.ts';
import { defaultChoice, GEMM_FORMS, gemmCandidates, ROW_CLASSES } from '../../src/model/gemm-forms.ts';
import { adapterForm } from '../../src/model/kernel-variants.ts';

/** A clock that only runs move, by as many milliseconds as they take. */
function runsOf(times: readonly (readonly number[])[]) {
  let now = 0;
  const turns = times.map(() => 0);
  const runs = times.map((ms, i) => async () => {
    const took = ms[Math.min(turns[i]!++, ms.length - 1)]!;
    now += took;
    return took;
  });
  return { runs, clock: { now: () => now }, turns };
}

describe('autotune', () => {
  it('takes the fastest by the median, without the first run, which compiles', async () => {
    const { runs, clock } = runsOf([
      [1, 10],
      [900, 5, 5, 40, 5],
      [1, 8],
    ]);
    expect(await fastestOf(runs, clock)).toBe(1);
  });

  it('stays with the first unless another is clearly faster', async () => {
    const { runs, clock } = runsOf([[10], [9.7]]);
    expect(await fastestOf(runs, clock)).toBe(0);
  });

  it('ends soon after its time, however slow the adapter is', async () => {
    const { runs, clock, turns } = runsOf([[1000], [1000], [1000]]);
    await fastestOf(runs, clock);
    expect(turns).toEqual([4, 4, 4]);
  });

  it('measures only forms that there are, those that an adapter takes unmeasured first', () => {
    for (const lanes of [null, 4, 8, 32, 64]) {
      const form = adapterForm(lanes, false);
      const candidates = gemmCandidates(form);
      for (const rows of ROW_CLASSES) {
        expect(GEMM_FORMS).toEqual(expect.arrayContaining([...candidates[rows]]));
        expect(defaultChoice(form)[rows]).toBe(candidates[rows][0]);
      }
    }
  });
});
