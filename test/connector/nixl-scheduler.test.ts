/** NIXL's scheduler side and its heartbeats alone, with a fake cost-aware policy. */
import { describe, expect, it } from 'vitest';
import type { KvTransferParams } from '../../src/config/kv-transfer.ts';
import { Heartbeats } from '../../src/connector/nixl/heartbeats.ts';
import { NixlSchedulerSide } from '../../src/connector/nixl/scheduler-side.ts';
import type { CostAwarePolicy } from '../../src/connector/policy/cost-aware.ts';
import type { PullQuestion } from '../../src/connector/policy/pull-policy.ts';
import { FULL_GROUP } from '../../src/engine/kv-cache-spec.ts';
import type { ConnectorRequest } from '../../src/engine/kv-connector.ts';
import type { RequestStatus } from '../../src/engine/types.ts';
import { TestClock } from '../clock.ts';
import { tokens } from '../engine/fakes.ts';
import { connectorDefaults } from './scripted.ts';

const CLAIM = { held: { numTokens: 32, digest: 'h' }, prompt: { numTokens: 32, digest: 'p' } };
const PEER = { engineId: 'decode-0', host: 'localhost', port: 5601 };

describe('heartbeats', () => {
  it('go to each holder, for the holds tracked there, every sixth of the lease', () => {
    const beats = new Heartbeats(6000);
    const { held } = CLAIM;
    expect([beats.dueMs, beats.take(0)]).toEqual([null, []]);
    beats.track('a', { ...PEER, requestId: '1', held });
    beats.track('b', { ...PEER, port: 9, requestId: '2', held });
    beats.track('c', { ...PEER, requestId: '3', held });
    const [first, second] = beats.take(500);
    expect(first!.holds.map(({ requestId }) => requestId)).toEqual(['1', '3']);
    expect(second).toMatchObject({ remote: { port: 9 }, holds: [{ requestId: '2' }] });
    expect([beats.dueMs, beats.take(1499)]).toEqual([1500, []]);
    beats.untrack('a');
    beats.untrack('b');
    expect(beats.take(1500)).toMatchObject([{ holds: [{ requestId: '3' }] }]);
    beats.untrack('c');
    expect([beats.dueMs, beats.take(9000)]).toEqual([null, []]);
  });
});

describe('the scheduler side', () => {
  const PROMPT = tokens(40);
  const OFFER = {
    ...{ remote_block_ids: [[1, 2, 3]], remote_engine_id: 'decode-0', remote_request_id: 'r@d' },
    ...{ remote_host: 'localhost', remote_port: 5601, tp_size: 1 },
    ...{ remote_num_tokens: 40, remote_token_ids: PROMPT },
  };
  const AT_P = { ...OFFER, do_remote_decode: true, do_remote_prefill: false };
  const AT_D = { ...OFFER, do_remote_decode: false, do_remote_prefill: true };
  const NOWHERE = { ...OFFER, do_remote_decode: false, do_remote_prefill: false };

  function requestOf(params: Partial<KvTransferParams> | null, status: RequestStatus = 'running') {
    const request: ConnectorRequest = {
      ...{ requestId: 'r', promptTokenIds: PROMPT, allTokenIds: [...PROMPT, 5], numComputedTokens: 40 },
      ...{ kvTransferParams: params as KvTransferParams | null, cacheSalt: null, status },
      blockHashes: () => [],
    };
    return request;
  }

  function start({ bidirectional = true, refuses = null as string | null } = {}) {
    const clock = new TestClock();
    const told: [string, PullQuestion | number | null][] = [];
    const costAware = {
      refuse: (question: PullQuestion) => {
        told.push(['asked', question]);
        return refuses;
      },
      started: (id: string, question: PullQuestion) => void told.push([`${id} started`, question]),
      ended: (id: string, ms: number | null) => void told.push([`${id} ended`, ms]),
    } as Partial<CostAwarePolicy> as CostAwarePolicy;
    const side = new NixlSchedulerSide({
      config: { ...connectorDefaults.nixl, bidirectional },
      ...{ engineId: 'prefill-0', host: 'localhost', port: 5600, blockSize: 16, groups: FULL_GROUP },
      ...{ clock, costAware },
    });
    return { side, told, clock, meta: () => side.buildConnectorMeta() };
  }
  const TABLE = [[11, 12, 13]];

  it("asks the policy about tokens beyond the local hit and D's load, and reports the pull's start and end", () => {
    const { side, told } = start();
    const request = requestOf({ ...AT_P, remote_num_requests: 3 });
    expect(side.getNumNewMatchedTokens(request, 16)).toEqual({ tokens: 24, noPull: null });
    side.updateStateAfterAlloc(request, TABLE, 16, 24);
    const question = { count: 24, localHitTokens: 16, promptTokens: 40, holderRequests: 3 };
    expect(told).toEqual([
      ['asked', question],
      ['r started', question],
    ]);
    side.requestFinished({ ...request, status: 'finished_aborted' }, TABLE);
    expect(told.at(-1)).toEqual(['r ended', null]);
  });

  it('reports a pull that came as ended, even if its time was not reported', () => {
    const { side, told } = start();
    const request = requestOf(AT_P);
    side.getNumNewMatchedTokens(request, 16);
    side.updateStateAfterAlloc(request, TABLE, 16, 24);
    const came = { finishedSending: [], finishedRecving: ['r'], failedRecving: [], changed: false };
    side.updateConnectorOutput(came);
    expect(told.at(-1)).toEqual(['r ended', null]);
  });

  it("does not ask the policy about P's blocks, and reports no pull if nothing is pulled", () => {
    const { side, told } = start();
    side.getNumNewMatchedTokens(requestOf(AT_D), 0);
    side.updateStateAfterAlloc(requestOf(AT_D), TABLE, 0, 40);
    const covered = { ...requestOf(AT_P), requestId: 's' };
    side.updateStateAfterAlloc(covered, TABLE, 32, 0);
    expect(told).toEqual([]);
  });

  it.each([
    [{}, { by: 'policy', reason: 'too dear' }],
    [{ pull_policy: 'never' as const }, { by: 'request', reason: 'the request asks for recomputation' }],
    [{ remote_token_ids: tokens(20) }, { by: 'policy', reason: 'too dear (first differing token at 20)' }],
  ])('names who decided against a pull: %j', (more, noPull) => {
    const { side } = start({ refuses: 'too dear' });
    expect(side.getNumNewMatchedTokens(requestOf({ ...AT_P, ...more }), 0)).toEqual({ tokens: 0, noPull });
  });

  it('does nothing for a request whose parameters name no role', () => {
    for (const params of [null, NOWHERE]) {
      const { side, meta } = start();
      const request = requestOf(params, 'finished_stopped');
      side.onNewRequest(request);
      expect(side.getNumNewMatchedTokens(request, 0)).toEqual({ tokens: 0, noPull: null });
      side.updateStateAfterAlloc(request, TABLE, 0, 0);
      expect(side.requestFinished(request, TABLE)).toStrictEqual({
        delayFree: false,
        kvTransferParams: null,
      });
      expect(side.metaDueMs()).toBeNull();
      expect(meta().reqsToSend.size).toBe(0);
    }
  });

  it('holds blocks at P in any case, and at D only if bidirectional', () => {
    for (const bidirectional of [true, false]) {
      for (const [params, role] of [
        [AT_P, 'prefill'],
        [AT_D, 'decode'],
      ] as const) {
        const { side, meta } = start({ bidirectional });
        const request = requestOf(params, 'finished_length_capped');
        side.updateStateAfterAlloc(request, TABLE, 0, 0);
        const holds = role === 'prefill' || bidirectional;
        expect(side.requestFinished(request, TABLE).delayFree).toBe(holds);
        const { reqsInBatch, reqsToSend } = meta();
        expect([reqsInBatch.has('r'), reqsToSend.get('r')?.direction]).toEqual(
          holds ? [true, role] : [false, undefined],
        );
      }
    }
  });

  it('sends heartbeats for a hold that D may still read, if the holder is known and blocks are missing', () => {
    const beats = (params: Partial<KvTransferParams>, allocated: boolean) => {
      const { side, clock, meta } = start();
      const request = requestOf(params);
      side.onNewRequest(request);
      if (allocated) side.updateStateAfterAlloc(request, TABLE, 40, 0);
      meta();
      clock.advance(60_000);
      return meta().heartbeats.length;
    };
    expect(beats(AT_D, false)).toBe(1);
    expect(beats(AT_D, true)).toBe(0);
    expect(beats({ ...AT_D, remote_host: null }, false)).toBe(0);
    expect(beats(AT_P, false)).toBe(0);
  });

  it('reports a streamed prompt from its arrival to its end, and no other', () => {
    for (const streamed of [true, false]) {
      const { side, meta } = start();
      const request = requestOf({ do_remote_decode: true, do_remote_prefill: false, streamed });
      side.onNewRequest(request);
      expect(meta().computed.get('r')?.numTokens).toBe(streamed ? 0 : undefined);
      side.requestComputed({ ...request, numComputedTokens: 20 }, TABLE);
      const told = streamed ? { numTokens: 20, blockIds: [[11, 12]] } : undefined;
      const { computed } = meta();
      if (told) expect(computed.get('r')).toMatchObject(told);
      else expect(computed.size).toBe(0);
      side.requestPreempted(request);
      expect(meta().computed.get('r')?.numTokens).toBe(streamed ? 0 : undefined);
      // Without blocks, as if it had never been scheduled.
      const left = side.requestFinished({ ...request, status: 'finished_aborted' }, [[]]);
      expect(left).toStrictEqual({ delayFree: false, kvTransferParams: null });
      expect(meta().reqsNotProcessed.has('r')).toBe(streamed);
    }
  });

  it('cancels a streamed READ only if one was begun', () => {
    for (const [local, count] of [
      [0, 40],
      [40, 0],
    ] as const) {
      const { side, meta } = start();
      const request = requestOf({ ...AT_D, streamed: true });
      side.updateStateAfterAlloc(request, TABLE, local, count);
      side.requestFinished({ ...request, status: 'finished_aborted' }, TABLE);
      expect(meta().reqsToCancel.has('r')).toBe(count > 0);
    }
  });

  it('holds nothing for a request that ends before it computed anything', () => {
    const { side, meta } = start();
    const request = requestOf(AT_P, 'finished_stopped');
    side.updateStateAfterAlloc(request, TABLE, 0, 0);
    const left = side.requestFinished({ ...request, numComputedTokens: 0 }, TABLE);
    expect(left).toStrictEqual({ delayFree: false, kvTransferParams: null });
    expect(meta()).toMatchObject({ reqsToSend: new Map(), reqsNotProcessed: new Set(['r']) });
  });
});
