/**
 * Any engine of the role, with equal probability: AIBrix's and SGLang's `random`. Considers neither prompts nor load.
 */
import { z } from 'zod';
import { definePolicy } from './definition.ts';
import { eachRole, oneOf } from './each-role.ts';

export const random = definePolicy({
  help: 'any engine, with equal probability',
  source: "AIBrix's and SGLang's random",
  needs: [],
  parameters: z.strictObject({}),
  create: (_, { draws }) =>
    eachRole((engines, _request, draw) => ({ engine: oneOf(engines, draw), why: 'drawn' }), draws),
});
