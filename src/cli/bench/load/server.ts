/** `kvferry serve` in its own process, whose parent can inject faults into its engines. For bench:serve. */
import { FaultyClient } from '../../../faults/client.ts';
import { isMessageFault } from '../../../faults/messages.ts';
import type { FaultKind } from '../../../faults/schedule.ts';
import { FaultyWires } from '../../../faults/wire.ts';
import type { EngineCluster } from '../../../fleet/cluster.ts';
import { systemClock } from '../../../platform/clock.ts';
import { startTextThread } from '../../../platform/node/threads.ts';
import type { EngineRole } from '../../../router/engine-client.ts';
import { startServer } from '../../../server/serve.ts';
import { main } from '../../app.ts';
import { nodeDeps } from '../../node/node-deps.ts';

/** Milliseconds; long compared with a step, short compared with a client's timeout. */
const LATE_MS = 100;
const HANG_MS = 500;
const SLOW_MS = 2000;
/** Time that a lost message costs. */
const SILENCE_MS = 2000;

/** Messages from the parent. */
export interface Strike {
  kind: FaultKind;
  target: EngineRole;
}

const wires = new FaultyWires();
const clients = new Map<string, FaultyClient>();
let running: EngineCluster | null = null;

async function strike({ kind, target }: Strike): Promise<void> {
  const engine = running?.engine(target);
  if (!engine || engine.ended) return;
  const client = clients.get(engine.engineId);
  if (isMessageFault(kind)) {
    wires.arm(engine.engineId, kind, () => {
      if (kind === 'delay' || kind === 'reorder') setTimeout(() => wires.deliverLate(), LATE_MS);
    });
  } else if (kind === 'lose-device') await engine.lab.loseDevice();
  else if (kind === 'out-of-memory') await engine.lab.exhaustDevice();
  else if (kind === 'end') await engine.shutdown();
  else if (kind === 'expire') await engine.lab.expireHolds(target);
  else if (kind === 'hang' || kind === 'slow') {
    if (kind === 'hang') client?.hang();
    else client?.slow();
    await systemClock.sleep(kind === 'hang' ? HANG_MS : SLOW_MS);
    client?.heal();
  }
}

process.on('message', (message: unknown) => {
  // Engines are expected to end during this.
  if (typeof message === 'object' && message !== null) void strike(message as Strike).catch(() => {});
});
process.channel?.unref();

const deps = await nodeDeps();
const { backend, servers } = deps;
process.exitCode = await main(process.argv.slice(2), {
  ...deps,
  servers: {
    ...servers,
    async start(options, server, prepare) {
      running = (await backend.startCluster(
        { ...options, silenceMs: SILENCE_MS, checksum: true },
        {
          wire: wires.wire,
          client(engine) {
            const client = new FaultyClient(engine, systemClock);
            clients.set(engine.engineId, client);
            return client;
          },
        },
      )) as EngineCluster;
      await prepare(running);
      return startServer(running, server, startTextThread);
    },
  },
});
