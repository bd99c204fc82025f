import { expect, it } from 'vitest';
import { plainly } from '../../../demo/src/views/plain-words.ts';

it.each([
  ["decode-0: waits for KV from 'prefill-0'", 'D: waits for KV from P'],
  ['prefill-1 ended: killed', 'P1 ended: killed'],
  ['decode-0.2 did not answer', 'D did not answer'],
  ['chat-10#2.33-d-0123456789abcdef0123456789abcdef was refused', 'turn 2 was refused'],
  ['request chat-1#13.15-d-0123456789abcdef0123456789abcdef: no room in decode-0', 'no room in D'],
  [
    'request race-recompute#2.5-p-0123456789abcdef0123456789abcdef: no room in decode-0',
    'the measurement: no room in D',
  ],
  [
    "the KV of request 'chat-2#3.5-d-0123456789abcdef0123456789abcdef' did not arrive",
    'the KV of turn 3 did not arrive',
  ],
  ['26 < threshold 32', 'a pull of 26 tokens is below the threshold of 32'],
  ['26 < threshold 10000', 'a pull of 26 tokens is below the threshold of 10,000'],
  [
    '9 < threshold 32 (first differing token at 9)',
    'a pull of 9 tokens is below the threshold of 32; from token 9 on, D has other words (token check)',
  ],
  ['the local hit of 64 covers it', 'P already had all 64 tokens (prefix cache)'],
  [
    'cost-aware: pull ~30.5 ms > recompute ~12 ms',
    'computing was expected to be faster: 12 ms, and 30.5 ms for pulling (cost-aware)',
  ],
  [
    "pull expired: request 'chat-2#2.5-d-0123456789abcdef0123456789abcdef' at the holder: its time to be read has passed.",
    'D had freed it after its time limit (TTL).',
  ],
  ['nothing that it knows', 'nothing that it knows'],
])('plainly() rewrites for readers: %s', (told, plain) => {
  expect(plainly(told)).toBe(plain);
});

it('plainly() numbers engines only if their role has several', () => {
  const fleet = ['prefill-0', 'decode-0', 'decode-1', 'decode-0.2'];
  const said = (text: string) => plainly(text, fleet);
  expect(said('decode-0.2 has joined; decode-1 left; prefill-0 stays')).toBe(
    'D0 has joined; D1 left; P stays',
  );
  expect(plainly('decode-0.2 has joined', ['decode-0', 'decode-0.2'])).toBe('D has joined');
});
