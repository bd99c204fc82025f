import { expect, it } from 'vitest';
import { claimPrefix, sameClaim } from '../../src/transport/prefix-claim.ts';

const claim = claimPrefix(true);

it('is equal for the same first tokens under the same salt, whatever follows', () => {
  expect(sameClaim(claim([1, 2, 3], 2, 'a'), claim([1, 2, 9, 9], 2, 'a'))).toBe(true);
  expect(sameClaim(claim([], 0, null), claim([7], 0, null))).toBe(true);
});

it('differs with every token, their order and number, and the salt', () => {
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

it('without the token check is of the number and the salt alone', () => {
  const loose = claimPrefix(false);
  expect(sameClaim(loose([1, 2], 2, 'a'), loose([3, 4], 2, 'a'))).toBe(true);
  expect(sameClaim(loose([1, 2], 2, 'a'), loose([1, 2], 2, 'b'))).toBe(false);
  expect(sameClaim(loose([1, 2], 2, 'a'), loose([1, 2], 1, 'a'))).toBe(false);
  // An engine that checks serves none that does not.
  expect(sameClaim(loose([1, 2], 2, 'a'), claim([1, 2], 2, 'a'))).toBe(false);
});

it('of another number of tokens is another, whatever its digest', () => {
  const { digest } = claim([1, 2], 2, null);
  expect(sameClaim({ numTokens: 2, digest }, { numTokens: 3, digest })).toBe(false);
});
