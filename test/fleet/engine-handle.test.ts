import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { DEFAULT_SAMPLING } from '../../src/engine/sampling.ts';
import { EngineHandle } from '../../src/fleet/engine-handle.ts';
import type { EngineApi, EngineEvent, EngineStart } from '../../src/host/messages.ts';
import { expose } from '../../src/host/rpc.ts';
import type { Platform } from '../../src/platform/types.ts';
import { emptyResult } from '../../src/transport/transfer.ts';

/** An engine's thread without an engine: what a handle is told, the test says. */
let handle: EngineHandle;
let tell: (event: EngineEvent) => void;
let end: () => void;

beforeEach(async () => {
  const { port1, port2 } = new MessageChannel();
  const api: Partial<EngineApi> = {
    start: async (_, events) => {
      tell = (event) => events.postMessage(event);
      return {} as Awaited<ReturnType<EngineApi['start']>>;
    },
    addRequest: async () => {},
    abortRequest: async () => {},
    shutdown: async () => end(),
  };
  expose(api, port2);
  const platform = {
    startEngineThread: async () => ({
      port: port1,
      onExit: (listener: (reason: string) => void) => {
        end = () => {
          port1.close();
          listener('it was closed');
        };
      },
    }),
  } as Partial<Platform> as Platform;
  const core = { engineId: 'decode-0', host: 'h', port: 1 };
  handle = await EngineHandle.start(platform, { core } as EngineStart, 'decode');
});

afterEach(() => handle.shutdown());

const submit = (requestId: string) =>
  handle.submit({
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

it("keeps a request's transfers until they are taken, and none of a request that was given up", async () => {
  await submit('kept');
  await submit('given-up');
  await handle.abort('given-up');
  const seen: string[] = [];
  handle.onEvent((event) => event.kind === 'transfer' && void seen.push(event.requestId));
  for (const id of ['given-up', 'never-there', 'kept']) tell(transfer(id));
  await vi.waitFor(() => expect(seen).toHaveLength(3));

  expect(handle.takeTransfers('kept')).toMatchObject([{ remoteEngineId: 'prefill-0' }]);
  for (const id of ['kept', 'given-up', 'never-there']) expect(handle.takeTransfers(id)).toEqual([]);
});
