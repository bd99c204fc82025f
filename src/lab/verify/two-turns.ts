/**
 * Serves two turns of a conversation on P and D with the router's own code, and reads both pools between its steps. Then
 * computes the second prompt again on P, without any cached KV. Reports differences; the caller decides the verdict.
 */
import type { KvTransferParams } from '../../config/kv-transfer.ts';
import { kvBytesOf } from '../../connector/policy/cost-model.ts';
import { DEFAULT_SAMPLING } from '../../engine/sampling.ts';
import type { RequestOutput } from '../../engine/types.ts';
import { InternalError } from '../../errors.ts';
import type { EngineCluster } from '../../fleet/cluster.ts';
import type { ThreadEngine } from '../../fleet/thread-engine.ts';
import type { KvGroups } from '../../model/architecture/kv-groups.ts';
import { systemClock } from '../../platform/clock.ts';
import { type Turn, type TurnOutput, turnOutputs } from '../../router/turn-outputs.ts';
import { sumOf } from '../../sum.ts';
import type { TransferResult } from '../../transport/types.ts';
import { assemble, firstDifference, type HeldSequence, type KvLayout } from './kv-layout.ts';

export interface Conversation {
  /** Prefix of the request ids. */
  id: string;
  promptTokenIds: readonly number[];
  outputTokens: number;
  /** Appended to the first prompt and its answer for the second prompt. */
  addedTokenIds: readonly number[];
}

export interface PulledTurns {
  /** The second turn's prompt. */
  promptTokenIds: readonly number[];
  /** P's blocks after the second turn. */
  pulledBlocks: HeldSequence;
  hitTokens: number;
  pulledTokens: number;
  pulledBlockCount: number;
  /** One sentence each; empty: everything is as expected. */
  failures: string[];
}

/** Throws the error of a failed request. */
export async function twoTurns(
  cluster: EngineCluster,
  layout: KvLayout,
  groups: KvGroups,
  { id, promptTokenIds: first, outputTokens, addedTokenIds }: Conversation,
): Promise<PulledTurns> {
  const prefill = cluster.engine('prefill');
  const decode = cluster.engine('decode');
  const serve = (turnId: string, promptTokenIds: readonly number[], more: Partial<Turn> = {}) => {
    const turn = turnOf(`${id}-${turnId}`, promptTokenIds, outputTokens);
    return turnOutputs({ way: 'pull', prefill, decode }, { ...turn, ...more });
  };
  const failures: string[] = [];
  const compare = (what: string, a: HeldSequence, b: HeldSequence, length: number): void => {
    const where = firstDifference(layout, a, b, length);
    if (where) failures.push(`${what} differ at ${where}`);
  };

  const answer: number[] = [];
  const readHeld = (engine: ThreadEngine, output: RequestOutput) => heldBy(engine, output, layout, groups);
  const none: HeldSequence = { blocks: [], from: new Array<number>(layout.numLayers).fill(Infinity) };
  let computedByP = none;
  let heldByD = none;
  let offer: KvTransferParams | null = null;
  for await (const { side, output } of serve('1', first)) {
    // P holds its blocks until D gets its request, which happens when this loop continues.
    if (side === 'prefill') computedByP = await readHeld(prefill, output);
    else answer.push(...output.tokens.map(({ tokenId }) => tokenId));
    if (side === 'prefill' || !output.finish) continue;
    heldByD = await readHeld(decode, output);
    offer = output.finish.kvTransferParams;
  }
  compare("D's blocks and those that P handed over", heldByD, computedByP, first.length);

  const second = [...first, ...answer, ...addedTokenIds];
  const pulling = await prefilled(prefill, serve('2', second, { remote: offer }), readHeld);
  const offered = offer?.remote_num_tokens ?? 0;
  const { localHitTokens, pulledTokens } = pulling.prompt;
  compare("P's blocks after the pull and those that D held", pulling.blocks, heldByD, offered);
  if (pulledTokens === 0 || localHitTokens + pulledTokens !== offered) {
    failures.push(`${localHitTokens} tokens hit and ${pulledTokens} pulled of the ${offered} that D offered`);
  }
  const { blockSize } = layout;
  const specs = groups.groups.map(({ spec }) => spec);
  const kvBytes = kvBytesOf(blockSize, prefill.started.blockBytes, specs);
  const pulledBytes = kvBytes(localHitTokens, offered - localHitTokens);
  failures.push(...transferFailures(pulling.transfers, pulledBytes));

  // With another salt, the prefix cache cannot hit.
  const again = await prefilled(prefill, serve('again', second, { cacheSalt: 'recompute' }), readHeld);
  if (again.prompt.computedTokens !== second.length) {
    failures.push(`the recompute computed ${again.prompt.computedTokens} of ${second.length} tokens`);
  }
  compare("P's blocks after the pull and those of a recompute", pulling.blocks, again.blocks, second.length);
  return {
    promptTokenIds: second,
    pulledBlocks: pulling.blocks,
    hitTokens: localHitTokens,
    pulledTokens,
    pulledBlockCount: sumOf(pulling.transfers, ({ blocks }) => blocks),
    failures,
  };
}

function turnOf(turnId: string, promptTokenIds: readonly number[], maxTokens: number): Turn {
  return {
    requestIds: { prefill: `${turnId}-p`, decode: `${turnId}-d` },
    promptTokenIds,
    sampling: { ...DEFAULT_SAMPLING, maxTokens, temperature: 1, ignoreEos: true },
    cacheSalt: null,
    acceptedMs: systemClock.now(),
    remote: null,
    pull: null,
    signal: null,
    stopped: null,
  };
}

/** Runs the turn up to P's end, and returns P's blocks at that point. */
async function prefilled(
  prefill: ThreadEngine,
  outputs: AsyncIterable<TurnOutput>,
  readHeld: (engine: ThreadEngine, output: RequestOutput) => Promise<HeldSequence>,
) {
  for await (const { output, transfers } of outputs) {
    if (!output.prompt) break;
    return { prompt: output.prompt, blocks: await readHeld(prefill, output), transfers };
  }
  throw new InternalError(`${prefill.engineId} ended a prefill without an account of its prompt`);
}

/** The blocks of an ended request that the engine holds for the reader. */
async function heldBy(
  engine: ThreadEngine,
  { finish }: RequestOutput,
  layout: KvLayout,
  groups: KvGroups,
): Promise<HeldSequence> {
  const { remote_block_ids: lists, remote_num_tokens: length } = finish?.kvTransferParams ?? {};
  const byGroup: Uint8Array[][] = [];
  for (const ids of lists ?? []) byGroup.push(await engine.inspection.readBlocks(ids));
  return assemble(layout, groups, byGroup, length ?? 0);
}

/** Failures unless there was exactly one transfer, done, of exactly `expected` bytes. */
function transferFailures(transfers: readonly TransferResult[], expected: number): string[] {
  const done = transfers.filter(({ outcome }) => outcome === 'done');
  const bytes = sumOf(done, (result) => result.bytes);
  if (transfers.length === 1 && done.length === 1 && bytes === expected) return [];
  const outcomes = transfers.map(({ outcome, message }) => (message ? `${outcome}: ${message}` : outcome));
  return [
    `transfers (${outcomes.join('; ') || 'none'}) moved ${bytes} bytes: wanted one transfer of ${expected}`,
  ];
}
