/**
 * `npm run bench:engine`: one engine alone on one adapter: its start, a prefill beside its kernels alone, and decode steps
 * with what of them the host takes. Rounds alternate. No transfers.
 */
import { EngineCore } from '../../engine/engine-core.ts';
import { FULL_GROUP } from '../../engine/kv-cache-spec.ts';
import { DEFAULT_SAMPLING } from '../../engine/sampling.ts';
import { ConfigError } from '../../errors.ts';
import type { GpuDevice } from '../../gpu/device.ts';
import { median } from '../../measure/statistics.ts';
import { adapterForm } from '../../model/kernel-variants.ts';
import { loadWeights } from '../../model/load.ts';
import { matricesOf } from '../../model/matrices.ts';
import { putOnDevice } from '../../model/on-device.ts';
import type { Architecture } from '../../model/types.ts';
import { systemClock } from '../../platform/clock.ts';
import { nodePlatform, useAdapter } from '../../platform/node.ts';
import { formatMs } from '../format.ts';
import { left, plainStyle, renderTable, right } from '../table.ts';
import { measureAttention } from './kernels/attention.ts';
import { measureMatrix } from './kernels/matrices.ts';
import { workbench } from './kernels/workbench.ts';
import { benchOptions, report, runBench } from './options.ts';

const PROMPT = 1024;
const BLOCK_SIZE = 16;
/** Steps of a case in a round; the first, which prefills, is not counted. */
const DECODE_STEPS = 12;
/** Prompts as long as a context, in tokens, and how many at once. At 64 tokens a step is little but matrices. */
const CASES = [
  { context: 64, sequences: 1 },
  { context: 64, sequences: 4 },
  { context: 512, sequences: 1 },
  { context: 512, sequences: 4 },
  { context: 4096, sequences: 1 },
] as const;
const LONGEST = Math.max(...CASES.map(({ context }) => context)) + DECODE_STEPS;

/** A decode step, milliseconds: all of it, and the part in which the device has nothing to do. */
interface StepTime {
  ms: number;
  hostMs: number;
}

await runBench(async () => {
  const options = benchOptions('bench:engine', 'one engine alone: start, prefill and decode', {
    model: 'tiny',
    rounds: 5,
  });
  const files = await nodePlatform.openModel(options.model);
  const adapter = await useAdapter(options.adapter);
  const begun = systemClock.now();
  const weights = await loadWeights({ name: options.model, files, dtype: 'f16', seed: 0 });
  const { architecture } = weights;
  if (architecture.maxModelLen < LONGEST) {
    throw new ConfigError(
      `${options.model} goes up to ${architecture.maxModelLen} tokens: wanted ${LONGEST}`,
    );
  }
  const tokens = CASES.reduce((sum, { context, sequences }) => sum + sequences * (context + DECODE_STEPS), 0);
  const numBlocks = 1 + Math.ceil((tokens + 2 * PROMPT) / BLOCK_SIZE) + 16;
  const limits = { maxNumBatchedTokens: PROMPT, maxNumSeqs: 8, maxModelLen: LONGEST };
  const { gpu, kv, runner } = await putOnDevice(nodePlatform, weights, {
    numBlocks,
    kvDtype: 'f16',
    layout: 'contiguous',
    keepLogits: false,
    clock: systemClock,
    limits: { ...limits, blockSize: BLOCK_SIZE },
  });
  try {
    const { weightsMs, compileMs, pipelines } = await runner.warmUp();
    const startMs = systemClock.now() - begun;
    const busy = busyTime(gpu);
    const core = new EngineCore({
      clock: systemClock,
      executor: runner,
      connector: null,
      config: {
        engineId: 'engine',
        host: '127.0.0.1',
        port: 0,
        connector: null,
        eosTokenIds: [],
        cache: {
          blockSize: BLOCK_SIZE,
          numBlocks,
          enablePrefixCaching: true,
          hashSeed: '0',
          kvDtype: 'f16',
          groups: FULL_GROUP,
          allFullKv: false,
        },
        scheduler: limits,
      },
    });
    const prefillMs: number[] = [];
    const kernelsMs: number[] = [];
    const steps = CASES.map((): StepTime[] => []);
    await decode(core, busy, CASES[0], architecture.vocabSize, 'warm');
    for (let round = 0; round < options.rounds; round++) {
      process.stderr.write(`\rround ${round + 1} of ${options.rounds}`);
      prefillMs.push(await prefill(core, architecture.vocabSize, round));
      kernelsMs.push(await kernelsAlone(gpu, architecture));
      for (const [i, each] of CASES.entries()) {
        steps[i]!.push(...(await decode(core, busy, each, architecture.vocabSize, `${round}`)));
      }
    }
    process.stderr.write('\n');
    const decodes = CASES.map((each, i) => ({ ...each, steps: steps[i]! }));
    const share = median(prefillMs.map((ms, i) => kernelsMs[i]! / ms));
    runner.destroy();
    kv.destroy();
    report(
      options,
      [
        `${options.model} alone on ${adapter.name}`,
        `start ${formatMs(startMs)} ms; weights ${formatMs(weightsMs)} ms, and beside them ${pipelines} pipelines ${formatMs(compileMs)} ms (warm if the driver had them cached)`,
        '',
        ...table([
          [`prefill of ${PROMPT} tokens`, prefillMs],
          ['its matrices and attention alone', kernelsMs],
          ...decodes.flatMap(({ context, sequences, steps: all }): [string, number[]][] => [
            [`decode step, ${sequences} at ${context} tokens`, all.map(({ ms }) => ms)],
            ['  of it the host, the device idle', all.map(({ hostMs }) => hostMs)],
          ]),
        ]),
        '',
        ...stepRatios(decodes),
        `prefill runs at ${(100 * share).toFixed(0)}% of the rate of its matrices and attention alone (median of rounds)`,
        `pipelines first used after the warm-up: ${runner.firstUseCompilations()}`,
      ],
      {
        adapter: gpu.report,
        model: options.model,
        startMs,
        weightsMs,
        compileMs,
        pipelines,
        promptTokens: PROMPT,
        prefillMs,
        kernelsMs,
        decode: decodes,
      },
    );
  } finally {
    gpu.destroy();
  }
});

/** How many times longer a step gets with more sequences, and with a longer context. */
function stepRatios(decodes: readonly { context: number; sequences: number; steps: StepTime[] }[]): string[] {
  const step = (sequences: number, context: number): number => {
    const found = decodes.find((each) => each.sequences === sequences && each.context === context)!;
    return median(found.steps.map(({ ms }) => ms));
  };
  const times = (a: number, b: number) => `${(a / b).toFixed(2)} times`;
  return [
    `a step of 4 sequences takes ${times(step(4, 64), step(1, 64))} one of 1 at 64 tokens, ${times(step(4, 512), step(1, 512))} at 512`,
    `a step at 4,096 tokens takes ${times(step(1, 4096), step(1, 512))} one at 512`,
  ];
}

/** Milliseconds, so far, from submits to the word that they are done. */
function busyTime(gpu: GpuDevice): () => number {
  const { run } = gpu;
  let total = 0;
  gpu.run = async (...args) => {
    const start = systemClock.now();
    const result = await run.apply(gpu, args);
    total += systemClock.now() - start;
    return result;
  };
  return () => total;
}

function promptOf(length: number, vocabSize: number, seed: number): number[] {
  return Array.from({ length }, (_, i) => (i * 7919 + 13 + 31 * seed) % vocabSize);
}

function add(core: EngineCore, requestId: string, promptTokenIds: number[], maxTokens: number): void {
  const sampling = { ...DEFAULT_SAMPLING, maxTokens, ignoreEos: true };
  core.addRequest({ requestId, promptTokenIds, sampling, kvTransferParams: null, cacheSalt: null });
}

/** A prompt that nothing of is cached. */
async function prefill(core: EngineCore, vocabSize: number, round: number): Promise<number> {
  core.resetPrefixCache();
  add(core, `prefill ${round}`, promptOf(PROMPT, vocabSize, round), 1);
  const start = systemClock.now();
  while (core.poll()) await core.step();
  return systemClock.now() - start;
}

async function decode(
  core: EngineCore,
  busy: () => number,
  { context, sequences }: (typeof CASES)[number],
  vocabSize: number,
  name: string,
): Promise<StepTime[]> {
  for (let s = 0; s < sequences; s++) {
    add(core, `${name} ${context} ${s}`, promptOf(context, vocabSize, s), DECODE_STEPS);
  }
  const times: StepTime[] = [];
  let outputs = 0;
  while (core.poll()) {
    const [start, busyBefore] = [systemClock.now(), busy()];
    outputs += (await core.step()).length;
    const ms = systemClock.now() - start;
    // All have their first token: from now on steps only decode.
    if (outputs > sequences) times.push({ ms, hostMs: ms - (busy() - busyBefore) });
  }
  return times.slice(1);
}

/** What a prefill computes, kernel after kernel: each alone, times its number of layers. */
async function kernelsAlone(gpu: GpuDevice, architecture: Architecture): Promise<number> {
  const form = adapterForm(gpu.report.subgroupSize, gpu.report.software);
  const bench = workbench(gpu, 1);
  const { numLayers, headDim, numHeads: heads, numKvHeads: kvHeads } = architecture;
  let ms = 0;
  for (const [name, { inputs: k, outputs: n }] of Object.entries(matricesOf(architecture))) {
    if (name === 'lm head') continue;
    ms += (await measureMatrix(bench, form, { name, m: PROMPT, k, n })).ms[0]!;
  }
  const rows = { rows: PROMPT, context: PROMPT, headDim, heads, kvHeads };
  ms += (await measureAttention(bench, form, rows)).ms[0]!;
  return numLayers * ms;
}

function table(rows: readonly [string, readonly number[]][]): string[] {
  const columns = [left('what'), ...right('median ms', 'least', 'most')];
  const cells = rows.map(([what, ms]) => [
    what,
    formatMs(median(ms)),
    formatMs(Math.min(...ms)),
    formatMs(Math.max(...ms)),
  ]);
  return renderTable(columns, cells, plainStyle);
}
