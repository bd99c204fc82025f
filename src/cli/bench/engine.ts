/**
 * `npm run bench:engine`: one engine alone on one adapter. Measures its start, a prefill compared with its kernels alone, and
 * decode steps with the host's share. Rounds alternate. No transfers.
 */
import { ConfigError } from '../../errors.ts';
import { isLavapipe } from '../../gpu/adapter-name.ts';
import type { GpuDevice } from '../../gpu/device.ts';
import { formatMs } from '../../measure/format.ts';
import { median } from '../../measure/statistics.ts';
import { windowOf } from '../../model/architecture/layer-attention.ts';
import { adapterForm } from '../../model/kernels/kernel-variants.ts';
import { loadWeights } from '../../model/load.ts';
import type { Architecture, ModelWeights } from '../../model/types.ts';
import { matricesOf } from '../../model/weights/matrices.ts';
import { systemClock } from '../../platform/clock.ts';
import { nodePlatform, useAdapter } from '../../platform/node.ts';
import { left, right } from '../../report/document.ts';
import { plainStyle, renderTable } from '../output/table.ts';
import { type DecodeCase, decode, engineAlone, prefill, type StepTime } from './engine/alone.ts';
import { COMPARISONS, type ComparisonName, comparedTable, compareEngines } from './engine/compare.ts';
import { measureAttention } from './kernels/attention.ts';
import { measureMatrix } from './kernels/matrices.ts';
import { workbench } from './kernels/workbench.ts';
import { type BenchOptions, benchOptions, report, runBench } from './options.ts';

const PROMPT = 1024;
/** At 64 tokens, matrix products are nearly all of a step. */
const CASES: readonly DecodeCase[] = [
  { context: 64, sequences: 1 },
  { context: 64, sequences: 4 },
  { context: 512, sequences: 1 },
  { context: 512, sequences: 4 },
  { context: 4096, sequences: 1 },
];

await runBench(async () => {
  const options = await benchOptions(
    'bench:engine',
    'one engine alone: start, prefill and decode',
    { model: 'tiny', rounds: 5 },
    {
      'compare WHAT':
        'compare two engines in alternation: with and without fused kernels (fusion), or with and without subgroups of a fixed size (subgroups)',
    },
  );
  const { compare } = options.own;
  if (compare !== undefined && !Object.hasOwn(COMPARISONS, compare))
    throw new ConfigError(`--compare is ${compare}: wanted ${Object.keys(COMPARISONS).join(' or ')}`);
  const files = await nodePlatform.openModel(options.model);
  const adapter = await useAdapter(options.adapter);
  const begun = systemClock.now();
  const weights = await loadWeights({ name: options.model, files, dtype: 'f16', seed: 0 });
  if (compare) {
    const comparison = COMPARISONS[compare as ComparisonName];
    const figures = await compareEngines(weights, options.rounds, comparison, isLavapipe(adapter));
    const head = `prefill and decode steps of ${options.model} on ${adapter.name}: ${compare}, medians`;
    const { names } = comparison;
    const about = { adapter: adapter.name, model: options.model, compare, names };
    report(options, [head, '', ...comparedTable(figures, comparison)], { ...about, figures });
  } else {
    await measureEngine(options, adapter.name, weights, begun);
  }
});

/** `begun`: when loading of the weights began. */
async function measureEngine(
  options: BenchOptions,
  adapterName: string,
  weights: ModelWeights,
  begun: number,
): Promise<void> {
  const { architecture } = weights;
  const engine = await engineAlone(weights, { promptTokens: PROMPT, cases: CASES });
  const { gpu, runner } = engine;
  try {
    const { weightsMs, compileMs, pipelines } = engine.warmedUp;
    const startMs = systemClock.now() - begun;
    const prefillMs: number[] = [];
    const kernelsMs: number[] = [];
    const steps = CASES.map((): StepTime[] => []);
    await decode(engine, CASES[0]!, 'warm');
    for (let round = 0; round < options.rounds; round++) {
      process.stderr.write(`\rround ${round + 1} of ${options.rounds}`);
      kernelsMs.push(await kernelsAlone(gpu, architecture));
      // A GPU clocks down while only the host works, as just before this.
      await prefill(engine, PROMPT, options.rounds + round);
      prefillMs.push(await prefill(engine, PROMPT, round));
      for (const [i, each] of CASES.entries()) steps[i]!.push(...(await decode(engine, each, `${round}`)));
    }
    process.stderr.write('\n');
    const decodes = CASES.map((each, i) => ({ ...each, steps: steps[i]! }));
    const share = median(prefillMs.map((ms, i) => kernelsMs[i]! / ms));
    report(
      options,
      [
        `${options.model} alone on ${adapterName}`,
        `start ${formatMs(startMs)} ms; weights ${formatMs(weightsMs)} ms, in parallel with ${pipelines} pipelines ${formatMs(compileMs)} ms (warm if the driver had them cached)`,
        '',
        ...table([
          [`prefill of ${PROMPT} tokens`, prefillMs],
          ['its matrices and attention alone', kernelsMs],
          ...decodes.flatMap(({ context, sequences, steps: all }): [string, number[]][] => [
            [`decode step, ${sequences} at ${context} tokens`, all.map(({ ms }) => ms)],
            ['  of which host, device idle', all.map(({ hostMs }) => hostMs)],
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
    engine.destroy();
  }
}

/** How much longer a step takes with more sequences and with a longer context. */
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

/** The kernels of a prefill: each measured alone, times its number of layers. */
async function kernelsAlone(gpu: GpuDevice, architecture: Architecture): Promise<number> {
  const form = adapterForm(gpu.report);
  // A GPU clocks down while the host creates each kernel's operands, so it needs warm-up, and the best time counts.
  const bench = workbench(gpu, gpu.report.software ? 1 : 9);
  const { numLayers, headDim, numHeads: heads, numKvHeads: kvHeads } = architecture;
  let matricesMs = 0;
  for (const [name, { inputs: k, outputs: n }] of Object.entries(matricesOf(architecture))) {
    if (name === 'lm head') continue;
    matricesMs += Math.min(...(await measureMatrix(bench, form, { name, m: PROMPT, k, n })).ms);
  }
  const rows = { rows: PROMPT, context: PROMPT, headDim, heads, kvHeads };
  const windows = Array.from({ length: numLayers }, (_, layer) => windowOf(architecture, layer));
  let attentionMs = 0;
  for (const window of new Set(windows)) {
    const layers = windows.filter((each) => each === window).length;
    attentionMs += layers * Math.min(...(await measureAttention(bench, form, { ...rows, window })).ms);
  }
  return numLayers * matricesMs + attentionMs;
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
