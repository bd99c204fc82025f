import { expect, it } from 'vitest';
import { Breaking } from '../../../demo/src/session/breaking.ts';
import type { Workbench } from '../../../demo/src/session/workbench.ts';

/** On engines of which each D holds so much for P, and each P can be emptied or not; and what was said. */
function broken({ holds = [1], emptied = [true], store = false }) {
  const said: string[] = [];
  const engines = [
    ...holds.map((count) => ({ role: 'decode', lab: { expireHolds: async () => count } })),
    ...emptied.map((done) => ({ role: 'prefill', serving: { resetPrefixCache: async () => done } })),
  ];
  const bench = {
    engines: { running: { cluster: { engines }, recorder: { poll: async () => {} } } },
    state: { store: { peek: () => (store ? {} : null) } },
    refusesChange: () => false,
    note: (_: string, message: string) => said.push(message),
  };
  return { breaking: new Breaking(bench as unknown as Workbench), said };
}

it('of several engines it is said once what was done to them', async () => {
  const { breaking, said } = broken({ holds: [0, 1, 2], emptied: [true, true] });
  await breaking.expireHold();
  await breaking.evictPrefill();
  expect(said).toEqual([
    "3 of D's holds ran out: what P would pull is gone, and P will compute.",
    "P's prefix cache is empty: the next turn finds nothing there.",
  ]);
});

it('with a store P need not compute all that D held', async () => {
  const { breaking, said } = broken({ store: true });
  await breaking.expireHold();
  expect(said).toEqual([
    "D's hold ran out: what P would pull is gone, and P will compute what the store does not have.",
  ]);
});

it('says where there is nothing to run out, and where one P keeps what it has', async () => {
  const { breaking, said } = broken({ holds: [0, 0], emptied: [true, false] });
  await breaking.expireHold();
  await breaking.evictPrefill();
  expect(said).toEqual([
    'D holds nothing for P now.',
    'P keeps its cache while blocks are in use: let the turn end first.',
  ]);
});
