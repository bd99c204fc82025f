/** Requests on an engine's own port: refused ones, whose named blocks can be freed, and the account of served ones. */
import { expect, it, vi } from 'vitest';
import type { RefusedRequest } from '../../src/engine/kv-connector.ts';
import type { RequestOutput } from '../../src/engine/types.ts';
import { RequestError } from '../../src/errors.ts';
import type { EngineCluster } from '../../src/fleet/cluster.ts';
import type { EngineClient } from '../../src/router/engine-client.ts';
import { OutputStream } from '../../src/router/output-stream.ts';
import { OneEngineService } from '../../src/server/engine-service.ts';
import type { HostNames } from '../../src/server/host-names.ts';
import { comeBack } from '../../src/server/http/http-error.ts';
import type { GenerationRequest, ServedModel, TextTools } from '../../src/server/service.ts';
import { emptyResult } from '../../src/transport/transfer.ts';

const kvTransferParams = {
  ...{ do_remote_prefill: true, remote_engine_id: 'prefill-0', remote_request_id: 'r' },
  ...{ remote_host: 'h', remote_port: 1, remote_block_ids: [[1]] },
  ...{ remote_num_tokens: 3, remote_token_ids: [1, 2, 3] },
};

/** The service of decode-0, with peer prefill-0; to encode a text fails with `failure`, and `submit` serves a request. */
function service(failure: Error = new RequestError('no'), submit?: EngineClient['submit']) {
  const told: RefusedRequest[] = [];
  const engine = {
    ...{ name: 'decode-0', engineId: 'decode-0', ended: null },
    serving: {
      refuseRequest: async (request: RefusedRequest) => void told.push(request),
      resetPrefixCache: () => new Promise<boolean>(() => {}),
    },
  };
  const peer = { name: 'prefill-0', engineId: 'prefill-0', address: { host: 'h', port: 1 } };
  const settings = { maxNumSeqs: 4, connector: { loadFailurePolicy: 'fail' } };
  const tokenizer = { streamDecoder: () => decoder };
  const members = { isLeaving: () => false };
  const kept: string[] = [];
  const keep = (engineId: string) => {
    kept.push(engineId);
    return () => void kept.splice(kept.indexOf(engineId), 1);
  };
  const cluster = { engines: [engine, peer], settings, members, text: { tokenizer }, keep };
  const decoder = { push: () => '', end: () => '' };
  const text = { encode: () => Promise.reject(failure) };
  const model = { names: ['m'], maxModelLen: 64, vocabSize: 10, eosTokenIds: [] };
  const one = new OneEngineService(
    cluster as unknown as EngineCluster,
    'decode-0',
    model as unknown as ServedModel,
    text as unknown as TextTools,
    { has: () => true, noteHost() {} } as unknown as HostNames,
    () => {
      if (submit) return { engineId: 'decode-0', submit } as unknown as EngineClient;
      throw new Error('no engine is to be asked');
    },
  );
  return { one, told, kept };
}

const asked = {
  ...{ requestId: 'x', prompt: { kind: 'text', text: 'long' }, cacheSalt: null, kvTransferParams },
  ...{ sampling: {}, stop: [], onEngines() {}, onPrompt() {}, signal: new AbortController().signal },
  received: new Promise<void>(() => {}),
} as unknown as GenerationRequest;

it.each([
  ['is refused for good notifies its engine', new RequestError('too long'), 1],
  ['may be retried does not notify its engine', comeBack('32 long texts wait already'), 0],
])('a request that %s', async (_, failure, times) => {
  const { one, told } = service(failure);
  await expect(one.generate(asked).next()).rejects.toBe(failure);
  expect(told).toHaveLength(times);
});

it('a request keeps its engine in the fleet until its client has read the answer', async () => {
  const { one, kept } = service();
  let read = () => {};
  const received = new Promise<void>((resolve) => {
    read = resolve;
  });
  await expect(one.generate({ ...asked, received }).next()).rejects.toThrow('no');
  expect(kept).toEqual(['decode-0']);
  read();
  await received;
  expect(kept).toEqual([]);
});

it.each([
  ['at the top level', { kv_transfer_params: kvTransferParams }],
  [
    'in extra_args',
    { sampling_params: { temperature: -1, extra_args: { kv_transfer_params: kvTransferParams } } },
  ],
])('a refused body with kv_transfer_params %s notifies the engine', async (_, body) => {
  const { one, told } = service();
  one.refused({ token_ids: [1], ...body });
  expect(told).toMatchObject([{ kvTransferParams: { remote_request_id: 'r' } }]);
});

it("a refused body's remote host and port are replaced by those of the engine it names", () => {
  const { one, told } = service();
  one.refused({ kv_transfer_params: { ...kvTransferParams, remote_host: 'proxy', remote_port: 9 } });
  expect(told).toMatchObject([{ kvTransferParams: { remote_host: 'h', remote_port: 1 } }]);
});

it('a refused body without kv_transfer_params does not notify the engine', () => {
  const { one, told } = service();
  for (const body of [{}, null, { sampling_params: 3 }, { sampling_params: { extra_args: null } }])
    one.refused(body);
  expect(told).toEqual([]);
});

it('resetting the prefix cache of a stuck engine fails with 503 after a second', async () => {
  vi.useFakeTimers();
  try {
    const reset = service().one.resetPrefixCache();
    const refused = expect(reset).rejects.toMatchObject({
      status: 503,
      message: 'engine decode-0 does not answer: retry, or use another engine',
    });
    await vi.advanceTimersByTimeAsync(1000);
    await refused;
  } finally {
    vi.useRealTimers();
  }
});

it('tells the tokens that came from a store apart from those pulled from an engine, whatever their bytes', async () => {
  const { one } = service(undefined, async ({ requestId }) => {
    const stream = new OutputStream(requestId);
    stream.transfers.push({ ...emptyResult('done', '', 1), bytes: 900 });
    stream.loads.push({ ...emptyResult('done', '', 1), bytes: 100, tokens: 32 });
    stream.loads.push({ ...emptyResult('failed', '', 1), tokens: 8 });
    const prompt = { promptTokens: 50, localHitTokens: 0, pulledTokens: 48, computedTokens: 2, noPull: null };
    const token = { tokenId: 1, logitsDigest: '', logits: null };
    const finish = { reason: 'length', error: null, kvTransferParams: null, numPreemptions: 0 } as const;
    const times = { arrivalMs: 0, queuedMs: 0, scheduledMs: 0 };
    stream.push({ requestId, tokens: [token], prompt, finish, times } as unknown as RequestOutput, 1);
    return stream;
  });
  const request = { ...asked, prompt: { kind: 'tokens', tokenIds: [1, 2] }, kvTransferParams: null };
  const { value } = await one.generate(request as GenerationRequest).next();
  expect(value!.final).toMatchObject({ prompt: { pulledTokens: 48 }, storedTokens: 32 });
});
