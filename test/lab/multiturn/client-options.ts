/** One client that serves a workload unchanged, a conversation at a time, without gaps, limits or warm-up. */
import type { ClientOptions } from '../../../src/lab/multiturn/clients.ts';

export const clientOptions = (change: Partial<ClientOptions> = {}): ClientOptions => ({
  round: 1,
  numClients: 1,
  maxActive: 1,
  maxRequests: null,
  maxTurns: null,
  requestRate: 0,
  pick: 'round_robin',
  warmupStep: false,
  auditor: null,
  earlyStop: false,
  limitTokens: { min: 0, max: 0 },
  seed: 0,
  signal: new AbortController().signal,
  now: () => 0,
  sleep: async () => {},
  onRequest: () => {},
  ...change,
});
