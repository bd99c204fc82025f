/**
 * Draws two different engines and takes the one with fewer requests under way; if equal, the first drawn. AIBrix's
 * `power-of-two` (counters shared by all routers) and SGLang's `power_of_two`.
 */
import { z } from 'zod';
import { definePolicy } from './definition.ts';
import { eachRole, oneOf } from './each-role.ts';

export const powerOfTwo = definePolicy({
  help: 'the less busy of two drawn at random',
  source: "AIBrix's power-of-two, SGLang's power_of_two",
  needs: [],
  parameters: z.strictObject({}),
  create: (_, { draws }) =>
    eachRole((engines, _request, draw) => {
      const first = oneOf(engines, draw);
      if (engines.length === 1) return { engine: first, why: 'the only one' };
      const others = engines.filter((engine) => engine !== first);
      const second = oneOf(others, draw);
      const [engine, other] = second.inFlight < first.inFlight ? [second, first] : [first, second];
      return {
        engine,
        why: `${engine.engineId} with ${engine.inFlight} under way, ${other.engineId} has ${other.inFlight}`,
        scores: engines.map((each) => (each === engine || each === other ? each.inFlight : null)),
      };
    }, draws),
});
