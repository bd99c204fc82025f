import { expect, test } from 'vitest';
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
  let tell: (notice: { kind: 'dead'; engineId: string; message: string }) => void = () => {};
  const cluster = {
    engines,
    onNotice(listener: typeof tell) {
      tell = listener;
      return () => {};
    },
    async revive() {
      const dead = engines.filter((engine) => engine.dead);
      for (const engine of dead) Object.assign(engine, { dead: false, engineId: `${engine.name}.2` });
      return dead.length;
    },
  };
  const lines: string[] = [];
  const write = (line: string): void => void lines.push(line);
  const log = { note: write, error: write, access() {}, ended() {} };
  return {
    lines,
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
