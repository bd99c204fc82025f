import { afterEach, beforeEach, expect, it } from 'vitest';
import { DEFAULT_SAMPLING } from '../../src/engine/sampling.ts';
import type { RequestOutput } from '../../src/engine/types.ts';
import { engineEnded, toWire } from '../../src/errors.ts';
import { EngineWatch } from '../../src/fleet/engine-watch.ts';
import type { ClusterNotice } from '../../src/fleet/notices.ts';
import { ThreadEngine } from '../../src/fleet/thread-engine.ts';
import type { EngineStart, EngineStarted, ServingApi } from '../../src/host/engine-api.ts';
import type { EngineEvent } from '../../src/host/engine-report.ts';
import { expose } from '../../src/host/rpc.ts';
import { systemClock } from '../../src/platform/clock.ts';
import type { Platform } from '../../src/platform/types.ts';
import { emptyResult } from '../../src/transport/transfer.ts';

/** An engine over a fake thread: `tell` sends an event from it, `end` ends it. */
let engine: ThreadEngine;
let tell: (event: EngineEvent) => void;
let end: () => void;

beforeEach(async () => {
  const { port1, port2 } = new MessageChannel();
  const serving: Partial<ServingApi> = {
    start: async (_, events) => {
      tell = (event) => events.postMessage(event);
      return {} as EngineStarted;
    },
    addRequest: async () => {},
    abortRequest: async () => {},
    shutdown: async () => end(),
  };
  expose({ serving }, port2);
  const platform = {
    startEngineThread: async () => ({
      port: port1,
      onExit: (listener: (reason: string) => void) => {
        end = () => {
          port1.close();
          listener('it was closed');
        };
      },
      abandon() {},
    }),
  } as Partial<Platform> as Platform;
  const core = { engineId: 'decode-0', host: 'h', port: 1 };
  const seat = { name: 'decode-0', role: 'decode', roleset: 'all', combined: false } as const;
  engine = await ThreadEngine.start(platform, { core } as EngineStart, seat, systemClock);
});

afterEach(() => engine.shutdown());

const submit = (requestId: string) =>
  engine.submit({
    requestId,
    promptTokenIds: [1],
    sampling: DEFAULT_SAMPLING,
    kvTransferParams: null,
    cacheSalt: null,
  });

const transfer = (requestId: string): EngineEvent => ({
  ...{ kind: 'transfer', requestId, remoteEngineId: 'prefill-0', atMs: 0 },
  result: emptyResult('done', '', 1),
});

it("a request's stream has the transfers reported before its end; those of an aborted request are dropped", async () => {
  const kept = await submit('kept');
  const givenUp = await submit('given-up');
  await engine.abort('given-up');
  const seen: string[] = [];
  engine.onEvent((event) => event.kind === 'transfer' && void seen.push(event.requestId));
  for (const id of ['given-up', 'never-there', 'kept']) tell(transfer(id));
  await expect.poll(() => seen).toHaveLength(3);
  expect(kept.transfers).toMatchObject([{ outcome: 'done' }]);
  expect(givenUp.transfers).toEqual([]);
});

it('a request id in use is refused, and the request that has it is unaffected', async () => {
  const first = await submit('twice');
  await expect(submit('twice')).rejects.toThrow('request twice has not ended at decode-0: choose another id');
  const outputs = first[Symbol.asyncIterator]();
  tell({ kind: 'outputs', outputs: [{ requestId: 'twice', finish: {} } as RequestOutput], atMs: 1 });
  expect((await outputs.next()).value).toMatchObject({ atMs: 1 });
  await expect(submit('twice')).resolves.toBeDefined();
});

it('an engine whose thread ends rejects open streams at once, and every later call', async () => {
  const stream = await submit('open');
  const outputs = stream[Symbol.asyncIterator]();
  const next = outputs.next();
  end();
  await expect(next).rejects.toThrow('engine decode-0 ended: it was closed');
  expect(engine.ended).not.toBeNull();
  await expect(engine.lookup([1], null)).rejects.toThrow('it was closed');
  await expect(submit('later')).rejects.toThrow('it was closed');
});

it("a lost device is reported with the engine's id and the reason in separate fields", async () => {
  const watch = new EngineWatch();
  const heard: ClusterNotice[] = [];
  watch.watch(engine, null);
  watch.listen((notice) => heard.push(notice));
  const lost = engineEnded('decode-0', 'the device was lost: too hot');
  tell({ kind: 'dead', error: toWire(lost), stats: null });
  await expect.poll(() => heard.filter(({ kind }) => kind === 'dead')).toHaveLength(1);
  expect(heard.at(-1)).toEqual({
    ...{ kind: 'dead', engineId: 'decode-0', role: 'decode' },
    ...{ message: lost.message, reason: lost.reason },
  });
  await expect(submit('late')).rejects.toMatchObject({ message: lost.message, reason: lost.reason });
});
