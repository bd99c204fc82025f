/** What a server logs about a request. */
import { expect, test } from 'vitest';
import { createLog } from '../../src/server/http/log.ts';
import type { RequestRecord } from '../../src/server/observer.ts';
import { StubService } from './stub.ts';
import { stubApp } from './stub-app.ts';

const record = (storedTokens: number): RequestRecord => ({
  requestId: 'r',
  firstTokenMs: 12,
  latencyMs: 16,
  outputTokens: 3,
  prompt: { promptTokens: 50, localHitTokens: 16, pulledTokens: 30, computedTokens: 4, noPull: null },
  storedTokens,
  reason: 'length',
});

const told = (format: 'text' | 'json', storedTokens: number): string => {
  const lines: string[] = [];
  createLog(format, (line) => lines.push(line)).ended('router', record(storedTokens));
  return lines.join('\n');
};

test("a request's log line counts tokens from the store separately from pulled ones", () => {
  expect(told('text', 0)).toContain('50 prompt tokens (16 hit, 30 pulled), 3 generated');
  expect(told('text', 20)).toContain('50 prompt tokens (16 hit, 10 pulled, 20 from the store), 3 generated');
  expect(JSON.parse(told('json', 20))).toMatchObject({
    hit_tokens: 16,
    pulled_tokens: 10,
    stored_tokens: 20,
  });
  expect(JSON.parse(told('json', 0))).toMatchObject({ pulled_tokens: 30, stored_tokens: 0 });
});

test('a path is logged as it was sent, so that it cannot look like other fields or turn the line', async () => {
  const lines: string[] = [];
  const app = stubApp(new StubService(), { log: createLog('text', (line) => lines.push(line)) });
  await app.request('/v1/models/x%20200%201%20ms%E2%80%AE%0A');
  expect(lines).toHaveLength(1);
  expect(lines[0]).toMatch(/router GET \/v1\/models\/x%20200%201%20ms%E2%80%AE%0A 404 /);
});

test('a request id with spaces is quoted, so that it cannot look like other fields', async () => {
  const lines: string[] = [];
  const log = createLog('text', (line) => lines.push(line));
  const app = stubApp(new StubService(), { log });
  await app.request('/v1/models', { headers: { 'X-Request-Id': 'a ended: length, 9 "x"' } });
  await app.request('/v1/models', { headers: { 'X-Request-Id': 'a-1' } });
  log.ended('router', { ...record(0), requestId: 'b 200' });
  expect(lines[0]).toMatch(/ GET \/v1\/models 200 [\d.]+ ms "a ended: length, 9 \\"x\\""$/);
  expect(lines[1]).toMatch(/ ms a-1$/);
  expect(lines[2]).toContain('router "b 200" ended: length');
});
