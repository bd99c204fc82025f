/** Lists stored as runs of each other behave as the lists themselves, and so do drawn answers. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { commonPrefixLength, joined, written } from '../../src/config/token-ids.ts';
import { extendHashes } from '../../src/engine/block-hash.ts';
import { DEFAULT_SAMPLING } from '../../src/engine/sampling.ts';
import { Answers } from '../../src/simulate/engines/answers.ts';
import { simulatedHasher } from '../../src/simulate/tokens/digests.ts';
import { ListedTokens } from '../../src/simulate/tokens/listed-tokens.ts';

const answers = new Answers(8, 1_000_000);
/** Of three tokens, so that lists share prefixes, are prefixes of each other, or are equal. */
const lists = fc.array(fc.array(fc.nat(2), { maxLength: 12 }), { minLength: 2, maxLength: 12 });

const hashesOf = (tokenIds: Parameters<typeof joined>[0]): string[] => {
  const hashes: string[] = [];
  extendHashes(hashes, { tokenIds, cacheSalt: null }, { hasher: simulatedHasher, blockSize: 3 }, Infinity);
  return hashes;
};

describe('ListedTokens', () => {
  it('read as the lists, and share prefixes as these do, to the token and to the block', () => {
    fc.assert(
      fc.property(lists, (all) => {
        const listed = new ListedTokens(answers);
        const sequences = all.map((list) => listed.of(list));
        expect(sequences.map((sequence) => [...sequence])).toEqual(all);
        for (const [i, one] of sequences.entries())
          for (const [j, other] of sequences.entries()) {
            const shared = commonPrefixLength(all[i]!, all[j]!);
            expect(commonPrefixLength(one, other)).toBe(shared);
            expect(commonPrefixLength(hashesOf(one) as never, hashesOf(other) as never)).toBe(
              Math.floor(shared / 3),
            );
          }
      }),
    );
  });

  it('do so in conversations too, with the same drawn answers as lists of tokens', () => {
    const listed = new ListedTokens(answers);
    const sampling = { ...DEFAULT_SAMPLING, maxTokens: 5 };
    const ask = (promptTokenIds: Parameters<typeof joined>[0]) =>
      answers.of({ requestId: 'r', promptTokenIds, sampling } as never, 100);
    const talk = (...messages: number[][]) => {
      let [history, plain]: Parameters<typeof joined>[0][] = [[], []];
      for (const message of messages) {
        history = joined(history!, listed.of(message));
        plain = [...plain!, ...message];
        const answer = ask(history);
        expect(written(answer)).toEqual(ask(plain));
        history = joined(history, answer);
        plain = joined(plain, written(answer));
      }
      expect(written(history!)).toEqual(plain);
      return { history: history!, plain: plain! };
    };
    const first = [1, 2, 3, 4];
    const [a, b, c] = [
      talk(first, [5, 6, 7]),
      talk([1, 2, 3, 4], [5, 6, 8]),
      talk([1, 2, 3, 9], [5, 6, 7]),
    ] as const;
    for (const [one, other] of [
      [a, b],
      [a, c],
      [b, c],
      [a, talk(first, [5, 6, 7])],
    ] as const)
      expect(commonPrefixLength(one.history, other.history)).toBe(commonPrefixLength(one.plain, other.plain));
    expect(commonPrefixLength(a.plain, b.plain)).toBe(4 + 5 + 2);
  });
});
