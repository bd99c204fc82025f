/** P and D in turn, each role separately: vLLM's disagg_proxy_multiturn.py. Considers neither prompts nor load. */
import { z } from 'zod';
import { definePolicy } from './definition.ts';

export const roundRobin = definePolicy({
  help: 'each role in turn',
  source: "vLLM's disagg_proxy_multiturn.py",
  needs: [],
  parameters: z.strictObject({}),
  create: () => ({
    route: ({ number }, { prefill, decode }) => ({
      prefill: prefill[number % prefill.length]!,
      decode: decode[number % decode.length]!,
      why: `round robin, turn ${number}`,
    }),
  }),
});
