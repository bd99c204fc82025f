import { afterEach, expect, test, vi } from 'vitest';
import type { EngineCluster } from '../../src/fleet/cluster.ts';
import { keepAlive } from '../../src/server/keep-alive.ts';

/** A cluster whose decode-1 dies when a test calls `end`. */
function world() {
  const engines = ['prefill-0', 'decode-0', 'decode-1'].map((name) => ({
    name,
    engineId: name,
    dead: false,
    ended: null as Error | null,
  }));
  type Told =
    | { kind: 'dead'; engineId: string; message: string }
    | { kind: 'alive'; engineId: string; replaces: string | null };
  let tell: (notice: Told) => void = () => {};
  const cluster = {
    engines,
    onNotice(listener: typeof tell) {
      tell = listener;
      return () => {};
    },
    async revive() {
      const dead = engines.filter((engine) => engine.dead);
      for (const engine of dead) {
        const replaces = engine.engineId;
        Object.assign(engine, { dead: false, engineId: `${engine.name}.2` });
        tell({ kind: 'alive', engineId: engine.engineId, replaces });
      }
      return dead.length;
    },
  };
  const lines: string[] = [];
  const write = (line: string): void => void lines.push(line);
  const log = { note: write, error: write, access() {}, ended() {} };
  return {
    lines,
    cluster,
    keep: () => keepAlive(cluster as unknown as EngineCluster, log),
    end(message: string): void {
      Object.assign(engines[2]!, { dead: true, ended: new Error(message) });
      tell({ kind: 'dead', engineId: 'decode-1', message });
    },
  };
}

test.each(['while it serves', 'before anyone listens'])(
  'the log names an engine that died %s, and the one that replaced it',
  async (when) => {
    const { lines, keep, end } = world();
    if (when === 'before anyone listens') end('the device was lost');
    const kept = keep();
    if (when === 'while it serves') end('the device was lost');
    await expect.poll(() => lines).toHaveLength(2);
    await kept.stop();
    expect(lines).toEqual([
      'decode-1: the device was lost; restarting it',
      'decode-1 was restarted as decode-1.2, with an empty cache',
    ]);
  },
);

afterEach(() => {
  vi.useRealTimers();
});

test.each([
  { why: 'that end again at once', ends: true, times: [200, 400, 600, 800, 1000] },
  { why: 'that cannot be started', ends: false, times: [200, 600, 1400, 3000, 6200] },
])('engines $why are restarted after $times ms', async ({ ends, times }) => {
  vi.useFakeTimers({ now: 0 });
  const { cluster, keep, end } = world();
  const tried: number[] = [];
  cluster.revive = async () => {
    tried.push(Date.now());
    if (!ends) throw new Error('no memory');
    return 1;
  };
  const kept = keep();
  end('the device was lost');
  await vi.advanceTimersByTimeAsync(times.at(-1)!);
  await kept.stop();
  expect(tried).toEqual(times);
});

test('an engine that was restarted is in the log before the others are', async () => {
  const { lines, cluster, keep, end } = world();
  const { revive } = cluster;
  let finish = () => {};
  cluster.revive = async () => {
    await revive();
    await new Promise<void>((resolve) => {
      finish = resolve;
    });
    return 1;
  };
  const kept = keep();
  end('the device was lost');
  await expect.poll(() => lines.at(-1)).toBe('decode-1 was restarted as decode-1.2, with an empty cache');
  finish();
  await kept.stop();
});
