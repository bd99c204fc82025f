import { expect, it } from 'vitest';
import { drawnTimes } from '../../src/simulate/machine.ts';

const DECODE = { decodes: 1, decodeContext: 0, prefills: 0, prefillTokens: 0, prefillContext: 0 };
const PROMPT = { decodes: 0, decodeContext: 0, prefills: 1, prefillTokens: 8, prefillContext: 28 };

it('steps take what others took that followed each other, on each engine by itself', () => {
  const prompts = [[1], [2]];
  const decodes = [
    [10, 11, 12],
    [20, 21],
  ];
  const engines = drawnTimes(({ prefills }) => (prefills > 0 ? prompts : decodes), 3);
  const [one, other] = [engines(), engines()];
  const drawn: number[] = [];
  for (let step = 0; step < 300; step++) {
    drawn.push(one(DECODE));
    // Whatever else is drawn in between.
    expect([1, 2]).toContain(one(PROMPT));
    other(DECODE);
  }
  expect(new Set(drawn)).toEqual(new Set(decodes.flat()));
  for (const [i, times] of drawn.slice(0, -1).entries()) {
    const after = drawn[i + 1]!;
    if (times === 12 || times === 21) expect([10, 20]).toContain(after);
    else expect(after).toBe(times + 1);
  }
});
