import { expect, test } from 'vitest';
import type { RequestOutput } from '../../src/engine/types.ts';
import { LoadReport } from '../../src/host/load-report.ts';

const queues = (running: number) => () => ({
  running,
  waiting: 0,
  waitingForRemote: 0,
  freeBlocks: 5,
  numBlocks: 9,
});
const output = (requestId: string, tokens: number, ends = false, scheduledMs = 0): RequestOutput => ({
  requestId,
  tokens: Array.from({ length: tokens }, () => ({ requestId, tokenId: 1, logitsDigest: '', logits: null })),
  prompt: { promptTokens: 30, localHitTokens: 10, pulledTokens: 0, computedTokens: 20, noPull: null },
  times: { arrivalMs: 0, queuedMs: 0, scheduledMs },
  finish: ends ? { reason: 'stop', error: null, kvTransferParams: null, numPreemptions: 0 } : null,
});

test('no load is reported if nobody listens', () => {
  const report = new LoadReport();
  report.add([output('a', 1)], 0);
  expect(report.take(queues(1), 0, true)).toBeNull();
});

test('the first report is sent at once, later ones at most every 5 ms while steps follow', () => {
  const report = new LoadReport();
  report.setEnabled(true);
  const told = [0, 1, 4, 5, 6, 10].filter((atMs) => report.take(queues(1), atMs, false) !== null);
  expect(told).toEqual([0, 5, 10]);
});

test('an engine that goes idle reports changes at once and never repeats a report', () => {
  const report = new LoadReport();
  report.setEnabled(true);
  report.take(queues(1), 0, false);
  expect(report.take(queues(0), 1, true)).toMatchObject({ running: 0, atMs: 1 });
  expect(report.take(queues(0), 2, true)).toBeNull();
});

test('each prompt, token and finished request counts once, and all rates decay', () => {
  const report = new LoadReport();
  report.setEnabled(true);
  report.add([output('a', 1), output('b', 1)], 1000);
  report.add([output('a', 1, true)], 1000);
  const rates = { promptTokensPerSecond: 40, generationTokensPerSecond: 3, endedPerSecond: 1 };
  expect(report.take(queues(1), 1000, false)).toMatchObject(rates);
  const later = report.take(queues(1), 2000, false)!;
  expect(later.promptTokensPerSecond).toBeCloseTo(40 / Math.E);
  expect(later.endedPerSecond).toBeCloseTo(1 / Math.E);
});

test('prompts scheduled before listening began are not counted', () => {
  const report = new LoadReport();
  report.setEnabled(true, 500);
  report.add([output('before', 1, false, 499), output('since', 1, false, 500)], 600);
  expect(report.take(queues(2), 600, false)).toMatchObject({
    promptTokensPerSecond: 20,
    generationTokensPerSecond: 2,
  });
});
