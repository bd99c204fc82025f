/** P and D in turn, each role for itself: vLLM's disagg_proxy_multiturn.py. Knows neither prompts nor load. */
import type { RoutingPolicy } from '../plan.ts';

export const roundRobin: RoutingPolicy = {
  route: ({ number }, { prefill, decode }) => ({
    prefill: prefill[number % prefill.length]!,
    decode: decode[number % decode.length]!,
    why: `round robin, turn ${number}`,
  }),
};
