/** Requests of bench:serve, valid and invalid, and starting the server. */
import { type ChildProcess, spawn } from 'node:child_process';
import { Agent, request } from 'node:http';
import { EngineDeadError } from '../../../errors.ts';
import { sum, sumOf } from '../../../sum.ts';
import { ServerMemory } from '../server-memory.ts';

const MAX_TOKENS = 8;
/** Number of different valid questions. */
export const QUESTIONS = 16;
/** Held blocks are released by then. */
export const TTL_SECONDS = 3;

export interface Answer {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  body: string;
  ms: number;
  /** The client disconnected before the answer was complete. */
  left: boolean;
}

const agent = new Agent({ keepAlive: true, maxSockets: 512 });

/** `leaveAfterMs`: disconnect then, if the answer is not complete. */
export function send(
  url: string,
  body: string,
  { method = 'POST', leaveAfterMs = null }: { method?: string; leaveAfterMs?: number | null } = {},
): Promise<Answer> {
  const begun = performance.now();
  return new Promise((resolve, reject) => {
    const headers = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) };
    const answer: Answer = { status: 0, headers: {}, body: '', ms: 0, left: false };
    const end = (left: boolean): void => {
      clearTimeout(timer);
      resolve({ ...answer, ms: performance.now() - begun, left });
    };
    const fail = (error: Error): void => (answer.left ? end(true) : reject(error));
    const sent = request(url, { method, agent, headers }, (response) => {
      answer.status = response.statusCode ?? 0;
      answer.headers = response.headers;
      response.setEncoding('utf8');
      response.on('data', (part: string) => {
        answer.body += part;
      });
      response.on('error', fail);
      response.on('end', () => end(false));
    });
    const timer =
      leaveAfterMs === null
        ? undefined
        : setTimeout(() => {
            answer.left = true;
            sent.destroy();
            end(true);
          }, leaveAfterMs);
    sent.on('error', fail);
    sent.end(body);
  });
}

export interface Urls {
  prefill: string;
  decode: string;
  router: string;
}

/** Invalid requests with their expected status. */
export function badRequests(urls: Urls): { url: string; body: string; status: number }[] {
  const chat = `${urls.router}/v1/chat/completions`;
  const messages = [{ role: 'user', content: 'hello' }];
  const json = (body: object): string => JSON.stringify(body);
  const prompt = Array.from({ length: 40 }, (_, i) => 1 + i);
  const foreign = {
    do_remote_prefill: true,
    remote_engine_id: 'decode-0',
    remote_request_id: 'nobody',
    remote_host: 'localhost',
    remote_port: 5601,
    remote_block_ids: [[1, 2, 3]],
    remote_num_tokens: prompt.length,
    remote_token_ids: prompt,
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
      body: json({ prompt, kv_transfer_params: foreign }),
      status: 400,
    },
  ];
}

export interface Message {
  role: 'user' | 'assistant';
  content: string;
}

export const chatBody = (messages: readonly Message[], more: object = {}): string =>
  JSON.stringify({ messages, max_tokens: MAX_TOKENS, ignore_eos: true, ...more });

export const question = (i: number): Message => ({
  role: 'user',
  content: `Question ${i % QUESTIONS}: what comes after ${i % QUESTIONS}?`,
});

export const textOf = (answer: Answer): string => JSON.parse(answer.body).choices[0].message.content;

/** The same for a streamed answer. `error`: the server's error with its code; null: the stream ended without one. */
export function streamedText({ body }: Answer): { text: string } | { error: number | null } {
  let text = '';
  for (const line of body.split('\n')) {
    if (!line.startsWith('data: ')) continue;
    if (line === 'data: [DONE]') return { text };
    const { choices, error } = JSON.parse(line.slice(6));
    if (error) return { error: error.code };
    text += choices[0]?.delta?.content ?? '';
  }
  return { error: null };
}

export interface Server {
  child: ChildProcess;
  urls: Urls;
  /** Resolves when the process has ended. */
  stop(): Promise<void>;
}

/**
 * `entry`: the program to start, or one that takes its arguments. If the server ends unexpectedly, this process ends too and
 * prints the server's last output, because requests would only time out.
 */
export async function startServer(
  entry: string,
  { model, adapter }: { model: string; adapter: string },
): Promise<Server> {
  const args = ['serve', '--json', '--model', model, '--adapter', adapter, '--no-access-log'];
  for (const port of ['port', 'prefill-port', 'decode-port', 'admin-port']) args.push(`--${port}`, '0');
  args.push('--ttl', String(TTL_SECONDS), '--threshold', '0', '--max-num-seqs', '16', '--max-queue', '16');
  const child = spawn(process.execPath, [...ServerMemory.preload, entry, ...args], {
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
        // Incomplete so far.
      }
    });
    child.once('exit', (code, by) =>
      reject(new EngineDeadError(`the server ended with ${by ?? code}: ${errors}`)),
    );
  });
  const died = (code: number | null, by: string | null): void => {
    process.stderr.write(`\nthe server ended with ${by ?? code}: ${errors}\n`);
    process.exit(1);
  };
  child.once('exit', died);
  const stop = async (): Promise<void> => {
    child.off('exit', died);
    const ended = new Promise((resolve) => child.once('exit', resolve));
    agent.destroy();
    child.kill('SIGTERM');
    await ended;
  };
  return { child, urls, stop };
}

/** A metric of an engine's port, summed over series with these labels. */
async function metric(url: string, name: string, labels = ''): Promise<number> {
  const { body } = await send(`${url}/metrics`, '', { method: 'GET' });
  const lines = body.split('\n').filter((line) => line.startsWith(name) && line.includes(labels));
  return sumOf(lines, (line) => Number(line.slice(line.lastIndexOf(' ') + 1)));
}

export const memoryOf = (child: ChildProcess, urls: Urls): ServerMemory =>
  new ServerMemory(child, async (kind) => {
    const bytes = [urls.prefill, urls.decode].map((url) =>
      metric(url, 'kvferry:memory_bytes', `kind="${kind}"`),
    );
    return sum(await Promise.all(bytes));
  });

/** What is still in use after holds should have expired, one sentence each. */
export async function stillUsed({ prefill, decode }: Urls): Promise<string[]> {
  const found: string[] = [];
  for (const [name, url] of Object.entries({ prefill, decode })) {
    const used = await metric(url, 'vllm:kv_cache_usage_perc');
    if (used !== 0) found.push(`${name} still uses ${(100 * used).toFixed(1)} % of its blocks`);
  }
  return found;
}
