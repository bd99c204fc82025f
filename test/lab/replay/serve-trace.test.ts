import { describe, expect, it } from 'vitest';
import { InternalError, RequestError } from '../../../src/errors.ts';
import type { AnsweredTurn, BenchTarget, TurnToSend } from '../../../src/lab/multiturn/target.ts';
import { serveTrace } from '../../../src/lab/replay/serve-trace.ts';
import { BadLines } from '../../../src/workload/traces/bad-lines.ts';
import { TraceFeed } from '../../../src/workload/traces/feed.ts';
import { TraceTokens } from '../../../src/workload/traces/tokens.ts';
import { traceTurns } from '../../../src/workload/traces/turns.ts';
import type { TraceRequest } from '../../../src/workload/traces/types.ts';
import { TestClock } from '../../clock.ts';
import { request, UNSCALED } from '../../workload/traces/sample-trace.ts';

const clock = () => new TestClock(0);
const tokens = new TraceTokens(500, 1);
const session = (id: string, delayMs: number | null = null): TraceRequest['origin'] => ({
  kind: 'session',
  id,
  delayMs,
});

/** Takes 100 ms for each turn on the test's clock, with any number in flight. */
class SlowTarget implements BenchTarget {
  readonly sent: { turn: TurnToSend; atMs: number }[] = [];
  underWay = 0;
  readonly #clock: TestClock;
  readonly #fails: (turn: TurnToSend) => Error | null;

  constructor(time: TestClock, fails: (turn: TurnToSend) => Error | null = () => null) {
    this.#clock = time;
    this.#fails = fails;
  }

  async send(turn: TurnToSend): Promise<AnsweredTurn> {
    this.sent.push({ turn, atMs: this.#clock.now() });
    this.underWay++;
    await this.#clock.sleep(100, turn.signal);
    this.underWay--;
    turn.signal.throwIfAborted();
    const error = this.#fails(turn);
    if (error) throw error;
    return {
      ttftMs: 60,
      latencyMs: 100,
      gapsMs: [],
      inputTokens: null,
      outputTokens: turn.forced!.length,
      chunks: turn.forced!.length,
      output: turn.forced!,
      answer: { kind: 'tokens', tokenIds: turn.forced! },
      account: { localHitTokens: 0, pulledTokens: 0, computedTokens: 0 },
      stagesMs: {},
      bytesPToD: 0,
      bytesDToP: 0,
    };
  }

  async endConversation(): Promise<void> {}
  async settled(): Promise<void> {}
}

async function* stream(requests: readonly TraceRequest[]) {
  yield* requests;
}

/** Serves a trace, and moves the clock whenever nothing else happens. */
async function serve(
  requests: readonly TraceRequest[],
  target: SlowTarget,
  time: TestClock,
  signal = new AbortController().signal,
) {
  const turns = traceTurns(stream(requests), {
    scale: UNSCALED,
    maxModelLen: null,
    bad: new BadLines('made', false),
  });
  let over = false;
  const serving = serveTrace(target, new TraceFeed(turns), {
    round: 1,
    tokens,
    signal,
    now: () => time.now(),
    sleep: (ms, until) => time.sleep(ms, until),
    onRequest: () => {},
  }).finally(() => {
    over = true;
  });
  serving.catch(() => {});
  while (!over) {
    await new Promise((resolve) => setImmediate(resolve));
    time.skip();
  }
  return serving;
}

describe('serveTrace()', () => {
  it('sends requests at their arrival times, and follow-ups after the answer and the think time', async () => {
    const time = clock();
    const target = new SlowTarget(time);
    const served = await serve(
      [
        request(0, { arrivalMs: 0, origin: session('a') }),
        request(1, { arrivalMs: 30, origin: session('b') }),
        request(2, { arrivalMs: null, origin: session('a', 20), inputTokens: 40 }),
        request(3, { arrivalMs: 50, origin: session('c') }),
      ],
      target,
      time,
    );
    expect(target.sent.map(({ turn, atMs }) => [turn.conversationId, turn.turn, atMs])).toEqual([
      ['a', 1, 0],
      ['b', 1, 30],
      ['c', 1, 50],
      ['a', 2, 120],
    ]);
    expect(served.requests.map(({ sample }) => [sample.conversation_id, sample.start_ms])).toEqual([
      ['a', 0],
      ['b', 30],
      ['c', 50],
      ['a', 120],
    ]);
    expect(served.runtimeMs).toBe(220);
  });

  it('makes engines generate the tokens that the next prompt contains', async () => {
    const time = clock();
    const target = new SlowTarget(time);
    const requests = [
      request(0, { arrivalMs: 0, outputTokens: 7, origin: session('a') }),
      request(1, { arrivalMs: null, inputTokens: 40, origin: session('a', 0) }),
    ];
    await serve(requests, target, time);
    const [first, second] = target.sent.map(({ turn }) => turn);
    const ids = (turn: TurnToSend) => (turn.prompt.kind === 'tokens' ? turn.prompt.tokenIds : []);
    expect(ids(second!).slice(0, 23)).toEqual([...ids(first!), ...first!.forced!]);
    expect(first).toMatchObject({ minTokens: 7, maxTokens: 7 });
  });

  it('counts a refused request and continues its conversation', async () => {
    const time = clock();
    const target = new SlowTarget(time, ({ turn }) => (turn === 1 ? new RequestError('too long') : null));
    const served = await serve(
      [request(0, { origin: session('a') }), request(1, { inputTokens: 40, origin: session('a') })],
      target,
      time,
    );
    expect([...served.errors]).toEqual([['too long', 1]]);
    expect(served.requests.map(({ sample }) => sample.turn)).toEqual([2]);
  });

  it('fails with an internal error and leaves no request in flight', async () => {
    const time = clock();
    const target = new SlowTarget(time, ({ conversationId }) =>
      conversationId === 'trace-0' ? new InternalError('broken') : null,
    );
    const requests = [0, 1, 2].map((index) => request(index, { arrivalMs: 10 * index }));
    await expect(serve(requests, target, time)).rejects.toThrow('broken');
    expect(target.underWay).toBe(0);
  });

  it('ends when it is aborted while it waits for the next request', async () => {
    const time = clock();
    const target = new SlowTarget(time);
    const interrupt = new AbortController();
    const serving = serve([request(0, {}), request(1, { arrivalMs: 1e9 })], target, time, interrupt.signal);
    interrupt.abort(new Error('interrupted'));
    await expect(serving).rejects.toThrow('interrupted');
    expect(target.sent.length).toBeLessThanOrEqual(1);
  });
});
