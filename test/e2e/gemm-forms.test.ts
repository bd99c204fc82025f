/** P and D with different forms of the matrix kernel: tokens and logits are those of one engine, bit for bit. */
import { describe, expect, it } from 'vitest';
import { ARITHMETICS, type Arithmetic } from '../../src/config/arithmetic.ts';
import type { KvTransferParams } from '../../src/config/kv-transfer.ts';
import { DEFAULT_SAMPLING } from '../../src/engine/sampling.ts';
import { engineStart, seatsOf } from '../../src/fleet/options.ts';
import { connect, ThreadEngine } from '../../src/fleet/thread-engine.ts';
import {
  choiceOf,
  defaultChoice,
  type GemmChoice,
  gemmCandidates,
} from '../../src/model/kernels/gemm-forms.ts';
import { adapterForm } from '../../src/model/kernels/kernel-variants.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { nodePlatform, useAdapter } from '../../src/platform/node.ts';
import { type PlannedEngines, type Turn, turnOutputs } from '../../src/router/turn-outputs.ts';
import { TEST_ADAPTER } from '../adapter.ts';
import { testOptions } from './cluster-fixture.ts';

const TURNS = 3;

/** Prefill steps have more rows than the largest form processes at once; decode steps have one row. */
const options = { ...testOptions, maxNumBatchedTokens: 128 };

async function withEngines<T>(
  arithmetic: Arithmetic,
  gemm: { prefill: GemmChoice | null; decode: GemmChoice | null },
  use: (prefill: ThreadEngine, decode: ThreadEngine) => Promise<T>,
): Promise<T> {
  const engines: ThreadEngine[] = [];
  try {
    for (const spec of seatsOf(options)) {
      const start = { ...engineStart(options, spec, 1, 'bidirectional'), arithmetic, gemm: gemm[spec.role] };
      engines.push(await ThreadEngine.start(nodePlatform, start, spec, systemClock));
    }
    const [prefill, decode] = engines as [ThreadEngine, ThreadEngine];
    await connect(prefill, [decode]);
    return await use(prefill, decode);
  } finally {
    await Promise.all(engines.map((engine) => engine.shutdown()));
  }
}

/** Serves turns with a growing history; returns each token as `id:digest`. */
async function converse(way: PlannedEngines): Promise<{ tokens: string[]; pulled: number }> {
  const tokens: string[] = [];
  let [pulled, remote]: [number, KvTransferParams | null] = [0, null];
  let history: number[] = [];
  for (let number = 0; number < TURNS; number++) {
    history = [...history, ...Array.from({ length: 100 }, (_, i) => 10 + ((number * 97 + i * 31) % 400))];
    const turn: Turn = {
      requestIds: { prefill: `turn-${number}-p`, decode: `turn-${number}-d` },
      promptTokenIds: history,
      sampling: { ...DEFAULT_SAMPLING, maxTokens: 6, ignoreEos: true },
      cacheSalt: null,
      acceptedMs: 0,
      remote,
      pull: null,
      signal: null,
      stopped: null,
    };
    for await (const { side, answers, output } of turnOutputs(way, turn)) {
      if (side === 'prefill' && output.finish) pulled += output.prompt!.pulledTokens;
      if (!answers) continue;
      for (const { tokenId, logitsDigest } of output.tokens) {
        tokens.push(`${tokenId}:${logitsDigest}`);
        history = [...history, tokenId];
      }
      remote = output.finish?.kvTransferParams ?? null;
    }
  }
  return { tokens, pulled };
}

describe('forms of the matrix kernel', () => {
  it.for(ARITHMETICS)(
    'may differ between P and D in %s: tokens and logits equal those of one engine with the default form',
    async (arithmetic, { skip }) => {
      const { name, features } = await useAdapter(TEST_ADAPTER);
      if (arithmetic === 'f16' && !features.includes('shader-f16')) skip(`${name} has no shader-f16`);
      const none = { prefill: null, decode: null };
      const { alone, form } = await withEngines(arithmetic, none, async (prefill) => ({
        alone: await converse({ way: 'alone', engine: prefill }),
        form: adapterForm(prefill.started.adapter),
      }));
      const usual = defaultChoice(form);
      const other = choiceOf((rows) => gemmCandidates(form)[rows].at(-1)!);
      expect(other, `${name} can run one choice only`).not.toEqual(usual);
      for (const gemm of [
        { prefill: usual, decode: other },
        { prefill: other, decode: usual },
      ]) {
        const both = await withEngines(arithmetic, gemm, (prefill, decode) =>
          converse({ way: 'pull', prefill, decode }),
        );
        expect(both.tokens).toEqual(alone.tokens);
        expect(both.pulled).toBeGreaterThan(0);
      }
    },
  );
});
