/** Damaged KV is detected: in the logits, and before it is used when checksums are on. */
import { beforeAll, expect, it } from 'vitest';
import { converse, fingerprint, withCluster } from './cluster-fixture.ts';

/** Two turns of twelve tokens each. */
let right: string[];

beforeAll(async () => {
  right = fingerprint(await withCluster({}, (cluster) => converse(cluster, 'c', 2, { newTokens: 40 })));
});

for (const kind of ['drop-block', 'swap-blocks', 'shift-token', 'flip-bit'] as const) {
  it(`the ${kind} fault changes the logits`, async () => {
    const damaged = { fault: { engine: 'prefill', kind }, poison: false, checksum: false } as const;
    const wrong = await withCluster(damaged, (cluster) => converse(cluster, 'c', 2, { newTokens: 40 }));
    expect(fingerprint(wrong.slice(0, 1))).toEqual(right.slice(0, 12));
    expect(fingerprint(wrong)).not.toEqual(right);
  });
}

it('a checksum detects a bit flipped in the slab, and the turn is recomputed with the right tokens', async () => {
  const damaged = { fault: { engine: 'prefill', kind: 'flip-bit' }, checksum: true } as const;
  const mended = await withCluster(damaged, (cluster) => converse(cluster, 'c', 2, { newTokens: 40 }));
  expect(fingerprint(mended)).toEqual(right);
  expect(mended[1]!.result.prompt.pulledTokens).toBe(0);
});
