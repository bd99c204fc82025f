/**
 * `npm run bench:serve`: 200 requests a second at a server in a process of its own, one in ten good, for a round of one
 * second each. Fails when a good answer is wrong, a bad request is not refused as it should be, anything is a 500, a block
 * stays in use, or memory grows. Times are reported; they hold nothing up.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { Agent, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { quantile } from '../../measure/statistics.ts';
import { bundled } from '../../platform/node/paths.ts';
import { benchOptions, report, runBench } from './options.ts';
import { growth, memoryLines, ServerMemory } from './server-memory.ts';

const RATE = 200;
const GOOD_EVERY = 10;
const MAX_TOKENS = 8;
/** Held blocks are given back by then. */
const TTL_SECONDS = 3;

interface Answer {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  body: string;
  ms: number;
}

const agent = new Agent({ keepAlive: true, maxSockets: 512 });

function send(url: string, body: string, method = 'POST'): Promise<Answer> {
  const begun = performance.now();
  return new Promise((resolve, reject) => {
    const headers = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) };
    const sent = request(url, { method, agent, headers }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (part: string) => {
        text += part;
      });
      response.on('error', reject);
      response.on('end', () => {
        const ms = performance.now() - begun;
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: text, ms });
      });
    });
    sent.on('error', reject);
    sent.end(body);
  });
}

interface Urls {
  prefill: string;
  decode: string;
  router: string;
}

/** Each with the status that it deserves. */
function badRequests(urls: Urls): { url: string; body: string; status: number }[] {
  const chat = `${urls.router}/v1/chat/completions`;
  const messages = [{ role: 'user', content: 'hello' }];
  const json = (body: object): string => JSON.stringify(body);
  const foreign = {
    do_remote_prefill: true,
    remote_engine_id: 'decode-0',
    remote_request_id: 'nobody',
    remote_host: 'localhost',
    remote_port: 5601,
    remote_block_ids: [[1, 2, 3]],
  };
  return [
    { url: chat, body: '{"messages": [', status: 400 },
    { url: chat, body: json({ messages: [] }), status: 400 },
    { url: chat, body: json({ messages, max_tokens: -1 }), status: 400 },
    { url: chat, body: json({ messages, n: 4 }), status: 400 },
    { url: chat, body: json({ messages, model: 'other' }), status: 404 },
    { url: `${urls.router}/v1/completions`, body: json({ prompt: 'x'.repeat(20_000) }), status: 400 },
    { url: `${urls.router}/v1/completions`, body: json({ prompt: [1e6] }), status: 400 },
    { url: `${urls.router}/v1/nothing`, body: '{}', status: 404 },
    {
      url: `${urls.prefill}/v1/completions`,
      body: json({ prompt: 'a', kv_transfer_params: foreign }),
      status: 400,
    },
  ];
}

const goodBody = (i: number): string =>
  JSON.stringify({
    messages: [{ role: 'user', content: `Question ${i % 16}: what comes after ${i % 16}?` }],
    max_tokens: MAX_TOKENS,
    ignore_eos: true,
  });

const textOf = (answer: Answer): string => JSON.parse(answer.body).choices[0].message.content;

async function startServer(model: string, adapter: string): Promise<{ child: ChildProcess; urls: Urls }> {
  const args = ['serve', '--json', '--model', model, '--adapter', adapter, '--no-access-log'];
  for (const port of ['port', 'prefill-port', 'decode-port', 'admin-port']) args.push(`--${port}`, '0');
  args.push('--ttl', String(TTL_SECONDS), '--threshold', '0', '--max-num-seqs', '16', '--max-queue', '16');
  const child = spawn(process.execPath, [...ServerMemory.preload, bundled('kvferry'), ...args], {
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  });
  let errors = '';
  child.stderr!.setEncoding('utf8').on('data', (text: string) => {
    errors = (errors + text).slice(-2000);
  });
  const urls = await new Promise<Urls>((resolve, reject) => {
    let text = '';
    child.stdout!.setEncoding('utf8').on('data', (part: string) => {
      text += part;
      try {
        resolve(JSON.parse(text).urls);
      } catch {
        // Not whole yet.
      }
    });
    child.once('exit', (code) => reject(new Error(`the server ended with ${code}: ${errors}`)));
  });
  return { child, urls };
}

/** A metric of an engine's port, summed over what has these labels. */
async function metric(url: string, name: string, labels = ''): Promise<number> {
  const { body } = await send(`${url}/metrics`, '', 'GET');
  const lines = body.split('\n').filter((line) => line.startsWith(name) && line.includes(labels));
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
}

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

  /** Over a full queue nobody looks whether the prompt is good. */
  bad(answer: Answer, status: number): void {
    this.badMs.push(answer.ms);
    if (answer.status === 503 && answer.headers['retry-after'] !== undefined) return;
    if (answer.status !== status) this.fault(`a bad request got ${answer.status} for ${status}`);
  }
}

await runBench(async () => {
  const what = `${RATE} requests a second at a server, one in ${GOOD_EVERY} good; a round is a second`;
  const options = benchOptions('bench:serve', what, { model: 'nano', rounds: 60 });
  const { child, urls } = await startServer(options.model, options.adapter);
  try {
    const chat = `${urls.router}/v1/chat/completions`;
    const expected: string[] = [];
    for (let i = 0; i < 16; i++) expected.push(textOf(await send(chat, goodBody(i))));
    const bad = badRequests(urls);
    const tally = new Tally();
    const memory = new ServerMemory(child, async (kind) => {
      const engines = [urls.prefill, urls.decode];
      const bytes = await Promise.all(
        engines.map((url) => metric(url, 'kvferry:memory_bytes', `kind="${kind}"`)),
      );
      return bytes.reduce((sum, each) => sum + each, 0);
    });
    const before = await memory.mark(0);
    let half = before;
    const open = new Set<Promise<void>>();
    let begun = performance.now();
    const total = RATE * options.rounds;
    for (let i = 0; i < total; i++) {
      if (i === total / 2) {
        // Collecting garbage takes every thread's time: nobody waits for an answer meanwhile.
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
          ? send(chat, goodBody(turn)).then((answer) => tally.good(answer, expected[turn % 16]!))
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
    for (const fault of growth(marks)) tally.fault(fault);
    for (const [name, url] of Object.entries(urls)) {
      if (name === 'router') continue;
      const used = await metric(url, 'vllm:kv_cache_usage_perc');
      if (used !== 0) tally.fault(`${name} still uses ${(100 * used).toFixed(1)} % of its blocks`);
    }
    const figures = {
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
    const shown = (ms: number | null) => (ms === null ? '-' : `${ms.toFixed(1)} ms`);
    const { good, bad: refused } = figures;
    const faults = [...tally.faults].map(([fault, count]) => `${count} times: ${fault}`);
    report(
      options,
      [
        '',
        `${figures.requests} requests in ${seconds.toFixed(1)} s at ${options.model}, one in ${GOOD_EVERY} good`,
        `good: ${good.answered} answered right, ${good.refused_503} told to come back; half within ${shown(good.p50_ms)}, 99 % within ${shown(good.p99_ms)}`,
        `bad:  ${refused.answered} refused; half within ${shown(refused.p50_ms)}, 99 % within ${shown(refused.p99_ms)}`,
        ...memoryLines(marks),
        faults.length === 0
          ? 'no fault: no wrong answer, no 500, no block in use at the end, no growth of memory'
          : faults.join('\n'),
      ],
      figures,
    );
    if (faults.length > 0) process.exitCode = 1;
  } finally {
    agent.destroy();
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGTERM');
    await ended;
  }
});

function at(samples: readonly number[], q: number): number | null {
  return samples.length === 0 ? null : quantile(samples, q);
}
