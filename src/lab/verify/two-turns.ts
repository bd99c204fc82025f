/**
 * Two turns of a conversation on a P and a D engine, driven by hand in the router's sequence, with both pools read
 * between the steps; then the second prompt once more on P, from nothing. Says what differs; decides nothing else.
 */

import type { KvTransferParams } from '../../config/kv-transfer.ts';
import { DEFAULT_SAMPLING } from '../../engine/sampling.ts';
import type { PromptAccount } from '../../engine/types.ts';
import { RequestError } from '../../errors.ts';
import type { EngineCluster } from '../../fleet/cluster.ts';
import type { EngineHandle } from '../../fleet/engine-handle.ts';
import { firstDifference, type KvLayout, type SequenceBlocks } from './kv-layout.ts';

export interface Conversation {
  /** Request ids begin with it. */
  id: string;
  promptTokenIds: readonly number[];
  outputTokens: number;
  /** The second prompt is the first, the answer and these. */
  addedTokenIds: readonly number[];
}

export interface PulledTurns {
  /** Of the second turn. */
  promptTokenIds: readonly number[];
  /** P's, after the second turn. */
  pulledBlocks: SequenceBlocks;
  hitTokens: number;
  pulledTokens: number;
  pulledBlockCount: number;
  /** One sentence each; empty when all is as it must be. */
  failures: string[];
}

/** What a router sends to P when nothing can be pulled. */
const NO_REMOTE: KvTransferParams = { do_remote_decode: true, do_remote_prefill: false };

/** Throws RequestError when a request fails. Leaves P's holds of the second turn and of the recompute. */
export async function twoTurns(
  cluster: EngineCluster,
  layout: KvLayout,
  { id, promptTokenIds: first, outputTokens, addedTokenIds }: Conversation,
): Promise<PulledTurns> {
  const prefill = cluster.engine('prefill');
  const decode = cluster.engine('decode');
  const failures: string[] = [];
  const compare = (what: string, a: SequenceBlocks, b: SequenceBlocks, length: number): void => {
    const where = firstDifference(layout, a, b, length);
    if (where) failures.push(`${what} differ at ${where}`);
  };

  const handedOver = await serve(prefill, `${id}-p1`, first, 1, NO_REMOTE);
  const computedByP = await readHeld(prefill, handedOver.held);
  const answered = await serve(decode, `${id}-d1`, first, outputTokens, handedOver.held);
  const heldByD = await readHeld(decode, answered.held);
  compare("D's blocks and those that P handed over", heldByD, computedByP, first.length);

  const second = [...first, ...answered.outputTokenIds, ...addedTokenIds];
  const offer = { ...answered.held, do_remote_decode: true, do_remote_prefill: false };
  const pulling = await serve(prefill, `${id}-p2`, second, 1, offer);
  const pulledBlocks = await readHeld(prefill, pulling.held);
  const offered = answered.held.remote_num_tokens ?? 0;
  const { localHitTokens, pulledTokens } = pulling.prompt;
  compare("P's blocks after the pull and those that D held", pulledBlocks, heldByD, offered);
  if (pulledTokens === 0 || localHitTokens + pulledTokens !== offered) {
    failures.push(`${localHitTokens} tokens hit and ${pulledTokens} pulled of the ${offered} that D offered`);
  }
  const { blockSize } = layout;
  const pulledBlockCount = Math.ceil(offered / blockSize) - Math.floor(localHitTokens / blockSize);
  failures.push(...transferFailures(prefill, `${id}-p2`, pulledBlockCount));

  // Another salt: the prefix cache cannot help.
  const again = await serve(prefill, `${id}-again`, second, 1, NO_REMOTE, 'recompute');
  if (again.prompt.computedTokens !== second.length) {
    failures.push(`the recompute computed ${again.prompt.computedTokens} of ${second.length} tokens`);
  }
  const recomputed = await readHeld(prefill, again.held);
  compare("P's blocks after the pull and those of a recompute", pulledBlocks, recomputed, second.length);
  return {
    promptTokenIds: second,
    pulledBlocks,
    hitTokens: localHitTokens,
    pulledTokens,
    pulledBlockCount,
    failures,
  };
}

interface Served {
  outputTokenIds: number[];
  prompt: PromptAccount;
  /** The engine's kv_transfer_params: whose blocks it holds, in the sequence's order. */
  held: KvTransferParams;
}

async function serve(
  engine: EngineHandle,
  requestId: string,
  promptTokenIds: readonly number[],
  maxTokens: number,
  kvTransferParams: KvTransferParams,
  cacheSalt: string | null = null,
): Promise<Served> {
  const sampling = { ...DEFAULT_SAMPLING, maxTokens, temperature: 1, ignoreEos: true };
  const outputTokenIds: number[] = [];
  const stream = await engine.submit({ requestId, promptTokenIds, sampling, kvTransferParams, cacheSalt });
  for await (const { output } of stream) {
    outputTokenIds.push(...output.tokens.map(({ tokenId }) => tokenId));
    if (!output.finish) continue;
    const { error, kvTransferParams: held } = output.finish;
    if (error !== null) throw new RequestError(`${requestId}: ${error}`);
    if (held && output.prompt) return { outputTokenIds, prompt: output.prompt, held };
  }
  throw new RequestError(`${requestId} ended at ${engine.engineId} and left nothing to read`);
}

const readHeld = (engine: EngineHandle, held: KvTransferParams): Promise<SequenceBlocks> =>
  engine.call((api) => api.readBlocks(held.remote_block_ids?.[0] ?? []));

/** One transfer, done, of exactly these blocks. */
function transferFailures(reader: EngineHandle, requestId: string, blocks: number): string[] {
  const results = reader.takeTransfers(requestId).map(({ result }) => result);
  const done = results.filter(({ outcome }) => outcome === 'done');
  const bytes = done.reduce((sum, result) => sum + result.bytes, 0);
  const expected = blocks * reader.started.blockBytes;
  if (results.length === 1 && done.length === 1 && bytes === expected) return [];
  const outcomes = results.map(({ outcome, message }) => (message ? `${outcome}: ${message}` : outcome));
  return [`transfers (${outcomes.join('; ') || 'none'}) moved ${bytes} bytes, wanted one of ${expected}`];
}
