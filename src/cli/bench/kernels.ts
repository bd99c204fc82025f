/**
 * `npm run bench:kernels`: each kernel alone, in the variant that the runner would use and in a model's shapes, compared with
 * the adapter's ceilings (measured in the same run) and with float64.
 */
import type { Arithmetic } from '../../config/arithmetic.ts';
import { ConfigError } from '../../errors.ts';
import { measureCeilings } from '../../gpu/ceilings.ts';
import type { GpuDevice } from '../../gpu/device.ts';
import { formatMs, plural } from '../../measure/format.ts';
import { median } from '../../measure/statistics.ts';
import { type AdapterForm, adapterForm } from '../../model/kernels/kernel-variants.ts';
import { loadArchitecture } from '../../model/load.ts';
import { openDevice } from '../../model/open-device.ts';
import { systemClock } from '../../platform/clock.ts';
import { nodePlatform, useAdapter } from '../../platform/node.ts';
import {
  type AttentionFigure,
  type AttentionShape,
  attentionShapes,
  measureAttention,
  windowPairs,
} from './kernels/attention.ts';
import { DECODE_CONTEXTS, type DecodeStepFigure, measureDecodeSteps } from './kernels/decode-step.ts';
import { type MatrixCase, type MatrixFigure, matrixCases, measureMatrix } from './kernels/matrices.ts';
import {
  attentionTable,
  errorLine,
  type HalvesFigure,
  halvesTable,
  matrixTable,
  type WindowFigure,
  windowTable,
} from './kernels/tables.ts';
import { joined, type Workbench, workbench } from './kernels/workbench.ts';
import { benchOptions, report, runBench } from './options.ts';

/** A model in which five of six layers have a window of 128 tokens. */
const HYBRID = 'tiny-hybrid';
const BUFFER_BYTES = 256 * 2 ** 20;
/** Alternations of windowed and full attention, each with all rounds. */
const WINDOW_TURNS = 10;

await runBench(async () => {
  const options = await benchOptions(
    'bench:kernels',
    'each kernel alone, against the adapter and float64',
    { model: 'tiny', rounds: 7 },
    { 'arithmetic f16': 'also measure matrix products in f16, alternating with f32; needs shader-f16' },
  );
  const { arithmetic = 'f32' } = options.own;
  if (arithmetic !== 'f32' && arithmetic !== 'f16')
    throw new ConfigError(`--arithmetic is ${arithmetic}: wanted f32 or f16`);
  const architecture = await loadArchitecture(options.model, await nodePlatform.openModel(options.model));
  const adapter = await useAdapter(options.adapter);
  const open = async (arithmetic: Arithmetic): Promise<GpuDevice> =>
    openDevice(nodePlatform, await nodePlatform.createGpu(), { bufferBytes: BUFFER_BYTES, arithmetic });
  const gpu = await open('f32');
  try {
    const form = adapterForm(gpu.report);
    const bench = workbench(gpu, options.rounds);
    const say = (what: string) => process.stderr.write(`${what}\n`);
    say("the adapter's ceilings");
    const ceilings = await measureCeilings(gpu, nodePlatform.readShader, systemClock);
    const matrices: MatrixFigure[] = [];
    for (const shape of matrixCases(architecture)) {
      say(`${shape.name} ${shape.m} x ${shape.k} x ${shape.n}`);
      matrices.push(await measureMatrix(bench, form, shape));
    }
    const halves =
      arithmetic === 'f16' ? await compareHalves(bench, open, form, matrixCases(architecture), say) : [];
    const attention: AttentionFigure[] = [];
    for (const shape of attentionShapes) {
      say(`attention, ${shape.rows} rows at ${shape.context} tokens, head_dim ${shape.headDim}`);
      attention.push(await measureAttention(bench, form, shape));
    }
    const windows: WindowFigure[] = [];
    for (const { windowed, full } of windowPairs) {
      say(
        `attention, ${windowed.rows} rows with a window of ${windowed.window}, head_dim ${windowed.headDim}`,
      );
      windows.push(await measureInTurn(bench, form, windowed, full));
    }
    say(`decode steps of ${HYBRID} at ${DECODE_CONTEXTS.short} and ${DECODE_CONTEXTS.long} tokens`);
    const decode = await measureDecodeSteps(HYBRID, 3 * options.rounds);
    report(
      options,
      [
        `kernels in the shapes of ${options.model} on ${adapter.name}`,
        `at most ${ceilings.gflops.toFixed(1)} GFLOP/s (multiply-adds in registers) and ${ceilings.readGbps.toFixed(2)} GB/s (plain reads)`,
        `the best of ${plural(options.rounds, 'round')}, [the median in ms]`,
        'ratio: of medians where those are shown, else of the best',
        'of read: of the rate at which one dispatch reads the same bytes and does nothing else',
        'full: attention to every key of a context as long as the window',
        '',
        ...matrixTable(matrices, ceilings),
        '',
        ...(halves.length > 0 ? [...halvesTable(halves), ''] : []),
        ...attentionTable(attention, ceilings),
        '',
        ...windowTable(windows),
        '',
        errorLine({ matrices, halves, attention, windows }),
        decodeLine(decode),
      ],
      { adapter: gpu.report, model: options.model, ceilings, matrices, halves, attention, windows, decode },
    );
  } finally {
    gpu.destroy();
  }
});

async function compareHalves(
  f32: Workbench,
  open: (arithmetic: Arithmetic) => Promise<GpuDevice>,
  form: AdapterForm,
  shapes: readonly MatrixCase[],
  say: (what: string) => void,
): Promise<HalvesFigure[]> {
  const gpu = await open('f16');
  const turn = (bench: Workbench): Workbench => ({ ...bench, rounds: 1 });
  try {
    const f16 = workbench(gpu, f32.rounds);
    const figures: HalvesFigure[] = [];
    for (const shape of shapes) {
      say(`${shape.name} ${shape.m} x ${shape.k} x ${shape.n}, f32 and f16`);
      const turns: HalvesFigure[] = [];
      for (let round = 0; round < f32.rounds; round++)
        turns.push({
          f32: await measureMatrix(turn(f32), form, shape),
          f16: await measureMatrix(turn(f16), form, shape),
        });
      figures.push({ f32: joined(turns, 'f32'), f16: joined(turns, 'f16') });
    }
    return figures;
  } finally {
    gpu.destroy();
  }
}

/** Alternates between both, so that other load on the machine affects both. */
async function measureInTurn(
  bench: Workbench,
  form: AdapterForm,
  windowed: AttentionShape,
  full: AttentionShape,
): Promise<WindowFigure> {
  const turns: WindowFigure[] = [];
  for (let turn = 0; turn < WINDOW_TURNS; turn++) {
    turns.push({
      windowed: await measureAttention(bench, form, windowed),
      full: await measureAttention(bench, form, full),
    });
  }
  return { windowed: joined(turns, 'windowed'), full: joined(turns, 'full') };
}

function decodeLine({ model, short, long }: DecodeStepFigure): string {
  const [before, after] = [median(short), median(long)];
  const { short: few, long: many } = DECODE_CONTEXTS;
  return `a decode step of ${model}: ${formatMs(before)} ms at ${few} tokens, ${formatMs(after)} ms at ${many}: ${(after / before).toFixed(2)}x (medians)`;
}
