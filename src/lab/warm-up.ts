/** What happens for the first time takes longer: code is not compiled yet, memory not touched. */
import type { Cluster } from '../fleet/types.ts';
import { makeConversations } from '../workload/random-conversations.ts';
import { type DriveOptions, driveMode } from './drive.ts';

/** In tokens. */
const SIZES = { turns: 4, systemTokens: 0, userTokens: 32, outputTokens: 2 };

/**
 * Serves short conversations, one for each pair of P and D, in which KV goes both ways. Nothing of them is reported: without
 * them the first of several compared modes would pay for what happens only once. Afterwards the settings are as before, and
 * caches are empty. Not done where a fault is injected, or where a store's lower tiers would keep the KV.
 */
export async function warmUp(
  cluster: Cluster,
  { signal, now, onTurn }: Pick<DriveOptions, 'signal' | 'now' | 'onTurn'>,
): Promise<void> {
  const { mode, connector, prefill, fault, store } = cluster.settings;
  if (fault || store?.folder || store?.server) return;
  const { engines, model } = cluster.info;
  const of = (role: string) => engines.filter((engine) => engine.role === role).length;
  const conversations = Math.max(of('prefill'), of('decode'));
  await cluster.configure({ recomputeThreshold: 0, prefixCaching: false });
  try {
    await driveMode(
      cluster,
      'bidirectional',
      makeConversations({ ...SIZES, conversations }, model.vocabSize, 0),
      {
        ...{ signal, now, onTurn, sampling: {}, concurrency: 1, keeper: null },
        onToken() {},
      },
    );
  } catch {
    // Refused, as by a roleset for longer prompts; what is broken will end the turns that count.
    signal.throwIfAborted();
  }
  await cluster.configure({
    mode,
    recomputeThreshold: connector.nixl.recomputeThreshold,
    prefixCaching: prefill.enablePrefixCaching,
  });
}
