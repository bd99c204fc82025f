/**
 * `npm run bench:serve`: sends 200 requests per second, one in ten valid, to a server in its own process, in rounds of one
 * second. Fails if a valid request gets a wrong answer, an invalid request is not refused as expected, any answer is a 500, a
 * block stays in use, or memory grows. Times are only reported. With `--duration`, runs a mixed load under faults instead:
 * load/hour.ts.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { durationMs } from '../../config/bench-schema.ts';
import { ConfigError } from '../../errors.ts';
import { FAULTS, type FaultKind } from '../../faults/schedule.ts';
import { quantile } from '../../measure/statistics.ts';
import { bundled } from '../../platform/node/paths.ts';
import { useAdapter } from '../../platform/node.ts';
import { left, right } from '../../report/document.ts';
import { plainStyle, renderTable } from '../output/table.ts';
import { type HourFigures, runHour } from './load/hour.ts';
import {
  type Answer,
  badRequests,
  chatBody,
  memoryOf,
  QUESTIONS,
  question,
  send,
  startServer,
  stillUsed,
  TTL_SECONDS,
  textOf,
} from './load/requests.ts';
import { type BenchOptions, benchOptions, refuseGiven, report, runBench } from './options.ts';
import { growth, memoryLines, noFault } from './server-memory.ts';

const RATE = 200;
const GOOD_EVERY = 10;

class Tally {
  readonly goodMs: number[] = [];
  readonly badMs: number[] = [];
  refused = 0;
  readonly faults = new Map<string, number>();

  fault(what: string): void {
    this.faults.set(what, (this.faults.get(what) ?? 0) + 1);
  }

  good(answer: Answer, expected: string): void {
    if (answer.status === 503) {
      this.refused++;
      if (answer.headers['retry-after'] === undefined) this.fault('a 503 without Retry-After');
    } else if (answer.status !== 200) this.fault(`a good request got ${answer.status}`);
    else if (textOf(answer) !== expected) this.fault('a good request got a wrong answer');
    else this.goodMs.push(answer.ms);
  }

  /** With a full queue the server does not check the prompt. */
  bad(answer: Answer, status: number): void {
    this.badMs.push(answer.ms);
    if (answer.status === 503 && answer.headers['retry-after'] !== undefined) return;
    if (answer.status !== status) this.fault(`a bad request got ${answer.status} for ${status}`);
  }
}

await runBench(async () => {
  const what = `${RATE} requests per second to a server, one in ${GOOD_EVERY} good; a round is one second`;
  const own = {
    'duration TIME': 'instead, a mixed load under faults for this long: 60m, 90s',
    'seed N': 'seed of the clients and faults in that load (1)',
  };
  const options = await benchOptions('bench:serve', what, { model: 'nano', rounds: 60 }, own);
  if (options.own.duration !== undefined) return mixed(options);
  refuseGiven(options, ['seed'], 'has no effect without --duration');
  const adapter = await useAdapter(options.adapter);
  const { child, urls, stop } = await startServer(bundled('kvferry'), options);
  try {
    const chat = `${urls.router}/v1/chat/completions`;
    const expected: string[] = [];
    for (let i = 0; i < QUESTIONS; i++) expected.push(textOf(await send(chat, chatBody([question(i)]))));
    const bad = badRequests(urls);
    const tally = new Tally();
    const memory = memoryOf(child, urls);
    const before = await memory.mark(0);
    let half = before;
    const open = new Set<Promise<void>>();
    let begun = performance.now();
    const total = RATE * options.rounds;
    for (let i = 0; i < total; i++) {
      if (i === total / 2) {
        // Garbage collection stops every thread, so no request is in flight meanwhile.
        await Promise.all(open);
        half = await memory.mark(i);
        begun = performance.now() - (1000 * i) / RATE;
      }
      const due = begun + (1000 * i) / RATE;
      if (due > performance.now()) await sleep(due - performance.now());
      const turn = Math.floor(i / GOOD_EVERY);
      const wrong = bad[i % bad.length]!;
      const sent =
        i % GOOD_EVERY === 0
          ? send(chat, chatBody([question(turn)])).then((answer) =>
              tally.good(answer, expected[turn % QUESTIONS]!),
            )
          : send(wrong.url, wrong.body).then((answer) => tally.bad(answer, wrong.status));
      const settled: Promise<void> = sent
        .catch((error: Error) => tally.fault(`no answer: ${error.message}`))
        .finally(() => open.delete(settled));
      open.add(settled);
      if (i % RATE === 0) process.stderr.write(`\r${i / RATE} of ${options.rounds} s`);
    }
    await Promise.all(open);
    const seconds = (performance.now() - begun) / 1000;
    await sleep(1000 * TTL_SECONDS + 1500);
    const marks = { before, half, after: await memory.mark(total) };
    for (const fault of [...growth(marks), ...(await stillUsed(urls))]) tally.fault(fault);
    const figures = {
      adapter: adapter.name,
      model: options.model,
      seconds,
      requests: total,
      memory: marks,
      good: {
        answered: tally.goodMs.length,
        refused_503: tally.refused,
        p50_ms: at(tally.goodMs, 0.5),
        p99_ms: at(tally.goodMs, 0.99),
      },
      bad: { answered: tally.badMs.length, p50_ms: at(tally.badMs, 0.5), p99_ms: at(tally.badMs, 0.99) },
      faults: Object.fromEntries(tally.faults),
    };
    const { good, bad: refused } = figures;
    const faults = [...tally.faults].map(([fault, count]) => `${count} times: ${fault}`);
    report(
      options,
      [
        '',
        `${figures.requests} requests in ${seconds.toFixed(1)} s at ${options.model} on ${adapter.name}, one in ${GOOD_EVERY} good`,
        `good: ${good.answered} answered correctly, ${good.refused_503} refused with 503; half within ${shown(good.p50_ms)}, 99 % within ${shown(good.p99_ms)}`,
        `bad:  ${refused.answered} refused; half within ${shown(refused.p50_ms)}, 99 % within ${shown(refused.p99_ms)}`,
        ...memoryLines(marks),
        faults.length === 0 ? noFault(marks) : faults.join('\n'),
      ],
      figures,
    );
    if (faults.length > 0) process.exitCode = 1;
  } finally {
    await stop();
  }
});

async function mixed(options: BenchOptions): Promise<void> {
  const { duration, seed: given = '1' } = options.own;
  const ms = durationMs(duration!);
  const seed = Number(given);
  if (ms === null)
    throw new ConfigError(`--duration is ${duration}: wanted a time above 0, such as 60m or 90s`);
  if (!Number.isInteger(seed) || seed < 0)
    throw new ConfigError(`--seed is ${given}: wanted a whole number from 0 on`);
  refuseGiven(options, ['rounds'], 'has no effect with --duration');
  const adapter = await useAdapter(options.adapter);
  const entry = fileURLToPath(new URL('./load/server.js', import.meta.url));
  const { child, urls, stop } = await startServer(entry, options);
  try {
    const figures = await runHour({
      urls,
      child,
      seconds: ms / 1000,
      seed,
      onProgress: (seconds, requests, struck, faults) =>
        process.stderr.write(
          `\r${Math.floor(seconds)} of ${ms / 1000} s: ${requests} requests, ${struck} faults put in, ${faults} found `,
        ),
    });
    const about = { adapter: adapter.name, model: options.model };
    report(options, hourLines(figures, about), { ...about, ...figures });
    if (Object.keys(figures.faults).length > 0) process.exitCode = 1;
  } finally {
    await stop();
  }
}

function hourLines(figures: HourFigures, about: { adapter: string; model: string }): string[] {
  const { seconds, seed, requests, clients, struck, memory, faults } = figures;
  const count = (n: number) => n.toLocaleString('en');
  const rows = Object.entries(clients).map(([kind, { right, told, left, p50_ms, p99_ms }]) => {
    return [kind, count(right), count(told), count(left), shown(p50_ms), shown(p99_ms)];
  });
  const found = Object.entries(faults).map(([fault, times]) => `${times} times: ${fault}`);
  const happened = Object.entries(struck).map(([kind, times]) => `${times} ${FAULTS[kind as FaultKind]}`);
  return [
    '',
    `${count(requests)} requests in ${seconds.toFixed(0)} s at ${about.model} on ${about.adapter}, seed ${seed}`,
    ...renderTable(
      [left('a client that'), ...right('correct', 'told to retry', 'left', 'half within', '99 %')],
      rows,
      plainStyle,
    ),
    `put in: ${happened.join(', ') || 'nothing'}`,
    ...memoryLines(memory),
    ...(found.length > 0 ? found : [noFault(memory)]),
  ];
}

function shown(ms: number | null): string {
  return ms === null ? '-' : `${ms.toFixed(1)} ms`;
}

function at(samples: readonly number[], q: number): number | null {
  return samples.length === 0 ? null : quantile(samples, q);
}
