/** An engine's thread that owes an answer and is silent is probed, so that a stuck one blocks nobody for ever. */
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

/** A fake engine thread; the test sets `stuck`. */
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

it('an engine that gets stuck while it owes an answer fails its readers, and its thread is abandoned', async () => {
  const { clock, engine, thread, submit } = await world();
  const outputs = (await submit('a'))[Symbol.asyncIterator]();
  thread.stuck = true;
  await expect(inNoTime(clock, outputs.next())).rejects.toThrow(stuck);
  expect([engine.ended?.message, thread.abandoned]).toEqual([stuck, 1]);
  expect(engine.load.inFlight).toBe(0);
});

it('a request or lookup sent to a stuck engine fails instead of waiting for ever', async () => {
  for (const asks of ['submit', 'lookup'] as const) {
    const { clock, engine, thread, submit } = await world();
    thread.stuck = true;
    const asked: Promise<unknown> = asks === 'submit' ? submit('a') : engine.lookup([1], null);
    await expect(inNoTime(clock, asked)).rejects.toThrow(stuck);
    expect(thread.abandoned).toBe(1);
  }
});

it('an engine that works for long without output is kept as long as it answers probes', async () => {
  const { clock, thread, submit, tell, output } = await world();
  const outputs = (await submit('long'))[Symbol.asyncIterator]();
  const next = outputs.next();
  await inNoTime(clock, expect.poll(() => thread.asked).toBeGreaterThan(5));
  tell(output('long', true));
  await expect(next).resolves.toMatchObject({ value: { atMs: 1 } });
  expect(thread.abandoned).toBe(0);
});

it('an engine that owes no answer is not probed', async () => {
  const { clock, engine, thread, submit, tell, output } = await world();
  const outputs = (await submit('short'))[Symbol.asyncIterator]();
  tell(output('short', true));
  await outputs.next();
  await submit('left');
  await engine.abort('left');
  await inNoTime(clock, clock.sleep(10 * STUCK_MS));
  expect([thread.asked, thread.abandoned]).toEqual([0, 0]);
});
