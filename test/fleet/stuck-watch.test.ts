/** An engine whose thread owes something is looked after while it says nothing: one that is stuck keeps nobody for ever. */
import { expect, it } from 'vitest';
import { DEFAULT_SAMPLING } from '../../src/engine/sampling.ts';
import type { RequestOutput } from '../../src/engine/types.ts';
import { STUCK_MS } from '../../src/fleet/stuck-watch.ts';
import { ThreadEngine } from '../../src/fleet/thread-engine.ts';
import type { EngineStart, EngineStarted, ServingApi } from '../../src/host/engine-api.ts';
import type { EngineEvent } from '../../src/host/engine-report.ts';
import { expose } from '../../src/host/rpc.ts';
import type { Platform } from '../../src/platform/types.ts';
import { inNoTime, TestClock } from '../clock.ts';

/** An engine's thread without an engine, which is `stuck` when the test says so. */
async function world() {
  const clock = new TestClock();
  const { port1, port2 } = new MessageChannel();
  const thread = { stuck: false, asked: 0, abandoned: 0 };
  let tell: (event: EngineEvent) => void;
  const unlessStuck = () => (thread.stuck ? new Promise<void>(() => {}) : Promise.resolve());
  const serving: Partial<ServingApi> = {
    start: async (_, events) => {
      tell = (event) => events.postMessage(event);
      return {} as EngineStarted;
    },
    addRequest: unlessStuck,
    abortRequest: unlessStuck,
    releaseHolds: () => {
      thread.asked++;
      return unlessStuck();
    },
  };
  const inspection = { lookup: () => unlessStuck() };
  expose({ serving, inspection }, port2);
  const abandon = () => {
    thread.abandoned++;
    port1.close();
  };
  const platform = { startEngineThread: async () => ({ port: port1, onExit() {}, abandon }) };
  const engine = await ThreadEngine.start(
    platform as Partial<Platform> as Platform,
    { core: { engineId: 'decode-0', host: 'h', port: 1 } } as EngineStart,
    { name: 'decode-0', role: 'decode', roleset: 'all', combined: false },
    clock,
  );
  const submit = (requestId: string) =>
    engine.submit({
      ...{ requestId, promptTokenIds: [1], sampling: DEFAULT_SAMPLING },
      ...{ kvTransferParams: null, cacheSalt: null },
    });
  const output = (requestId: string, ends: boolean): EngineEvent => ({
    kind: 'outputs',
    outputs: [{ requestId, tokens: [], finish: ends ? {} : null } as unknown as RequestOutput],
    atMs: 1,
  });
  return { clock, engine, thread, submit, tell: (event: EngineEvent) => tell(event), output };
}

const stuck = `engine decode-0 ended: its thread did not answer for ${STUCK_MS / 1000} s`;

it('stuck while it owes an answer, its readers are told, and its thread is given up', async () => {
  const { clock, engine, thread, submit } = await world();
  const outputs = (await submit('a'))[Symbol.asyncIterator]();
  thread.stuck = true;
  await expect(inNoTime(clock, outputs.next())).rejects.toThrow(stuck);
  expect([engine.ended?.message, thread.abandoned]).toEqual([stuck, 1]);
  expect(engine.load.inFlight).toBe(0);
});

it('stuck before it takes a request, or says what it has, nobody waits for ever', async () => {
  for (const asks of ['submit', 'lookup'] as const) {
    const { clock, engine, thread, submit } = await world();
    thread.stuck = true;
    const asked: Promise<unknown> = asks === 'submit' ? submit('a') : engine.lookup([1], null);
    await expect(inNoTime(clock, asked)).rejects.toThrow(stuck);
    expect(thread.abandoned).toBe(1);
  }
});

it('at work for long without a word it is left alone, for it answers', async () => {
  const { clock, thread, submit, tell, output } = await world();
  const outputs = (await submit('long'))[Symbol.asyncIterator]();
  const next = outputs.next();
  await inNoTime(clock, expect.poll(() => thread.asked).toBeGreaterThan(5));
  tell(output('long', true));
  await expect(next).resolves.toMatchObject({ value: { atMs: 1 } });
  expect(thread.abandoned).toBe(0);
});

it('is asked nothing while it owes nothing', async () => {
  const { clock, engine, thread, submit, tell, output } = await world();
  const outputs = (await submit('short'))[Symbol.asyncIterator]();
  tell(output('short', true));
  await outputs.next();
  await submit('left');
  await engine.abort('left');
  await inNoTime(clock, clock.sleep(10 * STUCK_MS));
  expect([thread.asked, thread.abandoned]).toEqual([0, 0]);
});
