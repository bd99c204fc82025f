/**
 * `npm run bench:peers`: compares kvferry with other libraries on the same adapter, for matrix products and a whole model.
 * Each runs in its own process; rounds alternate while the other processes are stopped. Products: the same f32 inputs,
 * transfers to the device and back included for all, results compared with float64. Model: the same weights, greedy tokens
 * compared.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { ConfigError, InternalError } from '../../errors.ts';
import { plural } from '../../measure/format.ts';
import { median } from '../../measure/statistics.ts';
import { useAdapter } from '../../platform/node.ts';
import { left, right } from '../../report/document.ts';
import { plainStyle, renderTable } from '../output/table.ts';
import { numbers, probes } from './kernels/workbench.ts';
import { benchOptions, report, runBench, spread } from './options.ts';
import type { FromContender, ToContender } from './peers/child.ts';
import { type ContenderName, contenders, PEER_PACKAGES, type Shape } from './peers/contenders.ts';
import { compareModels, LLAMA_PACKAGES, modelTable } from './peers/models.ts';
import { ask, standStill } from './peers/turns.ts';

const SHAPES: Shape[] = [
  { m: 512, k: 512, n: 512 },
  { m: 1024, k: 1024, n: 1024 },
  { m: 256, k: 256, n: 1536 },
];

const packages = [...PEER_PACKAGES, ...LLAMA_PACKAGES];

interface Figure {
  shape: Shape;
  contender: ContenderName;
  /** Milliseconds per round; null, with a reason, if it could not run. */
  ms: number[] | null;
  why: string | null;
  /** It is not installed. */
  missing: boolean;
  /** Speed-up of kvferry: the median over the rounds of the other's time divided by ours. */
  ratio: number | null;
  /** Largest difference from float64, relative to the larger of 1 and the value. */
  error: number;
}

await runBench(async () => {
  const options = await benchOptions(
    'bench:peers',
    'matrix products and a whole model, compared with other libraries (optional installs)',
    {
      model: 'tiny',
      rounds: 7,
    },
  );
  if (options.rounds < 5)
    throw new ConfigError(`--rounds is ${options.rounds}: wanted 5 or more, to compare medians`);
  const adapter = await useAdapter(options.adapter);
  const figures: Figure[] = [];
  for (const shape of SHAPES) {
    process.stderr.write(`${shape.m} x ${shape.k} x ${shape.n}\n`);
    figures.push(...(await compare(shape, options.adapter, options.rounds)));
  }
  const models = await compareModels(options.model, options.adapter, options.rounds);
  const missing = [...figures, ...models].some((each) => each.missing);
  report(
    options,
    [
      `matrix products on ${adapter.name}, f32, transfers included`,
      `medians of ${plural(options.rounds, 'alternating round')} [min, max];`,
      'ratio: median of its time divided by ours',
      '',
      ...table(figures),
      '',
      ...modelTable(options.model, models),
      ...(missing
        ? [
            '',
            'the others are optional:',
            '  npm install --no-save --ignore-scripts \\',
            ...packages.map((name, i) => `    ${name}${i < packages.length - 1 ? ' \\' : ''}`),
          ]
        : []),
    ],
    { adapter: adapter.name, model: options.model, rounds: options.rounds, figures, models },
  );
  const [ours] = models;
  if (ours?.why) throw new InternalError(`our own engine failed: ${ours.why}`);
});

async function compare(shape: Shape, adapter: string, rounds: number): Promise<Figure[]> {
  const figures: (Figure & { child: ChildProcess })[] = [];
  try {
    await measure(figures, shape, adapter, rounds);
  } finally {
    for (const { child } of figures) child.kill('SIGKILL');
  }
  const ours = figures.find(({ contender }) => contender === 'kvferry')!.ms;
  if (!ours) throw new InternalError(`our own product failed: ${figures[0]!.why}`);
  return figures.map(({ child: _, ...figure }) => {
    const ratios = figure.ms?.map((ms, i) => ms / ours[i]!) ?? null;
    return { ...figure, ratio: ratios && median(ratios) };
  });
}

/** Fills in a figure for each contender. */
async function measure(
  figures: (Figure & { child: ChildProcess })[],
  shape: Shape,
  adapter: string,
  rounds: number,
): Promise<void> {
  const expected = product(shape);
  for (const contender of Object.keys(contenders) as ContenderName[]) {
    const child = fork(fileURLToPath(new URL('peers/child.js', import.meta.url)), {
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    });
    const figure: (typeof figures)[number] = {
      shape,
      contender,
      ms: [],
      why: null,
      missing: false,
      ratio: null,
      error: 0,
      child,
    };
    figures.push(figure);
    const answer = await askContender(child, { kind: 'prepare', contender, adapter, shape });
    if (answer.kind === 'missing' || answer.kind === 'failed') {
      figure.ms = null;
      figure.why = answer.why;
      figure.missing = answer.kind === 'missing';
    }
  }
  for (let round = 0; round < rounds; round++) {
    for (const figure of figures) {
      if (figure.ms === null) continue;
      standStill(figures, figure);
      const answer = await askContender(figure.child, { kind: 'round' });
      if (answer.kind !== 'done') {
        figure.ms = null;
        figure.why = 'why' in answer ? answer.why : 'it did not answer';
        continue;
      }
      figure.ms.push(answer.ms);
      answer.sample.forEach((value, i) => {
        const wanted = expected[i]!;
        const error = Math.abs(value - wanted) / Math.max(1, Math.abs(wanted));
        figure.error = Math.max(figure.error, Number.isNaN(error) ? Infinity : error);
      });
    }
  }
}

function askContender(child: ChildProcess, message: ToContender): Promise<FromContender> {
  return ask<FromContender>(child, message);
}

/** Some elements of the product, in float64. */
function product({ m, k, n }: Shape): number[] {
  const [a, b] = [numbers(m * k, 1), numbers(k * n, 2)];
  return probes(m * n).map((at) => {
    let sum = 0;
    for (let i = 0; i < k; i++) sum += a[Math.floor(at / n) * k + i]! * b[i * n + (at % n)]!;
    return sum;
  });
}

function table(figures: readonly Figure[]): string[] {
  const columns = [left('M x K x N'), left('library'), ...right('ms', 'GFLOP/s', 'ratio', 'error')];
  const rows = figures.map(({ shape: { m, k, n }, contender, ms, why, ratio, error }) => {
    const name = `${m} x ${k} x ${n}`;
    if (!ms) return { remark: `${contender} skipped: ${why}` };
    return [
      name,
      contender,
      spread(ms),
      ((2 * m * k * n) / median(ms) / 1e6).toFixed(1),
      ratio!.toFixed(2),
      error.toExponential(0),
    ];
  });
  return renderTable(columns, rows, plainStyle);
}
