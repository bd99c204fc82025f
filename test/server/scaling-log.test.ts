import { expect, test } from 'vitest';
import type { ClusterNotice } from '../../src/fleet/notices.ts';
import { ScalingLog } from '../../src/server/operator/scaling-log.ts';

test('the scaling log keeps the newest events', () => {
  const listeners: ((notice: ClusterNotice) => void)[] = [];
  const cluster = {
    onNotice(listener: (notice: ClusterNotice) => void) {
      listeners.push(listener);
      return () => {};
    },
  };
  const log = { note() {}, error() {}, access() {}, ended() {} };
  const scalings = new ScalingLog(cluster, null, log);
  for (let i = 0; i < 40; i++)
    for (const tell of listeners)
      tell({
        ...{ kind: 'joined', name: `decode-${i}`, engineId: `decode-${i}`, role: 'decode' },
        ...{ startMs: 1, loadMs: 0, compileMs: 0 },
      });
  const names = scalings.events.map((event) => (event as { name: string }).name);
  expect(names).toEqual(Array.from({ length: 32 }, (_, i) => `decode-${i + 8}`));
});
