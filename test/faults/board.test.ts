import { describe, expect, it } from 'vitest';
import { FaultBoard, type Injected } from '../../src/faults/board.ts';
import { TestClock } from '../clock.ts';
import { FakeEngine } from '../router/fake-engine.ts';

const fault = (more: Partial<Injected>): Omit<Injected, 'times'> => ({
  engine: 'decode-0',
  fault: 'server_error',
  rate: 100,
  delayMs: 200,
  ...more,
});

describe('faults on a fault board', () => {
  it('happen at their rate to the engine they name, and repeat with the seed', async () => {
    const drawn = async (seed: number): Promise<boolean[]> => {
      const board = new FaultBoard(new TestClock());
      await board.add([fault({ rate: 30 })], seed);
      return Array.from({ length: 2000 }, () => board.atPort('decode-0') !== null);
    };
    const [first, again, other] = await Promise.all([drawn(1), drawn(1), drawn(2)]);
    expect(first).toEqual(again);
    expect(first).not.toEqual(other);
    expect(first.filter(Boolean).length / first.length).toBeCloseTo(0.3, 1);
    const board = new FaultBoard(new TestClock());
    await board.add([fault({})], null);
    expect([board.atPort('decode-0'), board.atPort('decode-1')]).toEqual(['server_error', null]);
    expect(board.injected).toEqual([{ ...fault({}), times: 1 }]);
  });

  it('replace the same fault on the same engine, and clear() ends them all', async () => {
    const board = new FaultBoard(new TestClock());
    await board.add([fault({ rate: 1 }), fault({ engine: 'router' })], 5);
    await board.add([fault({ rate: 2 })], null);
    expect(board.injected.map(({ engine, rate }) => [engine, rate])).toEqual([
      ['router', 100],
      ['decode-0', 2],
    ]);
    expect(board.seed).toBe(5);
    board.clear();
    expect(board.injected).toEqual([]);
    expect(board.atPort('router')).toBeNull();
  });

  it('of kind kill kill their engine at once without a rate, and at a request with a rate', async () => {
    const killed: string[] = [];
    const board = new FaultBoard(new TestClock());
    board.kill = async (engine) => void killed.push(engine);
    await board.add([fault({ fault: 'kill', rate: null })], null);
    expect(killed).toEqual(['decode-0']);
    expect(board.injected).toMatchObject([{ fault: 'kill', times: 1 }]);
    await board.add([fault({ fault: 'kill', rate: 100, engine: 'prefill-0' })], null);
    const engine = board.client(new FakeEngine('prefill-0.3', 'prefill'));
    await engine.submit({
      requestId: 'a',
      promptTokenIds: [1],
      sampling: { maxTokens: 1 } as never,
      kvTransferParams: null,
      cacheSalt: null,
    });
    expect(killed).toEqual(['decode-0', 'prefill-0']);
  });

  it('of kind hang delay a submit until they end', async () => {
    const board = new FaultBoard(new TestClock());
    const inner = new FakeEngine('decode-0', 'decode');
    const engine = board.client(inner);
    expect(board.client(inner)).toBe(engine);
    await board.add([fault({ fault: 'hang' })], null);
    let submitted = false;
    const submitting = engine
      .submit({
        requestId: 'a',
        promptTokenIds: [1],
        sampling: { maxTokens: 1 } as never,
        kvTransferParams: null,
        cacheSalt: null,
      })
      .then(() => {
        submitted = true;
      });
    await new Promise((go) => setImmediate(go));
    expect(submitted).toBe(false);
    board.clear();
    await submitting;
  });

  it.each(['hang', 'slow'] as const)(
    'of kind %s delay any number of submits, without a warning of a leak',
    async (kind) => {
      const warnings: Error[] = [];
      const warned = (warning: Error) => void warnings.push(warning);
      process.on('warning', warned);
      const clock = new TestClock();
      const board = new FaultBoard(clock);
      await board.add([fault({ fault: kind })], null);
      const engine = board.client(new FakeEngine('decode-0', 'decode'));
      const submitting = Array.from({ length: 30 }, (_, i) =>
        engine.submit({
          requestId: `${i}`,
          promptTokenIds: [1],
          sampling: { maxTokens: 1 } as never,
          kvTransferParams: null,
          cacheSalt: null,
        }),
      );
      await new Promise((go) => setImmediate(go));
      board.clear();
      await Promise.all(submitting);
      process.off('warning', warned);
      expect(warnings).toEqual([]);
    },
  );

  it('of kind hang let a waiting submit fail when the engine is killed', async () => {
    const board = new FaultBoard(new TestClock());
    const inner = new FakeEngine('decode-0', 'decode');
    board.kill = async () => inner.end();
    await board.add([fault({ fault: 'hang' })], null);
    const submitting = board.client(inner).submit({
      requestId: 'a',
      promptTokenIds: [1],
      sampling: { maxTokens: 1 } as never,
      kvTransferParams: null,
      cacheSalt: null,
    });
    const failed = expect(submitting).rejects.toThrow('decode-0 ended');
    await board.add([fault({ fault: 'kill', rate: null })], null);
    await failed;
  });

  it('on messages hit their share of the matching messages, and stop at that rate once replaced', async () => {
    const board = new FaultBoard(new TestClock());
    const at = (engineId: string, port: number) => ({ engineId, host: 'localhost', port });
    const [ofP, ofD] = board.wire(at('prefill-0', 1), at('decode-0', 2));
    const got: string[] = [];
    ofD.onmessage = ({ data }) => void got.push(data.kind);
    const notices = () => got.filter((kind) => kind === 'notification').length;
    const rounds = async (count: number) => {
      for (let round = 0; round < count; round++) {
        for (let i = 0; i < 20; i++) ofP.postMessage({ kind: 'credit', epoch: 1, transferId: 't', index: i });
        ofP.postMessage({ kind: 'notification' });
      }
      ofP.postMessage({ kind: 'nothing more' });
      await expect.poll(() => got.at(-1)).toBe('nothing more');
    };
    await board.add([fault({ engine: 'prefill-0', fault: 'lose-notice', rate: 5 })], 3);
    await rounds(400);
    const lost = 400 - notices();
    expect(lost / 400).toBeCloseTo(0.05, 1);
    expect(lost).toBeGreaterThan(0);
    expect(board.injected).toMatchObject([{ times: lost }]);
    await board.add([fault({ engine: 'prefill-0', fault: 'lose-notice', rate: 0.0001 })], null);
    got.length = 0;
    await rounds(10);
    expect(notices()).toBe(10);
    ofP.close();
    ofD.close();
  });

  it('hit only messages of the engine they name, and none once they have ended', async () => {
    const clock = new TestClock();
    const board = new FaultBoard(clock);
    const at = (engineId: string, port: number) => ({ engineId, host: 'localhost', port });
    const [ofP, ofD] = board.wire(at('prefill-0', 1), at('decode-0.2', 2));
    const got = { p: [] as unknown[], d: [] as unknown[] };
    ofP.onmessage = ({ data }) => void got.p.push(data.index);
    ofD.onmessage = ({ data }) => void got.d.push(data.index);
    const credit = (index: number) => ({ kind: 'credit', epoch: 1, transferId: 't', index, slot: 0 });
    const arrived = (p: number[], d: number[]) => expect.poll(() => got).toEqual({ p, d });
    await board.add([fault({ fault: 'lose' }), fault({ engine: 'prefill-0', fault: 'repeat' })], null);
    ofD.postMessage(credit(1));
    ofP.postMessage(credit(2));
    await arrived([], [2, 2]);
    await board.add([fault({ fault: 'lose', rate: 0.0001 }), fault({ fault: 'delay', delayMs: 50 })], null);
    ofD.postMessage(credit(3));
    await expect.poll(() => board.injected.map(({ times }) => times)).toEqual([1, 0, 1]);
    expect(got.p).toEqual([]);
    clock.advance(50);
    await arrived([3], [2, 2]);
    ofD.postMessage(credit(4));
    await expect.poll(() => board.injected.at(-1)!.times).toBe(2);
    clock.advance(30);
    ofD.postMessage(credit(5));
    await expect.poll(() => board.injected.at(-1)!.times).toBe(3);
    // Each message has its own delay: the earlier one is released alone.
    clock.advance(20);
    await arrived([3, 4], [2, 2]);
    board.clear();
    await arrived([3, 4, 5], [2, 2]);
    ofD.postMessage(credit(6));
    await arrived([3, 4, 5, 6], [2, 2]);
    ofP.close();
    ofD.close();
  });
});
