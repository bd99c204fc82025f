/** The router on engines without a GPU, with random fleets, placements, modes, routing policies and failures. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { conversation, serveAll, settings } from './policy-fleet.ts';

const conversations = fc.array(conversation, { minLength: 1, maxLength: 3 });

it('every turn gets the tokens of a single engine, replicas keep to their roleset, and no hold is left', async () => {
  const seen = { pulled: 0, moved: 0, deaths: 0, again: 0, combined: 0, fellApart: 0 };
  await fc.assert(
    fc.asyncProperty(conversations, settings, async (talks, s) => {
      const { fleet, pulled } = await serveAll(talks, s);
      const { deaths, again, served } = fleet.counts;
      seen.pulled += pulled;
      seen.deaths += deaths;
      seen.again += again;
      seen.combined += [...served].filter((id) => id.startsWith('both')).length;
      seen.moved += fleet.net.blocksMoved;
      seen.fellApart += fleet.alive.length < fleet.nodes.length ? 1 : 0;
    }),
    // A fixed seed, so that reaching the counts below does not depend on luck.
    { numRuns: 1000, seed: 20261122 },
  );
  // The runs must reach every one of these cases.
  for (const [what, count] of Object.entries(seen)) expect(count, what).toBeGreaterThan(0);
});
