/** GET /fleet, with engines that run in no thread. */
import { Hono } from 'hono';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { FaultBoard } from '../../src/faults/board.ts';
import type { EngineClient } from '../../src/router/engine-client.ts';
import { Admission } from '../../src/server/http/admission.ts';
import type { HttpError } from '../../src/server/http/http-error.ts';
import { mountFleet } from '../../src/server/operator/fleet-route.ts';
import { TestClock } from '../clock.ts';
import { FakeEngine } from '../router/fake-engine.ts';
import { post } from './stub-app.ts';

/** Returns a function that gets the row of the only engine from GET /fleet. */
function fleetOf(engine: FakeEngine, clientOf: (engine: EngineClient) => EngineClient = (one) => one) {
  const cluster = {
    settings: { mode: 'bidirectional', link: null, prefill: {}, decode: {} },
    engines: [engine],
    members: { isLeaving: () => false },
  };
  const app = new Hono();
  const scalings = { autoscale: null, events: [] };
  mountFleet(app, { cluster, ports: { urls: {} }, scalings, clientOf } as never);
  return async () => {
    const { engines } = (await (await app.request('/fleet')).json()) as {
      engines: { state: string; answers: boolean; load: { requests_in_flight: number } }[];
    };
    return engines[0]!;
  };
}

describe('GET /fleet with an engine whose thread is stuck', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it('waits a second, asks the engine only once, and shows what is known without its answer', async () => {
    let answer!: (stats: object) => void;
    const stats = vi.fn(() => new Promise<object>((resolve) => (answer = resolve)));
    const row = fleetOf(Object.assign(new FakeEngine('decode-0', 'decode'), { inspection: { stats } }));
    for (let i = 0; i < 3; i++) {
      const asked = row();
      await vi.advanceTimersByTimeAsync(1000);
      expect(await asked).toMatchObject({
        ...{ state: 'serving', answers: false },
        load: { requests_in_flight: 0, requests_running: null, kv_blocks: null, held_requests: null },
      });
    }
    expect(stats).toHaveBeenCalledTimes(1);
    const state = {
      running: 2,
      waiting: 1,
      waitingForRemote: 1,
      numBlocks: 9,
      usedBlocks: 3,
      heldRequests: 0,
    };
    answer(state);
    await vi.advanceTimersByTimeAsync(0);
    stats.mockResolvedValue(state);
    expect(await row()).toMatchObject({
      answers: true,
      load: { requests_running: 2, requests_waiting: 2, kv_blocks: 8, kv_blocks_used: 3, held_requests: 0 },
    });
  });
});

it('a change that is under way when the server stops is answered', async () => {
  const cluster = { settings: {}, scale: () => new Promise(() => {}) };
  const app = new Hono();
  app.onError((error) => new Response(`${(error as HttpError).status} ${error.message}`));
  const admission = new Admission(1, 0);
  mountFleet(app, { cluster, admission } as never);
  const answer = app.request('/fleet/scale', post({ decode: 1 }));
  await new Promise(setImmediate);
  admission.abortAll('the server is stopping');
  expect(await (await answer).text()).toBe('503 the server is stopping');
});

it('a request that waits for a hanging engine counts as in flight there', async () => {
  const board = new FaultBoard(new TestClock());
  const stats = async () => ({ running: 0, waiting: 0, waitingForRemote: 0, numBlocks: 9 });
  const engine = Object.assign(new FakeEngine('decode-0', 'decode'), { inspection: { stats } });
  const row = fleetOf(engine, board.client);
  const inFlight = async () => (await row()).load.requests_in_flight;

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
