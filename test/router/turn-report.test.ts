/** What is recorded of a turn: its routing decision, its result, its report and the events for the policy. */
import { describe, expect, it } from 'vitest';
import type { PromptAccount, RequestOutput } from '../../src/engine/types.ts';
import { ConversationCache } from '../../src/router/conversations.ts';
import { RecordingPolicy, routeSpan } from '../../src/router/decision.ts';
import type { EngineView, RouteRequest, Routing, RoutingEvent, TurnPlan } from '../../src/router/plan.ts';
import { ServedTurn } from '../../src/router/served-turn.ts';
import type { TurnOutput } from '../../src/router/turn-outputs.ts';
import { turnReport } from '../../src/router/turn-report.ts';
import { TurnWatch } from '../../src/router/turn-watch.ts';
import { TurnsByEngine } from '../../src/router/turns-by-engine.ts';
import { emptyResult } from '../../src/transport/transfer.ts';
import type { TransferResult } from '../../src/transport/types.ts';
import { FakeEngine } from './fake-engine.ts';

const p = new FakeEngine('p0', 'prefill');
const d = new FakeEngine('d0', 'decode');

const account = (localHitTokens: number): PromptAccount => {
  return {
    promptTokens: 9,
    localHitTokens,
    pulledTokens: 3,
    computedTokens: 6 - localHitTokens,
    noPull: null,
  };
};

const moved = (changes: Partial<TransferResult>): TransferResult => ({
  ...emptyResult('done', '', 4),
  ...{ bytes: 2_000_000, blocks: 2, descriptors: 5 },
  ...changes,
});

function heard(
  side: 'prefill' | 'decode',
  changes: Partial<RequestOutput>,
  rest: Partial<TurnOutput> = {},
): TurnOutput {
  const times = { arrivalMs: 90, queuedMs: 95, scheduledMs: 105 };
  const output = { requestId: side, tokens: [], prompt: null, finish: null, times, ...changes };
  return { side, answers: side === 'decode', output, atMs: 150, transfers: [], loads: [], ...rest };
}

const token = (tokenId: number) => ({ requestId: 'decode', tokenId, logitsDigest: '', logits: null });
const finish = (kvTransferParams: NonNullable<RequestOutput['finish']>['kvTransferParams']) => {
  return { reason: 'length', error: null, kvTransferParams, numPreemptions: 0 } as const;
};
const params = { do_remote_prefill: false, do_remote_decode: true, remote_request_id: 'held' };

const request = (changes: Partial<RouteRequest> = {}): RouteRequest => ({
  ...{ number: 7, nowMs: 1000, conversationId: 'c', promptTokenIds: [1, 2, 3], turnsBefore: 0 },
  ...{ mode: 'bidirectional', handover: 'pull', held: null, cachedTokens: (id) => (id === 'p0' ? 16 : 0) },
  ...changes,
});

function served() {
  const cache = new ConversationCache({ now: () => 0, sleep: async () => {} });
  const conversation = cache.open({ conversationId: 'c' });
  Object.assign(conversation, {
    turns: 2,
    historyIds: [1],
    messages: null,
    text: 'before',
    specialTokens: true,
  });
  return new ServedTurn({
    ...{ turnId: 't', conversation, promptTokenIds: [4, 5], heldTokens: 8, acceptedMs: 100, routed: null },
    again: false,
  });
}

describe('a served turn', () => {
  it('has no start before it has begun, and no result without an account of its prompt', () => {
    const turn = served();
    expect(() => turn.start()).toThrow('t has not begun');
    turn.beginAttempt({ way: 'pull', prefill: p, decode: d });
    expect(turn.held()).toBeNull();
    expect(turn.start()).toMatchObject({ localHitTokens: 0, decodeHitTokens: 0 });
    expect(() => turn.result('length', false)).toThrow('without an account');
    turn.record(heard('prefill', { prompt: account(2) }));
    expect(() => turn.result('length', false)).toThrow('without an account');
    turn.add(1, 'a', 130);
    expect(turn.result('length', false).transfer).toEqual({
      ...{ pToD: null, dToP: null, storeToP: null, storeToD: null },
    });
    const unheard = served();
    unheard.beginAttempt({ way: 'pull', prefill: p, decode: d });
    unheard.add(1, 'a', 130);
    expect(() => unheard.result('length', false)).toThrow('without an account');
  });

  it('returns its tokens, its times, its hold and what was moved to each engine', () => {
    const turn = served();
    turn.beginAttempt({ way: 'pull', prefill: p, decode: d });
    const toP = [moved({ wallMs: 2 }), moved({ outcome: 'failed' }), moved({ bytes: 0 })];
    turn.record(
      heard('prefill', { prompt: account(2) }, { transfers: toP, loads: [moved({ wallMs: 0, tokens: 40 })] }),
    );
    const stages = { ...moved({}).stages, linkMs: 1.5 };
    const toD = [moved({ stages }), moved({ stages, movingMs: 1, wallMs: 6 })];
    turn.record(heard('decode', { prompt: account(4) }, { transfers: toD, loads: [moved({})] }));
    turn.record(heard('decode', { finish: finish(params) }, { transfers: toD, loads: [moved({})] }));
    expect([turn.add(11, 'a', 130), turn.add(12, 'b', 140), turn.add(13, 'c', 160)]).toEqual([0, 1, 2]);
    expect(turn.held()).toEqual({ params, holder: d });
    expect(turn.start()).toEqual({
      ...{ turns: 2, historyIds: [1], messages: null, text: 'before', specialTokens: true },
      tokenIds: [4, 5, 11, 12, 13],
      ...{ prefill: p, decode: d, localHitTokens: 2, decodeHitTokens: 4, heldTokens: 8 },
    });
    const result = turn.result('length', true);
    expect(result).toMatchObject({
      ...{ conversationId: 'c', turn: 2, promptTokenIds: [4, 5], outputTokenIds: [11, 12, 13], text: 'abc' },
      ...{ finishReason: 'length', ttftMs: 30, tpotMs: 15, latencyMs: 60, prompt: account(2), routed: null },
    });
    expect(Object.values(result.stagesMs).reduce((sum, ms) => sum + ms, 0)).toBeCloseTo(30);
    const { pToD, dToP, storeToP, storeToD } = result.transfer;
    expect(dToP).toMatchObject({
      bytes: 2_000_000,
      blocks: 2,
      ms: 2,
      gbps: 1,
      descriptors: 5,
      throttled: true,
    });
    expect(dToP).not.toHaveProperty('movingMs');
    // 4 MB in 4 ms of the first transfer, and the 1 ms in which the streamed one moved data.
    expect(pToD).toMatchObject({
      bytes: 4_000_000,
      blocks: 4,
      ms: 10,
      movingMs: 5,
      gbps: 0.8,
      descriptors: 10,
    });
    expect(pToD!.stages).toMatchObject({ linkMs: 3, waitMs: 0 });
    expect(storeToP).toMatchObject({ tokens: 40, ms: 0, gbps: 0, throttled: false });
    expect(storeToD).toMatchObject({ ms: 4, throttled: false });

    const report = turnReport('c', 2, result, ['x', 'y'], 'said');
    expect(report).toMatchObject({
      ...{ prompt_tokens: 9, local_hit_tokens: 2, no_pull_reason: null, output_tokens: 3, text: 'said' },
      ...{ output_token_ids: [11, 12, 13], logits_digests: ['x', 'y'], ttft_ms: 30, tpot_ms: 15 },
      ...{ stages_ms: result.stagesMs, overlapped_ms: result.overlappedMs },
    });
    expect(report.transfer.p_to_d).toEqual({
      ...{ bytes: 4_000_000, blocks: 4, ms: 10, moving_ms: 5, gbps: 0.8, descriptors: 10, throttled: true },
    });
    expect(report.transfer.d_to_p).not.toHaveProperty('moving_ms');
    expect(report.transfer.store_to_p).toMatchObject({ bytes: 2_000_000, tokens: 40 });
    expect(report.transfer.store_to_d).toMatchObject({ bytes: 2_000_000, ms: 4 });
    expect(report).not.toHaveProperty('routing');
  });

  it('on one engine has no transfers, and no time per token if it has one token', () => {
    const turn = served();
    turn.beginAttempt({ way: 'alone', engine: d });
    const noPull = { by: 'policy', reason: 'too short' } as const;
    turn.record(heard('prefill', { prompt: { ...account(5), noPull }, finish: finish(params) }));
    turn.add(1, 'a', 130);
    expect(turn.held()).toEqual({ params, holder: d });
    expect(turn.start()).toMatchObject({ prefill: d, decode: d, localHitTokens: 5, decodeHitTokens: 5 });
    const result = turn.result('stop', false);
    expect(result.tpotMs).toBeNull();
    const report = turnReport('c', 2, result, [], null);
    expect(report.no_pull_reason).toBe('too short');
    expect(report.transfer.p_to_d).toEqual({
      ...{ bytes: 0, blocks: 0, ms: 0, gbps: null, descriptors: 0, throttled: false },
    });
    expect(Object.keys(report.transfer)).toEqual(['p_to_d', 'd_to_p']);
  });

  it('forgets what an earlier way reported', () => {
    const turn = served();
    turn.beginAttempt({ way: 'pull', prefill: p, decode: d });
    turn.record(heard('prefill', { prompt: account(2) }));
    turn.record(heard('decode', { prompt: account(4), finish: finish(params) }));
    turn.beginAttempt({ way: 'pull', prefill: p, decode: d });
    expect(turn.held()).toBeNull();
    expect(turn.start()).toMatchObject({ localHitTokens: 0, decodeHitTokens: 0 });
  });

  it('has spans of its own, and its stages include spans that began before its first token', () => {
    const turn = served();
    turn.beginAttempt({ way: 'pull', prefill: p, decode: d });
    turn.record(heard('prefill', { prompt: account(2) }));
    const span = (name: string, startMs: number, endMs: number) => ({
      ...({
        name,
        engineId: 'p0',
        lane: 'host',
        startMs,
        endMs,
        clock: 'host',
        requestId: null,
        args: {},
      } as const),
      turns: [{ turnId: 't', side: 'prefill' }] as const,
    });
    turn.addSpan(span('lookup', 105, 120));
    expect(turn.ownSpans().map(({ name, startMs, endMs }) => [name, startMs, endMs])).toEqual([
      ['turn', 100, 0],
      ['ttft', 100, 100],
    ]);
    turn.add(1, 'a', 130);
    turn.add(2, 'b', 170);
    turn.addSpan(span('step', 130, 140));
    turn.addSpan(span('lookup', 125, 130));
    const spans = turn.ownSpans();
    expect(spans.map(({ name, startMs, endMs }) => [name, startMs, endMs])).toEqual([
      ['turn', 100, 170],
      ['ttft', 100, 130],
    ]);
    expect(spans[0]!.args).toEqual({ conversationId: 'c', turn: 2, tokens: 2 });
    // 15 ms and 5 ms of lookup, and the rest of the stages.
    const { stagesMs } = turn.result('length', false);
    expect(Object.values(stagesMs)).toContain(20);
    expect(Object.values(stagesMs).reduce((sum, ms) => sum + ms, 0)).toBeCloseTo(30);
  });
});

const view = (engineId: string, role: 'prefill' | 'decode', told: boolean): EngineView => ({
  ...{ engineId, role, ended: false, inFlight: 2 },
  signals: told ? ({ running: 3, waiting: 4, atMs: 990 } as EngineView['signals']) : null,
});

describe('a routing decision', () => {
  const candidates = {
    prefill: [view('p0', 'prefill', true), view('p1', 'prefill', false)],
    decode: [view('d0', 'decode', false)],
  };
  const scores = [{ engineId: 'p0', side: 'prefill', score: 5, best: 'least' }] as const;
  const decided = (changes: Partial<Routing>) =>
    new RecordingPolicy({
      route: (_, { prefill, decode }) => ({
        prefill: prefill[0]!,
        decode: decode[0]!,
        why: 'so',
        ...changes,
      }),
    });
  const plan: TurnPlan = { way: 'pull', prefill: 'p0', decode: 'd0', load: { from: 'd0' }, why: 'so' };

  it('is recorded with what was known of each candidate', () => {
    const by = decided({ scores, predictedTtftMs: 12 });
    by.route(request(), candidates);
    const read = by.read(plan, 'mine', true);
    const unknown = { running: null, waiting: null, ageMs: null, score: null, best: null };
    expect(read).toEqual({
      ...{
        policy: 'mine',
        way: 'pull',
        prefill: 'p0',
        decode: 'd0',
        load: 'd0',
        why: 'so',
        predictedTtftMs: 12,
      },
      candidates: [
        {
          ...{ engineId: 'p0', side: 'prefill', inFlight: 2, running: 3, waiting: 4, ageMs: 10 },
          ...{ cachedTokens: 16, score: 5, best: 'least' },
        },
        { engineId: 'p1', side: 'prefill', inFlight: 2, ...unknown, cachedTokens: 0 },
        { engineId: 'd0', side: 'decode', inFlight: 2, ...unknown, cachedTokens: 0 },
      ],
    });
    expect(by.read(plan, 'mine', false).candidates[0]!.cachedTokens).toBeNull();
    by.route(request({ nowMs: 900 }), candidates);
    expect(by.read(plan, 'mine', true).candidates[0]!.ageMs).toBe(0);
  });

  it('that no policy made has no candidates', () => {
    const alone: TurnPlan = { way: 'alone', engineId: 'd0', why: 'the mode' };
    expect(decided({}).read(alone, 'mine', true)).toEqual({
      ...{ policy: 'mine', way: 'alone', prefill: null, decode: 'd0', load: null, why: 'the mode' },
      ...{ predictedTtftMs: null, candidates: [] },
    });
  });

  it('for an engine that is not a candidate is refused', () => {
    const by = decided({ decode: view('d9', 'decode', true) });
    expect(() => by.route(request(), candidates)).toThrow('chose d9 to decode, which is not a candidate');
  });

  it('becomes a span without unknown fields, and a part of the report', () => {
    const by = decided({ scores, predictedTtftMs: 12 });
    by.route(request(), candidates);
    const routed = { ...by.read(plan, 'mine', true), startMs: 1000, endMs: 1003 };
    expect(routeSpan('t', routed).args).toEqual({
      ...{ policy: 'mine', way: 'pull', prefill: 'p0', decode: 'd0', load: 'd0', why: 'so' },
      ...{ predictedTtftMs: 12, candidates: 3, scores: 'p0 as prefill 5' },
    });
    const alone: TurnPlan = { way: 'alone', engineId: 'd0', why: 'the mode' };
    const bare = { ...decided({}).read(alone, 'mine', true), startMs: 1, endMs: 2 };
    expect(routeSpan('t', bare).args).toEqual({
      ...{ policy: 'mine', way: 'alone', decode: 'd0', why: 'the mode', candidates: 0 },
    });
    const turn = served();
    turn.beginAttempt({ way: 'pull', prefill: p, decode: d });
    turn.record(heard('prefill', { prompt: account(2) }));
    turn.add(1, 'a', 130);
    const report = turnReport('c', 2, { ...turn.result('length', false), routed }, [], null);
    expect(report.routing).toMatchObject({
      ...{ policy: 'mine', way: 'pull', prefill: 'p0', decode: 'd0', load: 'd0', predicted_ttft_ms: 12 },
      decided_in_ms: 3,
    });
    expect(report.routing!.candidates).toHaveLength(3);
    expect(report.routing!.candidates[0]).toEqual({
      ...{ engine_id: 'p0', side: 'prefill', in_flight: 2, running: 3, waiting: 4, age_ms: 10 },
      ...{ cached_tokens: 16, score: 5, best: 'least' },
    });
  });
});

describe('observe() of a policy', () => {
  function watched() {
    const events: RoutingEvent[] = [];
    const asked = request();
    const policy = { route: () => ({}) as Routing, observe: (event: RoutingEvent) => events.push(event) };
    const coming = new TurnsByEngine();
    return { events, asked, coming, watch: new TurnWatch(policy, asked, 100, coming) };
  }
  const pull: TurnPlan = { way: 'pull', prefill: 'p0', decode: 'd0', load: { from: 'd1' }, why: '' };

  it('is told of a pair’s prefill, the moves to each engine, the first token and the end', () => {
    const { events, asked, watch } = watched();
    watch.received(heard('prefill', { finish: finish(params) }));
    watch.ended();
    expect(events).toEqual([]);
    watch.planned(pull);
    watch.received(heard('prefill', {}));
    const transfers = [moved({ wallMs: 3 }), moved({ outcome: 'failed' }), moved({ bytes: 0 })];
    watch.received(heard('prefill', { finish: finish(params), prompt: account(1) }, { transfers }));
    watch.received(heard('prefill', { finish: finish(params) }, { transfers }));
    watch.received(heard('decode', {}));
    watch.received(heard('decode', { tokens: [token(1)] }, { atMs: 170, transfers: [moved({ bytes: 50 })] }));
    watch.received(heard('decode', { tokens: [token(2)] }));
    watch.ended();
    watch.ended();
    expect(events).toEqual([
      { kind: 'planned', number: 7, prefill: 'p0', decode: 'd0', promptTokens: 3, request: asked },
      { kind: 'moved', number: 7, from: 'd1', to: 'p0', bytes: 2_000_000, ms: 3 },
      { kind: 'prefilled', number: 7, engineId: 'p0', ms: 45, prompt: account(1) },
      { kind: 'moved', number: 7, from: 'p0', to: 'd0', bytes: 50, ms: 4 },
      { kind: 'first token', number: 7, engineId: 'd0', ttftMs: 70 },
      { kind: 'ended', number: 7, outputTokens: 2 },
    ]);
  });

  it('is told of no move for one engine, whose first token ends the prefill', () => {
    const { events, asked, watch } = watched();
    watch.planned({ way: 'alone', engineId: 'd0', why: '' });
    const times = { arrivalMs: 90, queuedMs: 95, scheduledMs: null };
    watch.received(heard('prefill', { tokens: [token(1)], times }, { transfers: [moved({})] }));
    watch.received(heard('prefill', { tokens: [token(2)] }));
    watch.ended();
    expect(events).toEqual([
      { kind: 'planned', number: 7, prefill: null, decode: 'd0', promptTokens: 3, request: asked },
      { kind: 'prefilled', number: 7, engineId: 'd0', ms: 60, prompt: null },
      { kind: 'first token', number: 7, engineId: 'd0', ttftMs: 50 },
      { kind: 'ended', number: 7, outputTokens: 2 },
    ]);
  });

  it('is told of the first plan’s end and all of the second if a turn fails over', () => {
    const { events, watch } = watched();
    watch.planned({ ...pull, load: null });
    watch.received(heard('prefill', { finish: finish(params) }, { transfers: [moved({})] }));
    watch.planned(pull);
    watch.received(heard('prefill', { finish: finish(params) }));
    expect(events.map(({ kind }) => kind)).toEqual(['planned', 'prefilled', 'ended', 'planned', 'prefilled']);
  });

  it('counts the turn as coming to each engine of the plan until it arrives or ends', () => {
    const { coming, watch } = watched();
    const counts = () => ['p0', 'd0', 'd2'].map((id) => coming.at(id));
    watch.planned(pull);
    expect(counts()).toEqual([1, 1, 0]);
    watch.arrives('p0');
    watch.arrives('p0');
    expect(counts()).toEqual([0, 1, 0]);
    watch.planned({ way: 'alone', engineId: 'd2', why: '' });
    expect(counts()).toEqual([0, 0, 1]);
    watch.ended();
    watch.arrives('d2');
    expect(counts()).toEqual([0, 0, 0]);
  });

  it('is optional', () => {
    const watch = new TurnWatch({ route: () => ({}) as Routing }, request(), 100, new TurnsByEngine());
    watch.planned(pull);
    watch.received(heard('decode', { tokens: [token(1)] }, { transfers: [moved({})] }));
    watch.ended();
  });
});
