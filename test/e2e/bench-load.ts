/** The workload of benchmark tests on real engines: three conversations of three turns, sent by two clients. */
import { generateConversations, parseGenerator } from '../../src/workload/generate.ts';
import { clientOptions } from '../lab/multiturn/client-options.ts';
import { generator } from '../workload/generator.ts';

const spec = generator({
  conversations: 3,
  turns: 6,
  common: 16,
  prefix: [40, 90],
  input: [6, 12],
  output: [18, 24],
});
const tokens = { kind: 'drawn', lowest: 8, highest: 511 } as const;

export const conversations = generateConversations(parseGenerator(spec, 'spec'), {
  scale: 1,
  seed: 5,
  tokens,
});
export const options = clientOptions({ numClients: 2, maxActive: 3, seed: 5, now: () => performance.now() });
