import { expect, test } from 'vitest';
import type { ClusterNotice } from '../../src/fleet/notices.ts';
import { ScalingLog } from '../../src/server/operator/scaling-log.ts';

function logged() {
  const listeners: ((notice: ClusterNotice) => void)[] = [];
  const cluster = {
    onNotice(listener: (notice: ClusterNotice) => void) {
      listeners.push(listener);
      return () => {};
    },
  };
  const lines: string[] = [];
  const log = { note: (line: string) => void lines.push(line), error() {}, access() {}, ended() {} };
  const scalings = new ScalingLog(cluster, null, log);
  const tell = (notice: ClusterNotice): void => {
    for (const listener of listeners) listener(notice);
  };
  return { scalings, lines, tell };
}

test('the scaling log keeps the newest events', () => {
  const { scalings, tell } = logged();
  for (let i = 0; i < 40; i++)
    tell({
      ...{ kind: 'joined', name: `decode-${i}`, engineId: `decode-${i}`, role: 'decode' },
      ...{ startMs: 1, loadMs: 0, compileMs: 0 },
    });
  const names = scalings.events.map((event) => (event as { name: string }).name);
  expect(names).toEqual(Array.from({ length: 32 }, (_, i) => `decode-${i + 8}`));
});

test.each([
  [null, 'decode-0 left the fleet after 5 ms; KV of 30 tokens that it held is lost'],
  [
    'the device was lost',
    'decode-0 left the fleet after 5 ms, since it ended: the device was lost; KV of 30 tokens that it held is lost',
  ],
])('the log says why an engine that left ended before: %s', (ended, line) => {
  const { scalings, lines, tell } = logged();
  tell({
    ...{ kind: 'left', name: 'decode-0', engineId: 'decode-0', role: 'decode', ms: 5, ended },
    ...{ migrated: { holds: 0, tokens: 0 }, lost: { holds: 1, tokens: 30 } },
  });
  expect(lines).toEqual([line]);
  expect(scalings.events).toMatchObject([{ event: 'left', ended }]);
});
