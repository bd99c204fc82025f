/** Engines without a GPU join, leave and end while turns are served. Turns get a single engine's tokens throughout. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { conversation, type Settings, serveAll, settings } from '../policy-fleet.ts';

const conversations = fc.array(conversation, { minLength: 1, maxLength: 3 });
const scaled = fc.tuple(settings, fc.constantFrom(8, 20, 60));

it('no turn fails while engines join and leave, and holds are migrated or lost as the drain rule says', async () => {
  const seen = { joined: 0, left: 0, refused: 0, migrated: 0, lost: 0, pulled: 0, waited: 0 };
  const quiet = scaled.map(([s, scaleRate]): Settings => ({ ...s, scaleRate, deathRate: 0, failureRate: 0 }));
  await fc.assert(
    fc.asyncProperty(conversations, quiet, async (talks, s) => {
      const { fleet, pulled } = await serveAll(talks, s);
      const { again, joined, refused } = fleet.counts;
      expect(again).toBe(0);
      seen.joined += joined;
      seen.refused += refused;
      seen.pulled += pulled;
      seen.left += fleet.drains.length;
      for (const { ms, migrated, lost } of fleet.drains) {
        if (s.drain.drain !== 'migrate') expect(migrated.holds).toBe(0);
        if (s.drain.drain === 'wait' && ms < s.drain.holdsMs) expect(lost.holds).toBe(0);
        seen.migrated += migrated.tokens;
        seen.lost += lost.tokens;
        seen.waited += ms > 0 ? 1 : 0;
      }
    }),
    { numRuns: 500, seed: 20261123 },
  );
  for (const [what, count] of Object.entries(seen)) expect(count, what).toBeGreaterThan(0);
});

it('every turn gets the right tokens while transfers fail and engines end, even leaving ones', async () => {
  const seen = { joined: 0, left: 0, migrated: 0, lost: 0, deaths: 0, again: 0 };
  await fc.assert(
    fc.asyncProperty(conversations, scaled, async (talks, [s, scaleRate]) => {
      const { fleet } = await serveAll(talks, { ...s, scaleRate });
      const { deaths, again, joined } = fleet.counts;
      seen.joined += joined;
      seen.deaths += deaths;
      seen.again += again;
      seen.left += fleet.drains.length;
      for (const { migrated, lost } of fleet.drains) {
        seen.migrated += migrated.tokens;
        seen.lost += lost.tokens;
      }
    }),
    { numRuns: 500, seed: 20261124 },
  );
  for (const [what, count] of Object.entries(seen)) expect(count, what).toBeGreaterThan(0);
});
