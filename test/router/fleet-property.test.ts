/** Whatever fleet, placement, mode, routing and fate: the router over engines without a GPU gives one engine's tokens. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { conversation, serveAll, settings } from './policy-fleet.ts';

const conversations = fc.array(conversation, { minLength: 1, maxLength: 3 });

it('every turn ends with the tokens of one engine alone, from engines of one roleset, and nothing stays held', async () => {
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
    // One seed: what the counts below ask for does not depend on luck.
    { numRuns: 1000, seed: 20261122 },
  );
  // The cases must reach what they are for.
  for (const [what, count] of Object.entries(seen)) expect(count, what).toBeGreaterThan(0);
});
