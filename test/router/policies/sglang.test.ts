import { describe, expect, test } from 'vitest';
import { Buckets, equalRanges } from '../../../src/router/policies/sglang/buckets.ts';
import { PrefixTree } from '../../../src/router/policies/sglang/prefix-tree.ts';
import { policyOf, view } from '../policies.ts';
import { chosen, sent, tokens } from './fleet.ts';

const sglang = (parameters: object = {}, draws?: number[]) => policyOf('sglang', parameters, draws);
const busy = (engineId: string, inFlight: number) => view(engineId, { inFlight });
const D = [view('d0')];

describe('cache_aware', () => {
  test('routes an empty prompt to the only P and D', () => {
    expect(chosen(sglang(), [view('p0')], D, { promptTokenIds: [] })).toBe('p0 d0');
  });

  test('picks the least loaded P if loads differ by more than 64 and by more than a factor of 1.5', () => {
    const policy = sglang();
    sent(policy, 'p0', 'd0');
    const at = (p0: number, p1: number) => chosen(policy, [busy('p0', p0), busy('p1', p1)], D);
    expect(at(65, 0)).toBe('p1 d0');
    expect(at(64, 0)).toBe('p0 d0');
    // More than 64 apart: 210 is exactly 1.5 times 140, and 211 is more.
    expect(at(210, 140)).toBe('p0 d0');
    expect(at(211, 140)).toBe('p1 d0');
  });

  test('picks the P that was sent more than 0.3 of the prompt', () => {
    const policy = sglang();
    sent(policy, 'p0', 'd0', tokens(30));
    // Exactly 0.3 is not enough: the least loaded is taken, though its tree is the largest.
    sent(policy, 'p1', 'd0', tokens(200, 1000));
    const p = [busy('p0', 2), busy('p1', 1)];
    expect(chosen(policy, p, D, { promptTokenIds: tokens(100) })).toBe('p1 d0');
    expect(chosen(policy, p, D, { promptTokenIds: tokens(99) })).toBe('p0 d0');
  });

  test('picks the P that was sent the prompt last, if two were', () => {
    const policy = sglang();
    sent(policy, 'p1', 'd0', tokens(50), { nowMs: 1 });
    sent(policy, 'p0', 'd0', tokens(50), { nowMs: 2 });
    const now = () => chosen(policy, [view('p0'), view('p1')], D, { promptTokenIds: tokens(50) });
    expect(now()).toBe('p0 d0');
    sent(policy, 'p1', 'd0', tokens(50), { nowMs: 3 });
    expect(now()).toBe('p1 d0');
  });

  test('skips an engine that is not a candidate', () => {
    const policy = sglang();
    sent(policy, 'p9', 'd0', tokens(50));
    expect(chosen(policy, [view('p0')], D, { promptTokenIds: tokens(50) })).toBe('p0 d0');
  });

  test('trims a tree that is above maxTreeSize every 120 s', () => {
    const policy = sglang({ maxTreeSize: 100 });
    sent(policy, 'p0', 'd0', tokens(80), { nowMs: 0 });
    sent(policy, 'p0', 'd0', tokens(60, 1000), { nowMs: 119_999 });
    const p = [busy('p0', 1), view('p1')];
    const goes = () => chosen(policy, p, D, { promptTokenIds: tokens(80) });
    expect(goes()).toBe('p0 d0');
    sent(policy, 'p0', 'd0', tokens(10, 5000), { nowMs: 120_000 });
    expect(goes()).toBe('p1 d0');
    expect(chosen(policy, p, D, { promptTokenIds: tokens(60, 1000) })).toBe('p0 d0');
  });
});

describe("D's policies", () => {
  test('include power_of_two, which picks the less busy of two drawn engines', () => {
    const d = [busy('d0', 3), busy('d1', 1), busy('d2', 0)];
    // P draws nothing. 0.4 of three draws d1, then 0 of d0 and d2 draws d0.
    const of = (...draws: number[]) =>
      chosen(sglang({ prefillPolicy: 'round_robin' }, draws), [view('p0')], d);
    expect(of(0.4, 0)).toBe('p0 d1');
    expect(of(0, 0.9)).toBe('p0 d2');
    expect(of(0, 0)).toBe('p0 d1');
  });

  test('include round_robin and random, as for P', () => {
    const d = [view('d0'), view('d1')];
    const p = [view('p0'), view('p1')];
    const turn = { prefillPolicy: 'round_robin', decodePolicy: 'round_robin' };
    expect(chosen(sglang(turn), p, d, { number: 3 })).toBe('p1 d1');
    const drawn = { prefillPolicy: 'random', decodePolicy: 'random' };
    expect(chosen(sglang(drawn, [0.6, 0.4]), p, d)).toBe('p1 d0');
  });
});

describe('the bucket policy', () => {
  test('starts with 4,096 tokens split evenly into ranges, the last of which is open', () => {
    const buckets = new Buckets(5000);
    const at = (length: number) => buckets.rangeOf(4, length);
    expect([0, 1023, 1024, 3071, 3072, 99_999].map(at)).toEqual([0, 0, 1, 2, 3, 3]);
    expect(buckets.rangeOf(1, 99_999)).toBe(0);
  });

  test('splits prompt lengths into ranges with the same number of tokens', () => {
    // 1200 tokens, 400 each. 100 + 100 + 200 ends at 200. 200 + 200 would end at 200 again, which leaves no range.
    expect(equalRanges([100, 100, 200, 200, 200, 400], 400, 3)).toEqual([200, 601, Number.POSITIVE_INFINITY]);
    expect(equalRanges([10], 5, 2)).toEqual([10, Number.POSITIVE_INFINITY]);
    // No lengths are left: the range is as wide as the load.
    expect(equalRanges([10], 100, 2)).toEqual([100, Number.POSITIVE_INFINITY]);
  });

  test('adjusts its ranges after 5 s to the prompts that were sent', () => {
    const buckets = new Buckets(5000);
    const record = (tokens: number, atMs: number) => buckets.record({ engineId: 'p0', tokens, atMs });
    for (let i = 0; i < 4; i++) record(100, i);
    expect(buckets.rangeOf(2, 150)).toBe(0);
    record(300, 5000);
    // 400 tokens in prompts of 100: the first half of the load ends at 100.
    expect([buckets.rangeOf(2, 100), buckets.rangeOf(2, 101)]).toEqual([0, 1]);
  });

  test('adjusts its ranges again only when the tokens sent have more than doubled or halved', () => {
    const buckets = new Buckets(5000);
    let nowMs = 0;
    /** Sends prompts of these lengths at once, and lets the ranges follow; returns where the first of two ends. */
    const endAfter = (...lengths: number[]): number => {
      for (const tokens of lengths) buckets.record({ engineId: 'p0', tokens, atMs: nowMs });
      nowMs += 5001;
      // One token, which is all that the next adjustment sees if nothing else was sent.
      buckets.record({ engineId: 'p0', tokens: 1, atMs: nowMs });
      let end = 0;
      while (buckets.rangeOf(2, end + 1) === 0) end++;
      return end;
    };
    expect(endAfter(300, 100, 200)).toBe(200);
    // 1 + 599 + 600 is twice 600, 1 + 299 half of it: neither is more than that.
    expect(endAfter(599, 600)).toBe(200);
    expect(endAfter(299)).toBe(200);
    expect(endAfter(20, 278)).toBe(278);
    expect(endAfter(10, 587)).toBe(278);
    expect(endAfter(10, 30, 1000)).toBe(1000);
  });

  test('counts the tokens sent within exactly 5 s', () => {
    const buckets = new Buckets(5000);
    const record = (engineId: string, tokens: number, atMs: number) =>
      buckets.record({ engineId, tokens, atMs });
    record('p0', 10, 0);
    record('p0', 20, 1);
    record('p1', 5, 5000);
    expect([buckets.load('p0'), buckets.load('p1'), buckets.load('p2')]).toEqual([30, 5, 0]);
    record('p1', 6, 5001);
    expect([buckets.load('p0'), buckets.load('p1')]).toEqual([20, 11]);
    record('p1', 7, 20_000);
    expect([buckets.load('p0'), buckets.load('p1')]).toEqual([0, 7]);
  });

  test('picks the least loaded P if the tokens sent within 5 s are out of balance', () => {
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

describe('the prefix tree', () => {
  const all = new Set(['p0', 'p1']);
  test('splits where prompts diverge, and counts each token once per engine', () => {
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

  test('forgets an engine and keeps what others were sent', () => {
    const tree = new PrefixTree();
    tree.insert([1, 2, 3, 4], 'p0', 1);
    tree.insert([1, 2, 5], 'p1', 2);
    tree.insert([7, 8], 'p0', 3);
    tree.forget('p0');
    expect([tree.sizeOf('p0'), tree.sizeOf('p1')]).toEqual([0, 3]);
    expect(tree.match([1, 2, 3, 4], all)).toEqual({ tokens: 2, engineId: 'p1' });
    expect(tree.match([7, 8], all).tokens).toBe(0);
  });

  test('evicts the least recently used nodes first, leaves before their parents', () => {
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
