import { describe, expect, test } from 'vitest';
import { Buckets, equalRanges } from '../../../src/router/policies/sglang/buckets.ts';
import { PrefixTree } from '../../../src/router/policies/sglang/prefix-tree.ts';
import { policyOf, view } from '../policies.ts';
import { chosen, sent, tokens } from './fleet.ts';

const sglang = (parameters: object = {}, draws?: number[]) => policyOf('sglang', parameters, draws);
const busy = (engineId: string, inFlight: number) => view(engineId, { inFlight });
const D = [view('d0')];

describe('cache_aware', () => {
  test('one P and one D, nothing known, no prompt', () => {
    expect(chosen(sglang(), [view('p0')], D, { promptTokenIds: [] })).toBe('p0 d0');
  });

  test('more than 64 apart and more than 1.5 times: the least loaded; at either, the prefix', () => {
    const policy = sglang();
    sent(policy, 'p0', 'd0');
    const at = (p0: number, p1: number) => chosen(policy, [busy('p0', p0), busy('p1', p1)], D);
    expect(at(65, 0)).toBe('p1 d0');
    expect(at(64, 0)).toBe('p0 d0');
    // 70 apart: 210 is 1.5 times 140, 211 is 1.5 times less than 140.67
    expect(at(210, 140)).toBe('p0 d0');
    expect(at(211, 140)).toBe('p1 d0');
  });

  test('more than 0.3 of the prompt: where it was sent; 0.3 is not enough', () => {
    const policy = sglang();
    sent(policy, 'p0', 'd0', tokens(30));
    const p = [view('p0'), view('p1')];
    // The smaller tree is p1's.
    expect(chosen(policy, p, D, { promptTokenIds: tokens(100) })).toBe('p1 d0');
    expect(chosen(policy, p, D, { promptTokenIds: tokens(99) })).toBe('p0 d0');
  });

  test('where two were sent it, the one that was last', () => {
    const policy = sglang();
    sent(policy, 'p1', 'd0', tokens(50), { nowMs: 1 });
    sent(policy, 'p0', 'd0', tokens(50), { nowMs: 2 });
    const now = () => chosen(policy, [view('p0'), view('p1')], D, { promptTokenIds: tokens(50) });
    expect(now()).toBe('p0 d0');
    sent(policy, 'p1', 'd0', tokens(50), { nowMs: 3 });
    expect(now()).toBe('p1 d0');
  });

  test('one that is no candidate is passed over', () => {
    const policy = sglang();
    sent(policy, 'p9', 'd0', tokens(50));
    expect(chosen(policy, [view('p0')], D, { promptTokenIds: tokens(50) })).toBe('p0 d0');
  });

  test('a tree above its size is cut every 120 s', () => {
    const policy = sglang({ maxTreeSize: 100 });
    sent(policy, 'p0', 'd0', tokens(80), { nowMs: 0 });
    sent(policy, 'p0', 'd0', tokens(60, 1000), { nowMs: 119_999 });
    const p = [view('p0'), view('p1')];
    const goes = () => chosen(policy, p, D, { promptTokenIds: tokens(80) });
    expect(goes()).toBe('p0 d0');
    sent(policy, 'p0', 'd0', tokens(10, 5000), { nowMs: 120_000 });
    expect(goes()).toBe('p1 d0');
    expect(chosen(policy, p, D, { promptTokenIds: tokens(60, 1000) })).toBe('p0 d0');
  });
});

describe("D's policies", () => {
  test('power_of_two: the less busy of two that are drawn, the first of equals', () => {
    const d = [busy('d0', 3), busy('d1', 1), busy('d2', 0)];
    // One P draws once among equals of trees; then 0.4 of three is d1, and 0 of d0, d2 is d0.
    const of = (...draws: number[]) =>
      chosen(sglang({ prefillPolicy: 'round_robin' }, draws), [view('p0')], d);
    expect(of(0.4, 0)).toBe('p0 d1');
    expect(of(0, 0.9)).toBe('p0 d2');
    expect(of(0, 0)).toBe('p0 d1');
  });

  test('round_robin and random', () => {
    const d = [view('d0'), view('d1')];
    const p = [view('p0'), view('p1')];
    const turn = { prefillPolicy: 'round_robin', decodePolicy: 'round_robin' };
    expect(chosen(sglang(turn), p, d, { number: 3 })).toBe('p1 d1');
    const drawn = { prefillPolicy: 'random', decodePolicy: 'random' };
    expect(chosen(sglang(drawn, [0.6, 0.4]), p, d)).toBe('p1 d0');
  });
});

describe('bucket', () => {
  test('at first 4096 is spread evenly, and the last is open', () => {
    const buckets = new Buckets(5000);
    const at = (length: number) => buckets.find(4, length);
    expect([0, 1023, 1024, 3071, 3072, 99_999].map(at)).toEqual([0, 0, 1, 2, 3, 3]);
    expect(buckets.find(1, 99_999)).toBe(0);
  });

  test('ranges have the same tokens', () => {
    // 1200 tokens: 400 each. 100 + 100 + 200 reaches it at 200, 200 + 200 at 200 again, which is no range after 200.
    expect(equalRanges([100, 100, 200, 200, 200, 400], 400, 3)).toEqual([200, 601, Number.POSITIVE_INFINITY]);
    expect(equalRanges([10], 5, 2)).toEqual([10, Number.POSITIVE_INFINITY]);
    // Lengths ran out: as wide as the load.
    expect(equalRanges([10], 100, 2)).toEqual([100, Number.POSITIVE_INFINITY]);
  });

  test('they move after 5 s, when the load more than doubled', () => {
    const buckets = new Buckets(5000);
    const record = (tokens: number, atMs: number) => buckets.record({ engineId: 'p0', tokens, atMs });
    for (let i = 0; i < 4; i++) record(100, i);
    expect(buckets.find(2, 150)).toBe(0);
    record(300, 5000);
    // 400 tokens of 100 each: the first half of the load is at 100.
    expect([buckets.find(2, 100), buckets.find(2, 101)]).toEqual([0, 1]);
  });

  test('load is what was sent within 5 s; out of balance, the least loaded', () => {
    const policy = sglang({ prefillPolicy: 'bucket' });
    const p = [view('p0'), view('p1')];
    const goes = (nowMs = 0) => chosen(policy, p, D, { promptTokenIds: tokens(10), nowMs });
    expect(goes()).toBe('p0 d0');
    sent(policy, 'p0', 'd0', tokens(64), { nowMs: 0 });
    expect(goes()).toBe('p0 d0');
    sent(policy, 'p0', 'd0', tokens(1), { nowMs: 0 });
    expect(goes()).toBe('p1 d0');
    sent(policy, 'p1', 'd0', tokens(1), { nowMs: 5001 });
    expect(goes()).toBe('p0 d0');
  });
});

describe('the tree', () => {
  const all = new Set(['p0', 'p1']);
  test('splits where prompts part, and counts tokens of each engine once', () => {
    const tree = new PrefixTree();
    tree.insert([1, 2, 3, 4], 'p0', 1);
    tree.insert([1, 2, 5], 'p1', 2);
    expect([tree.sizeOf('p0'), tree.sizeOf('p1')]).toEqual([4, 3]);
    expect(tree.match([1, 2, 3], all)).toEqual({ tokens: 3, engineId: 'p0' });
    expect(tree.match([1, 2], all)).toEqual({ tokens: 2, engineId: 'p1' });
    expect(tree.match([1, 2, 5, 6], all)).toEqual({ tokens: 3, engineId: 'p1' });
    expect(tree.match([7], all)).toEqual({ tokens: 0, engineId: null });
    tree.insert([1, 2, 3, 4], 'p0', 3);
    expect(tree.sizeOf('p0')).toBe(4);
  });

  test('an engine that ended leaves it, and what others were sent stays', () => {
    const tree = new PrefixTree();
    tree.insert([1, 2, 3, 4], 'p0', 1);
    tree.insert([1, 2, 5], 'p1', 2);
    tree.insert([7, 8], 'p0', 3);
    tree.forget('p0');
    expect([tree.sizeOf('p0'), tree.sizeOf('p1')]).toEqual([0, 3]);
    expect(tree.match([1, 2, 3, 4], all)).toEqual({ tokens: 2, engineId: 'p1' });
    expect(tree.match([7, 8], all).tokens).toBe(0);
  });

  test('the longest unused goes first, leaves before what they hang on', () => {
    const tree = new PrefixTree();
    tree.insert([1, 2, 3, 4], 'p0', 1);
    tree.insert([1, 2, 5, 6], 'p0', 2);
    tree.evict(4);
    expect(tree.sizeOf('p0')).toBe(4);
    expect(tree.match([1, 2, 3, 4], all).tokens).toBe(2);
    expect(tree.match([1, 2, 5, 6], all).tokens).toBe(4);
    tree.evict(0);
    expect([tree.sizeOf('p0'), tree.match([1], all).tokens]).toEqual([0, 0]);
  });
});
