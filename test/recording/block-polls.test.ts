/** Polls of a cluster that answers at once. */
import { expect, it } from 'vitest';
import type { Cluster } from '../../src/fleet/types.ts';
import { BlockPolls } from '../../src/recording/block-polls.ts';
import { BlockViews } from '../../src/recording/block-views.ts';

it('a poll looks at the engines after it was requested, however far another one has come', async () => {
  for (let steps = 0; steps < 12; steps++) {
    let looks = 0;
    const cluster = {
      settings: { store: null },
      snapshot: async () => {
        looks++;
        return [];
      },
    } as unknown as Cluster;
    const clock = { now: () => 0, sleep: async () => {} };
    const views = new BlockViews(16, () => '');
    const polls = new BlockPolls(cluster, () => {}, clock, 0, views);
    const first = polls.poll();
    for (let step = 0; step < steps; step++) await null;
    const before = looks;
    await polls.poll();
    expect(looks, `requested after ${steps} steps of the first poll`).toBe(before + 1);
    await first;
  }
});
