/** GET /fleet, of engines that are in no threads. */
import { Hono } from 'hono';
import { expect, it } from 'vitest';
import { FaultBoard } from '../../src/faults/board.ts';
import { mountFleet } from '../../src/server/fleet-route.ts';
import { TestClock } from '../clock.ts';
import { FakeEngine } from '../router/fake-engine.ts';

it('what waits for an engine that hangs is under way there, as it is to the policies', async () => {
  const board = new FaultBoard(new TestClock());
  const stats = async () => ({ running: 0, waiting: 0, waitingForRemote: 0, numBlocks: 9 });
  const engine = Object.assign(new FakeEngine('decode-0', 'decode'), { inspection: { stats } });
  const cluster = {
    settings: { mode: 'bidirectional', link: null, prefill: {}, decode: {} },
    engines: [engine],
    members: { isLeaving: () => false },
  };
  const app = new Hono();
  const [ports, scalings] = [{ urls: {} }, { autoscale: null, events: [] }];
  mountFleet(app, cluster as never, ports as never, scalings as never, board.client);
  const inFlight = async () => {
    const { engines } = (await (await app.request('/fleet')).json()) as {
      engines: { load: { requests_in_flight: number } }[];
    };
    return engines[0]!.load.requests_in_flight;
  };

  await board.add([{ engine: 'decode-0', fault: 'hang', rate: 100, delayMs: 0 }], null);
  const submitted = board.client(engine).submit({
    requestId: 'a',
    promptTokenIds: [1],
    sampling: { maxTokens: 1 } as never,
    kvTransferParams: null,
    cacheSalt: null,
  });
  expect(await inFlight()).toBe(1);
  board.clear();
  for await (const _ of await submitted);
  await expect.poll(inFlight).toBe(0);
});
