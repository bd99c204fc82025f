import { describe, expect, it } from 'vitest';
import { EngineDeadError } from '../../src/errors.ts';
import { parseLink } from '../../src/transport/link.ts';
import { type Answer, converse, fingerprint, generate, withCluster } from './cluster-fixture.ts';

/** Each step computes one block, so a prompt takes several steps. */
const streamed = { handover: 'streamed', maxNumBatchedTokens: 16, maxNumSeqs: 8 } as const;
const long = { newTokens: 90, outputTokens: 8 };
const ids = ['a', 'b', 'c', 'd'];

const request = (conversationId: string, signal?: AbortSignal) => ({
  conversationId,
  promptTokenIds: Array.from({ length: 200 }, (_, i) => 10 + ((i * 31) % 400)),
  sampling: { maxTokens: 4, ignoreEos: true },
  ...(signal ? { signal } : {}),
});

const accounts = (answers: readonly Answer[]) =>
  answers.map(({ result: { prompt, promptTokenIds } }) => [
    prompt.localHitTokens + prompt.pulledTokens + prompt.computedTokens,
    promptTokenIds.length,
  ]);

describe('a streamed handover', () => {
  it('gives the tokens and logits of one engine in every mode, also when alternating with pull', async () => {
    await withCluster({ ...streamed, mode: 'monolithic' }, async (cluster) => {
      const alone = fingerprint(await converse(cluster, 'c', 3, long));
      for (const mode of ['unidirectional', 'bidirectional', 'decode-local'] as const) {
        for (const handover of ['streamed', 'pull'] as const) {
          await cluster.configure({ mode, handover });
          const answers = await converse(cluster, 'c', 3, long);
          expect(fingerprint(answers)).toEqual(alone);
          for (const [accounted, length] of accounts(answers)) expect(accounted).toBe(length);
          // 90 tokens are 6 blocks: streamed or not, the same bytes.
          expect(answers[0]!.result.transfer.pToD).toMatchObject({ blocks: 6 });
          const [, second] = answers;
          if (mode === 'bidirectional') expect(second!.result.prompt.pulledTokens).toBe(97);
          for (const { result } of answers) {
            const sum = Object.values(result.stagesMs).reduce((a, b) => a + b, 0);
            expect(sum).toBeCloseTo(result.ttftMs, 3);
          }
        }
      }
    });
  });

  it('reports its rate over the time in which bytes moved, not over the whole prefill', async () => {
    const size = { numBlocks: 280, enablePrefixCaching: false };
    await withCluster(
      { ...streamed, mode: 'unidirectional', maxModelLen: 4096, prefill: size, decode: size },
      async (cluster) => {
        const promptTokenIds = Array.from({ length: 960 }, (_, i) => 10 + (i % 401));
        const { result } = await generate(cluster, { ...request('c'), promptTokenIds });
        const { bytes, ms, movingMs, gbps } = result.transfer.pToD!;
        expect(movingMs).toBeGreaterThan(0);
        expect(movingMs).toBeLessThan(ms);
        expect(gbps).toBeCloseTo(bytes / movingMs! / 1e6, 9);
        await cluster.configure({ handover: 'pull' });
        const pulled = await generate(cluster, { ...request('d'), promptTokenIds });
        expect(pulled.result.transfer.pToD).not.toHaveProperty('movingMs');
      },
    );
  });

  it('shows damaged KV in the logits', async () => {
    const right = await withCluster(streamed, (cluster) => converse(cluster, 'c', 1, long));
    const damage = { fault: { engine: 'decode', kind: 'drop-block' }, poison: false } as const;
    const wrong = await withCluster({ ...streamed, ...damage }, (cluster) => converse(cluster, 'c', 1, long));
    expect(fingerprint(wrong)).not.toEqual(fingerprint(right));
  });

  it('gives concurrent conversations the right tokens with small pools and a slow link', async () => {
    const talk = async (options: object) =>
      withCluster({ ...streamed, ...options }, async (cluster) =>
        (
          await Promise.all(
            ids.map((id, i) =>
              converse(cluster, id, 3, { seed: i + 1, newTokens: 40, outputTokens: 6, temperature: 1 }),
            ),
          )
        ).map(fingerprint),
      );
    const alone = await talk({ mode: 'monolithic' });
    const small = { numBlocks: 14, enablePrefixCaching: true };
    expect(await talk({ prefill: small, decode: small, link: parseLink('2e6,1ms') })).toEqual(alone);
  });

  it('leaves no block in use on either side when it is aborted', async () => {
    await withCluster(streamed, async (cluster) => {
      const reference = fingerprint([await generate(cluster, request('reference'))]);
      for (const afterMs of [0, 1, 5, 20, 50, 100]) {
        const abort = new AbortController();
        const turn = generate(cluster, request(`aborted-${afterMs}`, abort.signal));
        setTimeout(() => abort.abort(new Error('enough')), afterMs);
        await turn.catch((error: Error) => expect(error.message).toBe('enough'));
      }
      // configure() drains the engines; it would not return while a block is in use.
      await cluster.configure({});
      await cluster.checkIntegrity();
      const stats = await cluster.stats();
      expect(stats.map(({ usedBlocks, heldRequests }) => [usedBlocks, heldRequests])).toEqual([
        [0, 0],
        [0, 0],
      ]);
      expect(fingerprint([await generate(cluster, request('after'))])).toEqual(reference);
    });
  });

  it.each(['prefill', 'decode'] as const)(
    'fails with EngineDeadError when %s dies in mid-stream, unless failover lets the other serve the turn',
    async (role) => {
      // About 250 steps on P: the first block arrives long before the last is computed.
      const size = { numBlocks: 280, enablePrefixCaching: false };
      const options = { ...streamed, maxModelLen: 4096, prefill: size, decode: size };
      const asked = {
        ...request('c'),
        promptTokenIds: Array.from({ length: 4000 }, (_, i) => 10 + (i % 401)),
      };
      for (const failover of [false, true]) {
        const alone = await withCluster({ ...options, mode: 'monolithic' }, (cluster) =>
          generate(cluster, asked),
        );
        await withCluster(options, async (cluster) => {
          const begun = new Promise<void>((resolve) => {
            cluster.onSpan(({ name, turns }) => {
              if (name === 'scatter' && turns[0]?.side === 'decode') resolve();
            });
          });
          const turn = generate(cluster, { ...asked, failover });
          turn.catch(() => {});
          await begun;
          await cluster.engine(role).lab.loseDevice();
          if (failover) expect(fingerprint([await turn])).toEqual(fingerprint([alone]));
          else await expect(turn).rejects.toBeInstanceOf(EngineDeadError);
        }).catch((error: unknown) => {
          // The final integrity check fails on a dead engine.
          if (!(error instanceof EngineDeadError)) throw error;
        });
      }
    },
  );
});
