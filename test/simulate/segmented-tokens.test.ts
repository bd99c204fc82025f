/** Tokens stored as segments of contents behave as the tokens themselves. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { commonPrefixLength, joined, type TokenIds } from '../../src/config/token-ids.ts';
import { extendHashes } from '../../src/engine/block-hash.ts';
import { growingTokens } from '../../src/engine/growing-tokens.ts';
import { simulatedClaims, simulatedHasher } from '../../src/simulate/tokens/digests.ts';
import { SegmentedTokens } from '../../src/simulate/tokens/segmented-tokens.ts';
import { TraceTokens } from '../../src/workload/traces/tokens.ts';

/** A vocabulary so large that no two places drawn here have the same token by chance. */
const tokens = new TraceTokens(2 ** 31, 3);
const segment = fc.record({
  key: fc.oneof(fc.nat(3), fc.constant(2 ** 40 + 1)),
  from: fc.nat(6),
  length: fc.nat(9),
});
const segments = fc.array(segment, { maxLength: 8 });

describe('SegmentedTokens', () => {
  it('reads, slices and joins as an array does', () => {
    fc.assert(
      fc.property(segments, segments, fc.nat(40), fc.nat(40), (first, second, a, b) => {
        const all = [...tokens.of(first), ...tokens.of(second)];
        const sequence = SegmentedTokens.of(first, tokens).followedBy(SegmentedTokens.of(second, tokens));
        expect([...sequence]).toEqual(all);
        expect(sequence.at(-1)).toBe(all.at(-1));
        const [start, end] = [Math.min(a, b), Math.max(a, b)];
        expect([...sequence.slice(start, end)]).toEqual(all.slice(start, end));
        expect([...joined([7, 7], sequence.slice(start))]).toEqual([7, 7, ...all.slice(start)]);
        expect([...sequence.slice(start, end).followedBy(sequence)]).toEqual([
          ...all.slice(start, end),
          ...all,
        ]);
        expect([...sequence.slice(0, end).followedBy([7, 7])]).toEqual([...all.slice(0, end), 7, 7]);
      }),
    );
  });

  it('does not change when other tokens are appended to it', () => {
    fc.assert(
      fc.property(segments, segments, segments, fc.nat(30), (first, second, third, cut) => {
        const start = SegmentedTokens.of(first, tokens);
        const [one, other] = [SegmentedTokens.of(second, tokens), SegmentedTokens.of(third, tokens)];
        const whole = start.followedBy(one);
        const parts = [
          start,
          whole,
          start.followedBy(one.slice(0, cut)),
          start.followedBy(one),
          start.followedBy(other),
        ];
        parts.push(
          whole.followedBy(other),
          whole.slice(0, cut).followedBy(other),
          whole.followedBy([7]),
          start,
        );
        const [a, b, c] = [tokens.of(first), tokens.of(second), tokens.of(third)];
        const ab = [...a, ...b];
        const wanted = [a, ab, [...a, ...b.slice(0, cut)], ab, [...a, ...c]];
        wanted.push([...ab, ...c], [...ab.slice(0, cut), ...c], [...ab, 7], a);
        expect(parts.map((part) => [...part])).toEqual(wanted);
        const claims = simulatedClaims(true);
        expect(claims(parts[3]!, ab.length, null)).toEqual(claims(whole, ab.length, null));
        for (const part of parts) {
          const hashes: string[] = [];
          const sequence = { tokenIds: part, cacheSalt: null };
          extendHashes(hashes, sequence, { hasher: simulatedHasher, blockSize: 4 }, Infinity);
          const alone: string[] = [];
          for (let i = 0; i + 4 <= part.length; i += 4)
            alone.push(
              simulatedHasher.hash(alone.at(-1) ?? simulatedHasher.root, part.slice(i, i + 4), null),
            );
          expect(hashes).toEqual(alone);
        }
      }),
    );
  });

  it('shares with another the prefix that their tokens share', () => {
    fc.assert(
      fc.property(segments, segments, segments, fc.nat(20), (shared, mine, other, cut) => {
        const a = SegmentedTokens.of([...shared, ...mine], tokens).slice(0, 60);
        const b = SegmentedTokens.of(shared, tokens).followedBy(SegmentedTokens.of(other, tokens));
        const wanted = commonPrefixLength([...a], [...b]);
        expect(commonPrefixLength(a, b)).toBe(wanted);
        expect(commonPrefixLength(b, a)).toBe(wanted);
        expect(commonPrefixLength([...a], b)).toBe(wanted);
        const writtenOut = [...a.slice(cut, cut + 1)];
        const told = a
          .slice(0, cut)
          .followedBy(writtenOut)
          .followedBy(a.slice(cut + 1));
        expect(commonPrefixLength(told, a)).toBe(a.length);
        expect(commonPrefixLength(b, told)).toBe(wanted);
        const later = Math.min(cut, wanted);
        expect(commonPrefixLength(a.slice(later), b.slice(later))).toBe(wanted - later);
      }),
    );
  });

  it('has digests that depend only on its tokens, not on how it was built', () => {
    const hashes = (tokenIds: TokenIds, cacheSalt: string | null) => {
      const found: string[] = [];
      extendHashes(found, { tokenIds, cacheSalt }, { hasher: simulatedHasher, blockSize: 4 }, Infinity);
      return found;
    };
    const claim = simulatedClaims(true);
    fc.assert(
      fc.property(segments, segments, fc.nat(60), fc.constantFrom(null, 's'), (shared, other, cut, salt) => {
        const a = SegmentedTokens.of(shared, tokens);
        const length = Math.min(cut, a.length);
        const b = a.slice(0, length).followedBy(SegmentedTokens.of(other, tokens));
        const same = commonPrefixLength([...a], [...b]);
        const [ofA, ofB] = [hashes(a, salt), hashes(b, salt)];
        for (let i = 0; i < Math.min(ofA.length, ofB.length); i++)
          expect(ofA[i] === ofB[i]).toBe(4 * (i + 1) <= same);
        expect(hashes(a, salt)).toEqual(ofA);
        expect(claim(a, same, salt)).toEqual(claim(b, same, salt));
        if (same < Math.min(a.length, b.length))
          expect(claim(a, same + 1, salt)).not.toEqual(claim(b, same + 1, salt));
      }),
    );
  });
});

describe('growingTokens', () => {
  it('have the block digests of the whole sequence, however often those are computed on the way', () => {
    const hashing = { hasher: simulatedHasher, blockSize: 4 };
    fc.assert(
      fc.property(segments, segments, fc.array(fc.nat(9)), (prompt, answer, steps) => {
        const growing = growingTokens(SegmentedTokens.of(prompt, tokens), SegmentedTokens.of(answer, tokens));
        const hashes: string[] = [];
        let left = tokens.of(answer).length;
        for (const step of [...steps, left]) {
          growing.pushForced(Math.min(step, left));
          left -= Math.min(step, left);
          extendHashes(hashes, { tokenIds: growing.ids, cacheSalt: null }, hashing, Infinity);
        }
        const whole = SegmentedTokens.of([...prompt, ...answer], tokens);
        const wanted: string[] = [];
        extendHashes(wanted, { tokenIds: whole, cacheSalt: null }, hashing, Infinity);
        expect(hashes).toEqual(wanted);
      }),
    );
  });

  it('are the same whether prompt and answer are written out or not', () => {
    fc.assert(
      fc.property(
        segments,
        segments,
        fc.array(fc.nat(3)),
        fc.nat(40),
        fc.nat(40),
        (prompt, answer, ends, a, b) => {
          const sequence = SegmentedTokens.of(answer, tokens);
          const forced = tokens.of(answer);
          const few = growingTokens(SegmentedTokens.of(prompt, tokens), sequence);
          const many = growingTokens(tokens.of(prompt), forced);
          let count = 0;
          for (const end of ends) {
            const left = Math.max(0, Math.min(end, forced.length - count));
            for (const growing of [few, many]) growing.pushForced(left);
            count += left;
            for (const growing of [few, many]) growing.push(forced[count] ?? 9);
            count++;
            const [start, until] = [Math.min(a, b), Math.min(Math.max(a, b), many.length)];
            expect([...few.slice(start, until)]).toEqual([...many.slice(start, until)]);
            expect([...few.ids]).toEqual([...many.ids]);
            expect(few.last).toBe(many.last);
          }
        },
      ),
    );
  });
});
