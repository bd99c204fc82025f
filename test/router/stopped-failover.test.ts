/** An engine ends after its answer reached a stop string, and before it ended the request. Engines without a GPU. */
import { expect, test } from 'vitest';
import { PolicyCluster } from '../connector/policy-cluster.ts';
import { alone, tokens } from '../engine/fakes.ts';
import { routerOver } from './policy-router.ts';

/** Each generated token is one character. */
const characterOf = (tokenId: number): string => String.fromCodePoint(0x4e00 + tokenId);

test.each(['pull', 'streamed'] as const)(
  'with handover %s another engine ends the answer, which stays the same',
  async (handover) => {
    const cluster = new PolicyCluster({ blockSize: 4 }, { blockSize: 4 }, { bidirectional: true });
    const { d } = cluster;
    const { ask } = routerOver(cluster, { handover, characterOf });
    const promptTokenIds = tokens(12, 1);
    const sampling = { maxTokens: 8, ignoreEos: true, seed: 1 };
    const answer = await alone(promptTokenIds, sampling);
    const end = answer.findIndex((tokenId, i) => i > 0 && !answer.slice(0, i).includes(tokenId));
    d.stop = async () => d.end();
    const stop = [characterOf(answer[end]!)];
    const result = await cluster.finish(ask({ promptTokenIds, sampling, stop, failover: true }));
    expect(d.ended).not.toBeNull();
    expect(result).toMatchObject({ finishReason: 'stop', prompt: { promptTokens: 12 } });
    expect(result.outputTokenIds).toEqual(answer.slice(0, end + 1));
    expect(result.text).toBe(answer.slice(0, end).map(characterOf).join(''));
  },
);
