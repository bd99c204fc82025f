/** Ports of engines that join and leave. */
import { expect, test } from 'vitest';
import type { EngineCluster } from '../../src/fleet/cluster.ts';
import type { ClusterNotice } from '../../src/fleet/notices.ts';
import { EnginePorts } from '../../src/server/engine-ports.ts';
import type { ServerLog } from '../../src/server/http/log.ts';

/** Two P and two D. `taken`: port numbers that cannot be opened. */
async function world(prefill: number[], decode: number[]) {
  const engines = ['prefill-0', 'prefill-1', 'decode-0', 'decode-1'].map((name) => ({
    name,
    role: name.startsWith('p') ? 'prefill' : 'decode',
  }));
  let tell: (notice: ClusterNotice) => void = () => {};
  const onNotice = (listener: typeof tell) => {
    tell = listener;
    return () => {};
  };
  const taken = new Set<number>();
  let free = 50_000;
  const open = async (_: string, wanted: number) => {
    const port = wanted === 0 ? free++ : wanted;
    if (taken.has(port)) throw new Error(`port ${port} is taken`);
    taken.add(port);
    return { url: `http://127.0.0.1:${port}`, close: async () => void taken.delete(port) };
  };
  const cluster = { engines, onNotice } as unknown as EngineCluster;
  const log = { note() {}, error() {} } as unknown as ServerLog;
  const ports = await EnginePorts.start(cluster, open, { prefill, decode, router: 0, admin: 0 }, log);
  const happens = async (kind: 'joined' | 'left', name: string) => {
    tell({ kind, name, role: name.startsWith('p') ? 'prefill' : 'decode' } as unknown as ClusterNotice);
    await ports.settled();
  };
  const portOf = (name: string) => Number(new URL(ports.urls[name]!).port);
  return { happens, portOf, taken };
}

test.each([
  ['from which the others count up', [9000], [9100]],
  ['listed one by one', [9007, 9005], [9103, 9101]],
  ['chosen by the system', [0], [0]],
])('an engine that joins again has its port again, with ports %s', async (_, prefill, decode) => {
  const { happens, portOf } = await world(prefill, decode);
  const before = portOf('decode-1');
  await happens('left', 'decode-1');
  await happens('joined', 'decode-1');
  expect(portOf('decode-1')).toBe(before);
});

test('a new engine gets the next port of its role; with a list of ports, or if it is taken, any other', async () => {
  const counted = await world([9000], [9100]);
  await counted.happens('joined', 'decode-2');
  expect(counted.portOf('decode-2')).toBe(9102);
  counted.taken.add(9103);
  await counted.happens('joined', 'decode-3');
  expect(counted.portOf('decode-3')).toBeGreaterThanOrEqual(50_000);
  const listed = await world([9007, 9005], [9103, 9101]);
  await listed.happens('joined', 'decode-2');
  expect(listed.portOf('decode-2')).toBeGreaterThanOrEqual(50_000);
});
