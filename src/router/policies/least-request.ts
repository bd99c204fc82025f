/**
 * The engine with the fewest requests under way, as this router counts them; ties are broken at random. AIBrix's
 * `least-request`.
 */
import { z } from 'zod';
import type { EngineView } from '../plan.ts';
import { definePolicy } from './definition.ts';
import { type Choice, eachRole, leastBy, oneOf } from './each-role.ts';

export const leastRequest = definePolicy({
  help: 'the fewest requests under way',
  source: "AIBrix's least-request",
  needs: [],
  parameters: z.strictObject({}),
  create: (_, { draws }) =>
    eachRole((engines, _request, draw) => {
      const { engine, why } = fewest(engines, draw);
      return { engine, why, scores: engines.map(({ inFlight }) => inFlight) };
    }, draws),
});

/** The same rule, as a fallback for other policies. */
export function fewest(engines: readonly EngineView[], draw: () => number): Choice {
  const equal = leastBy(engines, ({ inFlight }) => inFlight);
  const engine = oneOf(equal, draw);
  const among = equal.length > 1 ? `, drawn of ${equal.length}` : '';
  return { engine, why: `fewest under way, ${engine.inFlight}${among}` };
}
