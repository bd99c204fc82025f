/**
 * Fuzzed requests to real engines over sockets are answered or refused, never with a 5xx, and leave no work behind.
 * KVFERRY_FUZZ_BODIES and KVFERRY_FUZZ_PARAMS set the counts (20,000 and 100,000 were run), KVFERRY_FUZZ_SEED the seed.
 */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { testOptions } from './cluster-fixture.ts';
import { bodies, type Change, changed, paramSets } from './fuzz.ts';
import { post, type Served, withServer } from './server-fixture.ts';

const numberOf = (name: string, fallback: number): number => Number(process.env[name] ?? fallback);
const BODIES = numberOf('KVFERRY_FUZZ_BODIES', 400);
const PARAMS = numberOf('KVFERRY_FUZZ_PARAMS', 1000);
const SEED = numberOf('KVFERRY_FUZZ_SEED', 20_261_122);

/** Concurrent requests. */
const AT_ONCE = 16;
/** Requests generated at a time; each chunk uses one set of offered parameters. */
const CHUNK = 320;

/** Test timeout in milliseconds; a run usually takes far less. */
const PATIENCE = 60_000 + 40 * (BODIES + PARAMS);

class Statuses {
  readonly #counts = new Map<number, number>();

  add(status: number): void {
    this.#counts.set(status, (this.#counts.get(status) ?? 0) + 1);
  }

  of(status: number): number {
    return this.#counts.get(status) ?? 0;
  }

  toString(): string {
    return [...this.#counts]
      .sort(([a], [b]) => a - b)
      .map(([status, count]) => `${count} × ${status}`)
      .join(', ');
  }
}

/** Deterministic for a seed. Throws on a 5xx, with the answer, what was sent and the seed that repeats it. */
async function sendAll<T>(
  what: fc.Arbitrary<T>,
  count: number,
  chunkBegins: () => Promise<void>,
  send: (item: T) => Promise<{ response: Response; sent: string }>,
): Promise<Statuses> {
  const statuses = new Statuses();
  for (let begun = 0; begun < count; begun += CHUNK) {
    const seed = SEED + begun;
    const items = fc.sample(what, { numRuns: Math.min(CHUNK, count - begun), seed });
    await chunkBegins();
    const left = items.values();
    const worker = async (): Promise<void> => {
      for (const item of left) {
        const { response, sent } = await send(item);
        const answer = await response.text();
        statuses.add(response.status);
        if (response.status >= 500 || /"code":5\d\d/.test(answer))
          throw new Error(
            `seed ${seed}: ${response.status} ${answer.slice(0, 500)}\nto ${sent.slice(0, 2000)}`,
          );
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
  }
  return statuses;
}

const strict = {
  connector: { ...testOptions.connector, loadFailurePolicy: 'fail' as const },
  prefill: { numBlocks: 512, enablePrefixCaching: false },
  decode: { numBlocks: 512, enablePrefixCaching: true },
};
const serving = { defaults: { maxTokens: 2 } };

async function isWell({ urls, cluster, errors }: Served): Promise<void> {
  expect(errors).toEqual([]);
  const load = async () => (await cluster.stats()).map(({ running, waiting }) => running + waiting);
  await expect.poll(load).toEqual([0, 0]);
  for (const url of [urls.router, urls.prefill, urls.decode])
    expect((await fetch(`${url}/health`)).status).toBe(200);
}

it(
  `${BODIES} fuzzed bodies get no 5xx, from seed ${SEED}`,
  async () => {
    await withServer(strict, serving, async (served) => {
      const { urls } = served;
      const paths = [
        ...[urls.router, urls.prefill, urls.decode].flatMap((url) =>
          ['/v1/chat/completions', '/v1/completions', '/inference/v1/generate'].map((path) => url + path),
        ),
        ...[`${urls.router}/tokenize`, `${urls.decode}/detokenize`, `${urls.admin}/router/kv/query`],
        ...[`${urls.admin}/prefill-0/kv/query`, `${urls.router}/nothing`],
      ];
      const types = ['application/json', 'application/json; charset=utf-8', 'text/plain', ''];
      const asked = fc.record({
        url: fc.constantFrom(...paths),
        body: bodies,
        type: fc.nat({ max: 40 }).map((i) => types[i % 10] ?? types[0]!),
        requestId: fc.option(fc.string({ maxLength: 300 }), { freq: 10 }),
      });
      const statuses = await sendAll(
        asked,
        BODIES,
        async () => {},
        async ({ url, body, type, requestId }) => {
          const headers = {
            'Content-Type': type,
            ...(requestId === null ? {} : { 'X-Request-Id': requestId.trim() }),
          };
          return { response: await fetch(url, { method: 'POST', headers, body }), sent: `${url} ${body}` };
        },
      );
      console.log(`${BODIES} bodies, seed ${SEED}: ${statuses}`);
      expect([statuses.of(200), statuses.of(400)].every((count) => count > BODIES / 20)).toBe(true);
      await isWell(served);
    });
  },
  PATIENCE,
);

it(
  `${PARAMS} fuzzed sets of kv_transfer_params get no 5xx, from seed ${SEED}`,
  async () => {
    await withServer(strict, serving, async (served) => {
      const { urls } = served;
      const prompt = Array.from({ length: 40 }, (_, i) => 20 + i);
      const ask = async (url: string, body: object) => {
        const response = await post(`${url}/v1/completions`, { prompt, max_tokens: 1, ...body });
        return { response, sent: JSON.stringify(body) };
      };
      type Offered = { kv_transfer_params: Record<string, unknown> };
      let offers: Record<string, unknown>[] = [];
      const offer = async () => {
        const fromP = await ask(urls.prefill, { kv_transfer_params: { do_remote_decode: true } });
        const { kv_transfer_params: p } = (await fromP.response.json()) as Offered;
        const second = await ask(urls.prefill, { kv_transfer_params: { do_remote_decode: true } });
        const { kv_transfer_params: toD } = (await second.response.json()) as Offered;
        const fromD = await ask(urls.decode, { kv_transfer_params: toD });
        const { kv_transfer_params: d } = (await fromD.response.json()) as Offered;
        offers = [p, d];
      };
      const asked = fc.record({
        changes: paramSets as fc.Arbitrary<Record<string, Change>>,
        from: fc.nat({ max: 1 }),
        to: fc.constantFrom('prefill' as const, 'decode' as const),
        tokens: fc.integer({ min: 1, max: 60 }),
        more: fc.constantFrom({}, { cache_salt: 's' }, { n: 2, temperature: 1 }, { stream: true }),
      });
      const statuses = await sendAll(asked, PARAMS, offer, ({ changes, from, to, tokens, more }) => {
        const kv_transfer_params = changed(offers[from]!, changes);
        const longer = [...prompt, ...prompt].slice(0, tokens);
        return ask(urls[to], { ...more, prompt: tokens < 30 ? prompt : longer, kv_transfer_params });
      });
      console.log(`${PARAMS} sets of parameters, seed ${SEED}: ${statuses}`);
      expect([statuses.of(200), statuses.of(400)].every((count) => count > PARAMS / 100)).toBe(true);
      await isWell(served);
    });
  },
  PATIENCE,
);
