/** An engine without a GPU, on KV that detects wrong, stale and unwritten reads; and shorthands for tests. */
import fc from 'fast-check';
import type { EngineCoreConfig, KvCacheSpec } from '../../src/config/engine.ts';
import { EngineCore, type EngineCoreDeps } from '../../src/engine/engine-core.ts';
import { FULL_GROUP } from '../../src/engine/kv-cache-spec.ts';
import { DEFAULT_SAMPLING } from '../../src/engine/sampling.ts';
import type {
  BlockId,
  BlockIds,
  EngineRequest,
  ModelExecutor,
  RequestOutput,
  SampledToken,
  SamplingParams,
  ScheduledBatch,
  ScheduledRequest,
} from '../../src/engine/types.ts';
import { TestClock } from '../clock.ts';

/** A token's KV is a digest of itself and everything before it, as real KV is. */
export function chain(previous: number, tokenId: number): number {
  let h = Math.imul(previous ^ 0x9e3779b9, 0x85ebca6b) ^ Math.imul(tokenId + 1, 0xc2b2ae35);
  h ^= h >>> 15;
  h = Math.imul(h, 0x2c1b3c6d);
  return (h ^ (h >>> 13)) >>> 0;
}

const VOCAB = 97;
/** Ends a sequence; the fake draws it about once in VOCAB tokens. */
export const EOS = 1;

/**
 * The paged KV of one engine and the model that reads it. Every read is compared with the request's true tokens, so
 * reading a stale or unwritten block, or one of another sequence, throws instead of changing a token.
 */
export class KvModel implements ModelExecutor {
  readonly blockSize: number;
  readonly batches: ScheduledBatch[] = [];
  /** Scripted next tokens, by request id; otherwise the KV decides. */
  readonly scripts = new Map<string, number[]>();
  /** Called while a batch runs. */
  duringBatch: () => void = () => {};
  readonly #groups: readonly KvCacheSpec[];
  /** A token's KV by block and slot, whichever group owns the block. */
  readonly #slots = new Map<string, number>();
  readonly #truth = new Map<string, number[]>();

  constructor(blockSize: number, groups: readonly KvCacheSpec[] = FULL_GROUP) {
    this.blockSize = blockSize;
    this.#groups = groups;
  }

  expect(request: EngineRequest): void {
    this.#truth.set(request.requestId, [...request.promptTokenIds]);
  }

  /** Erases new blocks, so that reading them before writing throws. */
  poison = (_group: number, ids: readonly BlockId[]): void => {
    for (const id of ids) {
      for (let slot = 0; slot < this.blockSize; slot++) this.#slots.delete(`${id}:${slot}`);
    }
  };

  copyBlock(from: KvModel, remote: BlockId, local: BlockId): void {
    for (let slot = 0; slot < this.blockSize; slot++) {
      const value = from.#slots.get(`${remote}:${slot}`);
      if (value === undefined) this.#slots.delete(`${local}:${slot}`);
      else this.#slots.set(`${local}:${slot}`, value);
    }
  }

  /** A block's KV as f64 bytes, for setBytes; a slot without KV is NaN. */
  bytesOf(id: BlockId): Uint8Array {
    const values = Array.from({ length: this.blockSize }, (_, slot) => this.#slots.get(`${id}:${slot}`));
    return new Uint8Array(Float64Array.from(values, (value) => value ?? Number.NaN).buffer);
  }

  setBytes(id: BlockId, bytes: Uint8Array): void {
    this.poison(0, [id]);
    for (const [slot, value] of new Float64Array(bytes.slice().buffer).entries())
      if (!Number.isNaN(value)) this.#slots.set(`${id}:${slot}`, value);
  }

  /** Writes the request's own KV for its first numTokens into those of its blocks that are in `arriving`. */
  arrive(requestId: string, blockIds: BlockIds, arriving: readonly BlockId[], numTokens: number): void {
    let digest = 0;
    this.#truth
      .get(requestId)!
      .slice(0, numTokens)
      .forEach((tokenId, position) => {
        digest = chain(digest, tokenId);
        blockIds.forEach((ids, group) => {
          const id = ids[Math.floor(position / this.blockSize)]!;
          if (arriving.includes(id))
            this.#slots.set(`${id}:${position % this.blockSize}`, chain(digest, group));
        });
      });
  }

  async execute(batch: ScheduledBatch): Promise<SampledToken[]> {
    this.batches.push(batch);
    const sampled = batch.requests.flatMap((request) => this.#run(request));
    await null;
    this.duringBatch();
    return sampled;
  }

  #run(request: ScheduledRequest): SampledToken[] {
    const { requestId, tokenIds, startPosition, blockIds, sample } = request;
    const truth = this.#truth.get(requestId);
    if (!truth) throw new Error(`${requestId} was not announced`);
    if (tokenIds.length === 0) throw new Error(`${requestId}: a row without a token`);
    const end = startPosition + tokenIds.length;
    const given = [...tokenIds].join();
    const wanted = truth.slice(startPosition, end).join();
    if (given !== wanted) throw new Error(`${requestId}: tokens ${given} at ${startPosition}, not ${wanted}`);
    let digest = 0;
    for (let position = 0; position < end; position++) {
      digest = chain(digest, truth[position]!);
      blockIds.forEach((ids, group) => {
        const spec = this.#groups[group]!;
        if (spec.kind === 'sliding' && position < startPosition - spec.window + 1) return;
        const id = ids[Math.floor(position / this.blockSize)];
        if (!id) throw new Error(`${requestId}: no block for position ${position} in group ${group}`);
        const slot = `${id}:${position % this.blockSize}`;
        if (position >= startPosition) this.#slots.set(slot, chain(digest, group));
        else if (this.#slots.get(slot) !== chain(digest, group)) {
          throw new Error(`${requestId}: position ${position} in block ${id} holds the KV of something else`);
        }
      });
    }
    if (!sample) return [];
    if (end !== truth.length) throw new Error(`${requestId}: samples at ${end} of ${truth.length}`);
    const tokenId = this.scripts.get(requestId)?.[sample.outputIndex] ?? draw(digest, sample);
    truth.push(sample.params.forcedTokenIds?.at(sample.outputIndex) ?? tokenId);
    return [{ requestId, tokenId, logitsDigest: digest.toString(16).padStart(16, '0'), logits: null }];
  }
}

function draw(digest: number, sample: NonNullable<ScheduledRequest['sample']>): number {
  const { params, outputIndex, forbiddenTokenIds } = sample;
  let h = chain(chain(digest, params.seed), outputIndex);
  while (forbiddenTokenIds.includes(h % VOCAB)) h = chain(h, 0);
  return h % VOCAB;
}

export const greedy = { ...DEFAULT_SAMPLING, maxTokens: 16, ignoreEos: true };

/** Token ids of a prompt; prompts of different seeds differ from the first token on. */
export function tokens(count: number, seed = 0): number[] {
  return Array.from({ length: count }, (_, i) => chain(seed + 1, i) % VOCAB);
}

export function request(
  requestId: string,
  promptTokenIds: readonly number[],
  sampling: Partial<SamplingParams> = {},
  rest: Partial<Pick<EngineRequest, 'kvTransferParams' | 'cacheSalt'>> = {},
): EngineRequest {
  const all = { ...greedy, ...sampling };
  return { requestId, promptTokenIds, sampling: all, kvTransferParams: null, cacheSalt: null, ...rest };
}

/** One to three KV cache groups, some with windows. */
export const someGroups = fc.array(
  fc.oneof(
    fc.constant<KvCacheSpec>({ kind: 'full' }),
    fc.integer({ min: 1, max: 14 }).map((window): KvCacheSpec => ({ kind: 'sliding', window })),
  ),
  { minLength: 1, maxLength: 3 },
);

export interface Sizes {
  blockSize?: number;
  /** Includes the null block. */
  numBlocks?: number;
  prefixCaching?: boolean;
  maxNumBatchedTokens?: number;
  maxNumSeqs?: number;
  maxModelLen?: number;
  groups?: readonly KvCacheSpec[];
}

export function engineConfig(sizes: Sizes = {}): EngineCoreConfig {
  return {
    engineId: 'engine',
    host: 'localhost',
    port: 5600,
    cache: {
      blockSize: sizes.blockSize ?? 16,
      numBlocks: sizes.numBlocks ?? 100,
      enablePrefixCaching: sizes.prefixCaching ?? true,
      hashSeed: 'test',
      kvDtype: 'f32',
      groups: sizes.groups ?? FULL_GROUP,
      allFullKv: false,
    },
    scheduler: {
      maxNumBatchedTokens: sizes.maxNumBatchedTokens ?? 512,
      maxNumSeqs: sizes.maxNumSeqs ?? 8,
      maxModelLen: sizes.maxModelLen ?? 1024,
    },
    connector: null,
    eosTokenIds: [EOS],
    vocabSize: null,
  };
}

/** An EngineCore on a KvModel. checkIntegrity runs after every step. */
export class TestEngine {
  readonly core: EngineCore;
  readonly model: KvModel;
  readonly outputs: RequestOutput[] = [];

  constructor(config: EngineCoreConfig, rest: Partial<EngineCoreDeps> = {}) {
    this.model = new KvModel(config.cache.blockSize, config.cache.groups);
    this.core = new EngineCore({
      config,
      executor: this.model,
      connector: null,
      clock: new TestClock(),
      onNewBlocks: this.model.poison,
      ...rest,
    });
  }

  add(engineRequest: EngineRequest): void {
    this.core.addRequest(engineRequest);
    this.model.expect(engineRequest);
  }

  async step(): Promise<RequestOutput[]> {
    const outputs = await this.core.step();
    this.core.inspect.checkIntegrity();
    this.outputs.push(...outputs);
    return outputs;
  }

  /** Steps until poll() finds nothing to do. */
  async settle(): Promise<void> {
    for (let steps = 0; this.core.poll(); steps++) {
      if (steps > 20_000) throw new Error('the engine steps and nothing comes of it');
      await this.step();
    }
  }

  tokensOf(requestId: string): number[] {
    const own = this.outputs.filter((output) => output.requestId === requestId);
    return own.flatMap((output) => output.tokens.map((token) => token.tokenId));
  }

  finishOf(requestId: string): NonNullable<RequestOutput['finish']> | null {
    return this.endOf(requestId)?.finish ?? null;
  }

  promptOf(requestId: string): RequestOutput['prompt'] {
    return this.outputs.find((output) => output.requestId === requestId && output.prompt)?.prompt ?? null;
  }

  endOf(requestId: string): RequestOutput | null {
    return this.outputs.find((output) => output.requestId === requestId && output.finish) ?? null;
  }

  scheduledIn(batch: number): Record<string, number> {
    const { requests } = this.model.batches[batch]!;
    return Object.fromEntries(requests.map(({ requestId, tokenIds }) => [requestId, tokenIds.length]));
  }
}

/** The tokens that an engine with enough blocks generates for this prompt alone. */
export async function alone(
  promptTokenIds: readonly number[],
  sampling: Partial<SamplingParams>,
): Promise<number[]> {
  const engine = new TestEngine(engineConfig());
  engine.add(request('a', promptTokenIds, sampling));
  await engine.settle();
  return engine.tokensOf('a');
}
