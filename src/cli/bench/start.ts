/**
 * `npm run bench:start`: time from process start to the first token of `kvferry run`, by stage. Cold (driver's and kvferry's
 * caches empty) and warm, each in a new process. Warm starts alternate with starts that have one more decode engine, to
 * measure the cost of an engine.
 */
import { fork } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { InternalError } from '../../errors.ts';
import { formatMs } from '../../measure/format.ts';
import { median } from '../../measure/statistics.ts';
import { systemClock } from '../../platform/clock.ts';
import { bundled } from '../../platform/node/paths.ts';
import { useAdapter } from '../../platform/node.ts';
import { left, right } from '../../report/document.ts';
import { plainStyle, renderTable } from '../output/table.ts';
import { benchOptions, report, runBench, spread } from './options.ts';
import type { FromChild, StartTimes } from './start/child.ts';

const STAGES = ['process', 'modules', 'adapter', 'engines', 'first token'] as const;
type Stage = (typeof STAGES)[number];

interface Start extends Record<Stage, number> {
  total: number;
  loadMs: number[];
  compileMs: number[];
  residentMib: number;
  processorMs: number;
  threads: number | null;
}

const COLD_ROUNDS = 2;

await runBench(async () => {
  const options = await benchOptions('bench:start', 'from the start of the process to the first token', {
    model: 'tiny',
    rounds: 7,
  });
  const adapter = await useAdapter(options.adapter);
  const command = ['run', '--model', options.model, '--adapter', options.adapter, '--mode', 'bidirectional'];
  const args = [...command, '--turns', '1', '--output-tokens', '2'];
  const say = (what: string) => process.stderr.write(`${what}\n`);
  const cold: Start[] = [];
  const warm: Start[] = [];
  const oneMore: Start[] = [];
  for (let round = 0; round < Math.min(options.rounds, COLD_ROUNDS); round++) {
    say(`cold ${round + 1}`);
    cold.push(await coldStart(args));
  }
  // The first start fills the driver's cache.
  for (let round = 0; round <= options.rounds; round++) {
    say(round === 0 ? 'warming up' : `warm ${round}`);
    const start = await timeStart(args, {});
    const larger = await timeStart([...args, '--decode', '2'], {});
    if (round > 0) {
      warm.push(start);
      oneMore.push(larger);
    }
  }
  report(
    options,
    [
      `${options.model} on ${adapter.name}: ms to the first token of a prompt of 128 tokens`,
      `medians of ${cold.length} cold and ${warm.length} warm starts [min, max]; cold: Mesa's and kvferry's caches empty`,
      '',
      ...table(cold, warm),
      '',
      `inside 'engines', warm, P and D: weights ${inside(warm, 'loadMs')} ms, pipelines in parallel ${inside(warm, 'compileMs')} ms`,
      engineCost(warm, oneMore),
    ],
    { adapter: adapter.name, model: options.model, cold, warm, oneMore },
  );
});

async function coldStart(args: readonly string[]): Promise<Start> {
  const empty = mkdtempSync(path.join(os.tmpdir(), 'kvferry-cold-'));
  try {
    return await timeStart(args, { MESA_SHADER_CACHE_DIR: empty, XDG_CACHE_HOME: empty });
  } finally {
    rmSync(empty, { recursive: true, force: true });
  }
}

/** Throws InternalError with the command's output if it failed. */
async function timeStart(args: readonly string[], environment: Record<string, string>): Promise<Start> {
  const begun = systemClock.now();
  const child = fork(bundled('start-child'), args, {
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    env: { ...process.env, ...environment },
  });
  const answer = await new Promise<FromChild>((resolve) => {
    let last: FromChild = { kind: 'failed', why: 'it ended without an answer' };
    child.on('message', (message) => {
      last = message as FromChild;
    });
    // A start begins after the previous one has ended.
    child.once('exit', () => resolve(last));
  });
  if (answer.kind === 'failed') throw new InternalError(`the start failed: ${answer.why}`);
  return stages(begun, answer.times);
}

function stages(begun: number, times: StartTimes): Start {
  const { booted, loaded, adapter, engines, firstToken, residentBytes, ...same } = times;
  const { loadMs, compileMs, processorMs, threads } = same;
  return {
    process: booted - begun,
    modules: loaded - booted,
    adapter: adapter - loaded,
    engines: engines - adapter,
    'first token': firstToken - engines,
    total: firstToken - begun,
    loadMs,
    compileMs,
    residentMib: residentBytes / 2 ** 20,
    processorMs,
    threads,
  };
}

/** What a second decode engine adds until the first token: medians of the differences per round. */
function engineCost(starts: readonly Start[], larger: readonly Start[]): string {
  const more = (of: (start: Start) => number) => median(larger.map((start, i) => of(start) - of(starts[i]!)));
  const threads = starts.every((start) => start.threads !== null)
    ? `, ${more((start) => start.threads!)} threads`
    : '';
  return (
    `one more decode engine, warm: ${formatMs(more(({ total }) => total))} ms to the first token, ` +
    `${formatMs(more(({ processorMs }) => processorMs))} ms of processor time, ${more(({ residentMib }) => residentMib).toFixed(0)} MiB resident${threads}`
  );
}

function table(cold: readonly Start[], warm: readonly Start[]): string[] {
  const columns = [left('stage'), ...right('cold', 'warm')];
  const rows = [...STAGES, 'total' as const].map((stage) => [
    stage,
    ...[cold, warm].map((starts) => spread(starts.map((start) => start[stage]))),
  ]);
  return renderTable(columns, rows, plainStyle);
}

function inside(starts: readonly Start[], what: 'loadMs' | 'compileMs'): string {
  const ofEngine = (engine: number) => starts.map((start) => start[what][engine]!);
  return [0, 1].map((engine) => formatMs(median(ofEngine(engine)))).join(' and ');
}
