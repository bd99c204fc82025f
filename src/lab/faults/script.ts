/** Conversations with known answers: those of a single engine without faults. */
import { uniformInt } from 'pure-rand/distribution/uniformInt';
import type { EngineCluster } from '../../fleet/cluster.ts';
import { seededGenerator } from '../../seeded.ts';

export interface ScriptedTurn {
  /** The whole prompt, history included. */
  promptTokenIds: readonly number[];
  sampling: { maxTokens: number; temperature: number; seed: number; ignoreEos: true };
  /** `token:digest of its logits`, in order. */
  answer: readonly string[];
}

/** The turns of one conversation. */
export type Script = readonly ScriptedTurn[];

const SCRIPTS = 6;
const TURNS = 3;
const OUTPUT_TOKENS = 12;
/** Tokens of the longest prompt with its answer, for sizing the smallest pools. */
export const LONGEST = 40 + (TURNS - 1) * 30 + TURNS * OUTPUT_TOKENS;

/** Generates the scripts on the cluster, which must be idle, in monolithic mode. Leaves it in that mode. */
export async function generateScripts(
  cluster: EngineCluster,
  seed: number,
  signal: AbortSignal,
): Promise<Script[]> {
  const random = seededGenerator(seed);
  const vocabulary = cluster.info.model.vocabSize;
  const fresh = (from: number, to: number): number[] =>
    Array.from({ length: uniformInt(random, from, to) }, () => uniformInt(random, 1, vocabulary - 1));
  await cluster.configure({ mode: 'monolithic' });
  const scripts: Script[] = [];
  for (let i = 0; i < SCRIPTS; i++) {
    const turns: ScriptedTurn[] = [];
    let history: number[] = [];
    for (let turn = 0; turn < TURNS; turn++) {
      signal.throwIfAborted();
      const promptTokenIds = [...history, ...(turn === 0 ? fresh(20, 40) : fresh(5, 30))];
      const sampling = { maxTokens: OUTPUT_TOKENS, temperature: i % 2, seed: i, ignoreEos: true as const };
      const answer: string[] = [];
      history = [...promptTokenIds];
      for await (const token of cluster.generate({ conversationId: null, promptTokenIds, sampling })) {
        answer.push(`${token.tokenId}:${token.logitsDigest}`);
        history.push(token.tokenId);
      }
      turns.push({ promptTokenIds, sampling, answer });
    }
    scripts.push(turns);
  }
  return scripts;
}
