/** One turn's ways through the engines: what each is asked, and what is released however the turn ends. */
import { describe, expect, it } from 'vitest';
import { DEFAULT_SAMPLING } from '../../src/engine/sampling.ts';
import type { RequestOutput } from '../../src/engine/types.ts';
import { ExpiredError, RefusedError, TransferError } from '../../src/errors.ts';
import { OutputStream } from '../../src/router/output-stream.ts';
import {
  type PlannedEngines,
  requestOutputs,
  type Turn,
  turnOutputs,
} from '../../src/router/turn-outputs.ts';
import { settled } from '../clock.ts';
import { FakeEngine } from './fake-engine.ts';

function world() {
  const prefill = new FakeEngine('p0', 'prefill');
  const decode = new FakeEngine('d0', 'decode');
  const turn = (changes: Partial<Turn> = {}): Turn => ({
    ...{
      requestIds: { prefill: 'P', decode: 'D' },
      promptTokenIds: [1, 2, 3],
      cacheSalt: 'salt',
      acceptedMs: 7,
    },
    ...{ sampling: { ...DEFAULT_SAMPLING, maxTokens: 3, minTokens: 2, keepLogits: true } },
    ...{ remote: null, pull: null, signal: null, stopped: null },
    ...changes,
  });
  const way = (name: 'pull' | 'streamed'): PlannedEngines => ({ way: name, prefill, decode });
  const read = async (how: PlannedEngines, asked: Turn, most = Number.POSITIVE_INFINITY) => {
    const heard: string[] = [];
    for await (const { side, answers } of turnOutputs(how, asked)) {
      heard.push(`${side}${answers ? '' : ', no answer'}`);
      if (heard.length >= most) break;
    }
    await settled();
    return heard;
  };
  return { prefill, decode, turn, way, read };
}

describe.each(['pull', 'streamed'] as const)('a turn over P and D, %s,', (name) => {
  it('asks P for one token without logits, and D for the rest', async () => {
    const { prefill, decode, turn, way, read } = world();
    const heard = await read(way(name), turn({ pull: 'never' }));
    expect(heard).toEqual(['prefill, no answer', 'decode', 'decode', 'decode']);
    const [atP] = prefill.requests;
    expect(atP).toMatchObject({
      ...{ requestId: 'P', promptTokenIds: [1, 2, 3], cacheSalt: 'salt' },
      sampling: { maxTokens: 1, minTokens: 0, keepLogits: false },
      kvTransferParams: { do_remote_decode: true, do_remote_prefill: false, pull_policy: 'never' },
    });
    expect(atP!.kvTransferParams!.streamed).toBe(name === 'streamed' ? true : undefined);
    const [atD] = decode.requests;
    expect(atD).toMatchObject({
      ...{ requestId: 'D', cacheSalt: 'salt', sampling: { maxTokens: 3, minTokens: 2, keepLogits: true } },
      kvTransferParams: { do_remote_prefill: true, do_remote_decode: false, remote_request_id: 'P' },
    });
    if (name === 'streamed') {
      expect(atD!.kvTransferParams).toEqual({
        ...{ do_remote_decode: false, do_remote_prefill: true, remote_block_ids: null, streamed: true },
        ...{ remote_engine_id: 'p0', remote_request_id: 'P', remote_host: 'localhost', remote_port: 5600 },
      });
    }
    // D reads P's blocks and tells P so itself, so the router releases nothing.
    expect([prefill.released, prefill.aborted, decode.released, decode.aborted]).toEqual([[], [], [], []]);
  });

  it('releases P’s blocks if the client leaves before D begins, and D’s if it leaves later', async () => {
    const { prefill, decode, turn, way, read } = world();
    await read(way(name), turn(), 1);
    expect(prefill.released).toContain('P');
    const later = world();
    await later.read(later.way(name), later.turn(), 2);
    expect(later.prefill.released).toEqual([]);
    expect([later.decode.aborted, later.decode.released]).toEqual([['D'], ['D']]);
    expect(decode.released).toEqual(name === 'streamed' ? ['D'] : []);
  });

  it('releases P’s blocks if D fails, and throws P’s error if P fails', async () => {
    const { prefill, decode, turn, way, read } = world();
    decode.fails = () => 'D says no';
    await expect(read(way(name), turn())).rejects.toThrow('d0: D says no');
    await settled();
    expect(prefill.released).toContain('P');
    const other = world();
    other.prefill.fails = () => 'P says no';
    other.decode.pace = () => (name === 'streamed' ? new Promise(() => {}) : Promise.resolve());
    await expect(other.read(other.way(name), other.turn())).rejects.toThrow('p0: P says no');
    await settled();
    expect(other.decode.aborted).toEqual(name === 'streamed' ? ['D'] : []);
  });

  it('passes a stop that came before to D with its first output, never to P', async () => {
    const { prefill, decode, turn, way, read } = world();
    decode.pace = settled;
    const stop = new AbortController();
    stop.abort();
    const outputs = await read(way(name), turn({ stopped: stop.signal }));
    expect(outputs).toEqual(['prefill, no answer', 'decode', 'decode']);
    expect([prefill.stopped, decode.stopped]).toEqual([[], ['D']]);
  });
});

describe('one request', () => {
  const request = (requestId: string) => {
    const { turn } = world();
    const { promptTokenIds, sampling } = turn();
    return { requestId, promptTokenIds, sampling, kvTransferParams: null, cacheSalt: null };
  };
  const all = async (outputs: AsyncIterable<unknown>) => {
    const heard: unknown[] = [];
    for await (const each of outputs) heard.push(each);
    return heard;
  };
  const nobody = { signal: null, stopped: null };

  it('is not sent if its client has already left', async () => {
    const { decode } = world();
    const signal = AbortSignal.abort(new Error('gone'));
    await expect(all(requestOutputs(decode, request('a'), { signal, stopped: null }))).rejects.toThrow(
      'gone',
    );
    expect(decode.requests).toEqual([]);
  });

  it('ends at once when its signal aborts, between tokens and while its engine does not answer', async () => {
    const { decode } = world();
    const leave = new AbortController();
    decode.pace = () => new Promise(() => {});
    const reading = all(requestOutputs(decode, request('a'), { signal: leave.signal, stopped: null }));
    await settled();
    leave.abort(new Error('gone'));
    await expect(reading).rejects.toThrow('gone');
    await settled();
    expect([decode.aborted, decode.released]).toEqual([['a'], ['a']]);

    const stuck = world().decode;
    let answer: (stream: OutputStream) => void = () => {};
    stuck.submit = () => new Promise((resolve) => (answer = resolve));
    const left = new AbortController();
    const waiting = all(requestOutputs(stuck, request('b'), { signal: left.signal, stopped: null }));
    await settled();
    left.abort(new Error('gone too'));
    await expect(waiting).rejects.toThrow('gone too');
    expect(stuck.aborted).toEqual([]);
    // What the engine accepts after that is aborted and released.
    answer(new OutputStream('b'));
    await settled();
    expect([stuck.aborted, stuck.released]).toEqual([['b'], ['b']]);
  });

  it('also ends if its signal aborts just as the engine accepts it', async () => {
    const { decode } = world();
    const leave = new AbortController();
    const take = decode.submit.bind(decode);
    decode.submit = async (asked) => {
      const stream = await take(asked);
      queueMicrotask(() => queueMicrotask(() => queueMicrotask(() => leave.abort(new Error('just now')))));
      return stream;
    };
    decode.pace = () => new Promise(() => {});
    await expect(
      all(requestOutputs(decode, request('a'), { signal: leave.signal, stopped: null })),
    ).rejects.toThrow('just now');
  });

  it('that failed throws the error class of its code', async () => {
    const failing = (error: NonNullable<RequestOutput['finish']>['error']) => {
      const { decode } = world();
      decode.submit = async ({ requestId }) => {
        const stream = new OutputStream(requestId);
        const times = { arrivalMs: 0, queuedMs: 0, scheduledMs: 0 };
        const finish = { reason: 'error', error, kvTransferParams: null, numPreemptions: 0 } as const;
        stream.push({ requestId, tokens: [], prompt: null, times, finish }, 1);
        return stream;
      };
      return all(requestOutputs(decode, request('a'), nobody));
    };
    await expect(failing({ code: 'refused', message: 'not yours' })).rejects.toThrow(RefusedError);
    await expect(failing({ code: 'refused', message: 'not yours' })).rejects.toThrow('d0: not yours');
    await expect(failing({ code: 'expired', message: 'too late' })).rejects.toThrow(ExpiredError);
    await expect(failing({ code: 'transfer', message: 'lost' })).rejects.toThrow(TransferError);
    await expect(failing(null)).rejects.toThrow('d0: the request failed');
  });

  it('leaves no listeners on signals that outlive it', async () => {
    const { decode } = world();
    const signal = new AbortController().signal;
    let listeners = 0;
    const add = signal.addEventListener.bind(signal);
    const remove = signal.removeEventListener.bind(signal);
    signal.addEventListener = (...args: Parameters<typeof add>) => {
      listeners++;
      add(...args);
    };
    signal.removeEventListener = (...args: Parameters<typeof remove>) => {
      listeners--;
      remove(...args);
    };
    expect(await all(requestOutputs(decode, request('a'), { signal, stopped: signal }))).toHaveLength(3);
    await settled();
    expect(listeners).toBe(0);
  });
});
