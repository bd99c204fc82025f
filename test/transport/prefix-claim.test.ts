import { expect, it } from 'vitest';
import { claimPrefix, sameClaim } from '../../src/transport/prefix-claim.ts';

const claim = claimPrefix(true);

it('claims are equal for the same first tokens and salt, whatever tokens follow', () => {
  expect(sameClaim(claim([1, 2, 3], 2, 'a'), claim([1, 2, 9, 9], 2, 'a'))).toBe(true);
  expect(sameClaim(claim([], 0, null), claim([7], 0, null))).toBe(true);
});

it('claims differ if any token, the order or number of tokens, or the salt differs', () => {
  const claims = [
    claim([1, 2, 3], 3, null),
    claim([1, 2, 4], 3, null),
    claim([2, 1, 3], 3, null),
    claim([1, 2, 3], 2, null),
    claim([1, 2, 3], 4, null),
    claim([1, 2, 3, 0], 4, null),
    claim([1, 2, 3], 3, ''),
    claim([1, 2, 3], 3, 'a'),
    claim([1, 2, 3], 3, 'b'),
    claim([1, 2], 2, '\x03\0\0\0'),
    claim([0x1_00, 2, 3], 3, null),
  ];
  expect(new Set(claims.map(({ digest }) => digest)).size).toBe(claims.length);
});

it('claims without the token check cover only the number of tokens and the salt', () => {
  const loose = claimPrefix(false);
  expect(sameClaim(loose([1, 2], 2, 'a'), loose([3, 4], 2, 'a'))).toBe(true);
  expect(sameClaim(loose([1, 2], 2, 'a'), loose([1, 2], 2, 'b'))).toBe(false);
  expect(sameClaim(loose([1, 2], 2, 'a'), loose([1, 2], 1, 'a'))).toBe(false);
  // An engine with the token check accepts no claim made without it.
  expect(sameClaim(loose([1, 2], 2, 'a'), claim([1, 2], 2, 'a'))).toBe(false);
});

it('claims of different numbers of tokens differ, even with equal digests', () => {
  const { digest } = claim([1, 2], 2, null);
  expect(sameClaim({ numTokens: 2, digest }, { numTokens: 3, digest })).toBe(false);
});
