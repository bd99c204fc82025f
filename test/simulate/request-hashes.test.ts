import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Request } from '../../src/engine/request.ts';
import { withDefaults } from '../../src/engine/sampling.ts';
import { simulatedHasher } from '../../src/simulate/tokens/digests.ts';
import { SegmentedTokens } from '../../src/simulate/tokens/segmented-tokens.ts';
import { TraceTokens } from '../../src/workload/traces/tokens.ts';

const BLOCK_SIZE = 4;
const tokens = new TraceTokens(1000, 0);
const hashing = { hasher: simulatedHasher, blockSize: BLOCK_SIZE };

const segment = fc.record({ key: fc.nat(3), from: fc.nat(6), length: fc.integer({ min: 1, max: 9 }) });
const segments = fc.array(segment, { minLength: 1, maxLength: 4 });

const requestOf = (requestId: string, promptTokenIds: SegmentedTokens, forcedTokenIds: SegmentedTokens) => {
  const sampling = withDefaults({ maxTokens: 99, ignoreEos: true, forcedTokenIds });
  const asked = { requestId, promptTokenIds, sampling, kvTransferParams: null, cacheSalt: null };
  return new Request(asked, 0, hashing);
};

/** Hashes computed one by one, from tokens that share nothing. */
function hashesAlone(request: Request): string[] {
  const alone: string[] = [];
  const { numTokens, allTokenIds } = request;
  for (let from = 0; from + BLOCK_SIZE <= numTokens; from += BLOCK_SIZE) {
    const parent = alone.at(-1) ?? simulatedHasher.root;
    alone.push(simulatedHasher.hash(parent, allTokenIds.slice(from, from + BLOCK_SIZE), null));
  }
  return alone;
}

describe('requests that share a prompt', () => {
  it('have the hashes of their own tokens, in whatever order they continue it and ask for hashes', () => {
    const step = fc.record({ who: fc.nat(2), count: fc.nat(7), asked: fc.nat(20) });
    fc.assert(
      fc.property(
        segments,
        fc.tuple(segments, segments, segments),
        fc.array(step),
        (prompt, answers, steps) => {
          const shared = SegmentedTokens.of(prompt, tokens);
          const requests = answers.map((answer, i) =>
            requestOf(`r${i}`, shared, SegmentedTokens.of(answer, tokens)),
          );
          for (const { who, count, asked } of steps) {
            const request = requests[who]!;
            request.appendForced(Math.min(count, request.numForced));
            expect(request.blockHashes(asked)).toEqual(hashesAlone(request).slice(0, asked));
          }
          for (const request of requests) expect(request.blockHashes()).toEqual(hashesAlone(request));
        },
      ),
    );
  });

  it('have them too if the prompt begins in the middle of its content', () => {
    const whole = SegmentedTokens.of([{ key: 1, from: 0, length: 30 }], tokens);
    const answer = SegmentedTokens.of([{ key: 2, from: 0, length: 9 }], tokens);
    const request = requestOf('r', whole.slice(3), answer);
    expect(request.blockHashes(2)).toEqual(hashesAlone(request).slice(0, 2));
    request.appendForced(9);
    expect(request.blockHashes()).toEqual(hashesAlone(request));
    expect(request.blockHashes()).toHaveLength(9);
  });
});
