import { expect, it } from 'vitest';
import { Breaking } from '../../../demo/src/session/breaking.ts';
import type { Workbench } from '../../../demo/src/session/workbench.ts';

/** A bench with a D per number in `holds`, a P per item in `emptied` (whether its cache can be emptied), and its notes. */
function broken({ holds = [1], emptied = [true], store = false }) {
  const said: string[] = [];
  /** Whether the page still replays a turn that has ended. */
  let behind = true;
  const engines = [
    ...holds.map((count) => ({ role: 'decode', lab: { expireHolds: async () => count } })),
    ...emptied.map((done) => ({ role: 'prefill', serving: { resetPrefixCache: async () => done } })),
  ];
  const drawn = { engineId: 'decode-0', role: 'decode' };
  const bench = {
    engines: {
      running: { cluster: { engines }, recorder: { poll: async () => {} } },
      kill: async () => expect(behind).toBe(false),
    },
    state: {
      store: { peek: () => (store ? {} : null) },
      engines: { peek: () => new Map([[drawn.engineId, drawn]]) },
      drawn: { decode: { peek: () => drawn } },
      playing: { value: true },
    },
    playback: {
      toNow: () => {
        behind = false;
      },
    },
    get busy() {
      return behind;
    },
    refusesChange: () => false,
    note: (_: string, message: string) => {
      expect(behind).toBe(false);
      said.push(message);
    },
  };
  return { breaking: new Breaking(bench as unknown as Workbench), said };
}

it('expiring holds and evicting on several engines gives one note each', async () => {
  const { breaking, said } = broken({ holds: [0, 1, 2], emptied: [true, true] });
  await breaking.expireHold();
  await breaking.evictPrefill();
  expect(said).toEqual([
    "3 of D's holds ran out. P cannot pull this KV any more and will compute it again.",
    "P's prefix cache is empty. The next turn finds nothing in it.",
  ]);
});

it('with a store, the note on an expired hold says that only the rest is recomputed', async () => {
  const { breaking, said } = broken({ store: true });
  await breaking.expireHold();
  expect(said).toEqual([
    "D's hold ran out. P cannot pull this KV any more and will compute what the store does not have.",
  ]);
});

it('notes say when D holds nothing, and when a P cannot empty its cache', async () => {
  const { breaking, said } = broken({ holds: [0, 0], emptied: [true, false] });
  await breaking.expireHold();
  await breaking.evictPrefill();
  expect(said).toEqual([
    'D holds nothing for P.',
    'P cannot empty its cache while blocks are in use: wait until the turn ends.',
  ]);
});

it('killing an engine is shown at once, even during the replay of a finished turn', async () => {
  const { breaking, said } = broken({});
  await breaking.kill('decode');
  expect(said).toEqual([
    'D was stopped without telling the others. No D is left. The next question restarts it first.',
  ]);
});
