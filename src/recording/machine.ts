/** What a cluster runs on, for events: adapter, model, engines, link. */
import type { Cluster } from '../fleet/types.ts';
import type { Machine } from './events.ts';

export function machineOf({ info, settings }: Pick<Cluster, 'info' | 'settings'>): Machine {
  const { adapter, model, engines, startMs, link } = info;
  const { name, backend, software } = adapter;
  const { parameters, maxModelLen, kvBytesPerToken, blockBytes, vocabSize } = model;
  return {
    adapter: { name, backend, software },
    model: { name: model.name, parameters, maxModelLen, kvBytesPerToken, blockBytes, vocabSize },
    blockSize: settings.blockSize,
    engines: engines.map(({ engineId, role, numBlocks, loadMs, compileMs, memory }) => {
      return { engineId, role, numBlocks, loadMs, compileMs, memory: { ...memory } };
    }),
    startMs,
    link: link && { name: link.name, bytesPerSecond: link.bytesPerSecond, latencyMs: link.latencyMs },
  };
}
