/** Small watched fleets for tests. */
import type { LiveSettings } from '../../../src/simulate/live/settings.ts';

export const nextTask = (run: () => void): void => void setImmediate(run);

export const settings = (change: Partial<LiveSettings> = {}): LiveSettings => ({
  prefill: 2,
  decode: 2,
  blocks: 128,
  store: null,
  mode: 'bidirectional',
  routing: 'round-robin',
  autoscale: null,
  mostEngines: 4,
  startMs: 500,
  seed: 1,
  load: { rate: 10, turns: 2, question: 100, answer: 16, system: 128, thinkMs: 100 },
  costs: 'dynamo-mocker',
  kvBytesPerToken: null,
  ...change,
});
