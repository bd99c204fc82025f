/**
 * The requests of front ends that other projects put in front of P and D, field by field: AIBrix's `shfs` agent (its
 * default, for engines that use NIXL's parameters), llm-d's sidecar with its nixlv2 connector, and AIBrix's headers at
 * the router. vLLM's own proxies are in vllm-tools.test.ts.
 */
import { describe, expect, it } from 'vitest';
import { inUse, post, withServer } from './server-fixture.ts';

type Json = Record<string, unknown>;

interface Completion {
  id: string;
  choices: { text?: string; message?: { content: string }; finish_reason: string }[];
  kv_transfer_params: Json | null;
}

interface FrontEnd {
  name: string;
  /** Makes the body for P from the client's. */
  prefill(body: Json): Json;
  /** Makes the parameters for D from those that P returned. */
  params(given: Json, prefillHost: string): Json;
  headers(requestId: string): Record<string, string>;
}

const without = (body: Json, ...keys: string[]): Json =>
  Object.fromEntries(Object.entries(body).filter(([key]) => !keys.includes(key)));

const SKELETON = {
  do_remote_decode: true,
  do_remote_prefill: false,
  remote_engine_id: null,
  remote_block_ids: null,
  remote_host: null,
  remote_port: null,
};

const frontEnds: FrontEnd[] = [
  {
    name: "AIBrix's shfs agent",
    prefill: (body) => ({
      ...without(body, 'stream_options', 'min_tokens'),
      ...{ max_tokens: 1, max_completion_tokens: 1, stream: false, kv_transfer_params: SKELETON },
    }),
    params: (given, prefillHost) => ({ ...given, remote_host: prefillHost }),
    // The client's own headers are forwarded.
    headers: (requestId) => ({ 'X-Request-Id': requestId, 'routing-strategy': 'pd', 'x-session-id': 'MTI3' }),
  },
  {
    name: "llm-d's sidecar, nixlv2",
    prefill: (body) => ({
      ...without(body, 'stream_options'),
      ...{ max_tokens: 1, max_completion_tokens: 1, stream: false, kv_transfer_params: SKELETON },
    }),
    params: (given) => given,
    headers: (requestId) => ({ 'x-request-id': requestId, 'x-prefiller-host-port': '127.0.0.1:8100' }),
  },
];

const text = ({ choices }: Completion): string => choices[0]!.text ?? choices[0]!.message!.content;

describe.each(frontEnds)('$name', (front) => {
  it.each([
    ['/v1/completions', { prompt: 'tell me of the ferry that crosses the sound at night' }],
    ['/v1/chat/completions', { messages: [{ role: 'user', content: 'tell me of the ferry' }] }],
  ])(
    'on %s gets the same answer as through the router, and P holds nothing afterwards',
    async (path, prompt) => {
      await withServer({}, {}, async ({ urls, cluster, errors }) => {
        const body = { model: 'nano', ...prompt, max_tokens: 9, ignore_eos: true, seed: 5, temperature: 1 };
        const ask = async (url: string, sent: Json, headers: Record<string, string>): Promise<Completion> => {
          const answer = await post(url + path, sent, { headers });
          expect(answer.status).toBe(200);
          return (await answer.json()) as Completion;
        };
        const expected = await ask(urls.router, body, {});
        for (let turn = 0; turn < 2; turn++) {
          const headers = front.headers(`req-${turn}`);
          const prefilled = await ask(urls.prefill, front.prefill(body), headers);
          expect(prefilled.id).toContain(`req-${turn}`);
          expect(prefilled.kv_transfer_params).toMatchObject({
            do_remote_prefill: true,
            do_remote_decode: false,
            remote_engine_id: 'prefill-0',
          });
          const params = front.params(prefilled.kv_transfer_params!, '127.0.0.1');
          const decoded = await ask(urls.decode, { ...body, kv_transfer_params: params }, headers);
          expect(text(decoded)).toBe(text(expected));
          expect(decoded.choices[0]!.finish_reason).toBe('length');
        }
        // P's blocks are free. D's holds, which no client uses, end when they expire.
        const prefill = async () => (await cluster.stats())[0];
        await expect.poll(prefill).toMatchObject({ engineId: 'prefill-0', heldRequests: 0 });
        expect(await cluster.engine('decode').lab.expireHolds('decode')).toBeGreaterThan(0);
        await expect.poll(async () => (await inUse(cluster)).held).toBe(0);
        expect(errors).toEqual([]);
      });
    },
  );
});

describe("AIBrix's headers at the router", () => {
  it('routing-strategy selects the policy of one request, and target-pod in the answer names the engine', async () => {
    const pool = (count: number) => ({ count, numBlocks: 96, enablePrefixCaching: true });
    await withServer({ prefill: pool(2), decode: pool(2) }, {}, async ({ urls, cluster }) => {
      const policies: string[] = [];
      cluster.onNotice((notice) => {
        if (notice.kind === 'turn ended') policies.push(notice.result.routed!.policy);
      });
      const body = { prompt: 'the ferry', max_tokens: 4, ignore_eos: true };
      const ask = (headers: Record<string, string>) =>
        post(`${urls.router}/v1/completions`, body, { headers });
      const session = { 'x-session-id': 'guest-7' };
      const pods = new Set<string | null>();
      for (let i = 0; i < 4; i++) {
        const { status, headers } = await ask({ ...session, 'routing-strategy': 'session-affinity' });
        expect(status).toBe(200);
        pods.add(headers.get('target-pod'));
        expect(headers.get('prefill-target-pod')).toMatch(/^prefill-[01]$/);
      }
      // The same session goes to the same D; round robin, the active policy, alternates.
      expect(pods.size).toBe(1);
      const around = await Promise.all([ask({}), ask({})]);
      expect(new Set(around.map(({ headers }) => headers.get('target-pod'))).size).toBe(2);
      expect((await ask({ 'routing-strategy': 'pd' })).status).toBe(200);
      expect((await ask({ 'routing-strategy': 'slo' })).status).toBe(400);
      expect(policies.toSorted()).toEqual([
        ...['aibrix-pd', 'round-robin', 'round-robin'],
        ...Array.from({ length: 4 }, () => 'session-affinity'),
      ]);
      const monolithic = await cluster.setMode('monolithic').then(() => ask({}));
      expect(monolithic.headers.has('prefill-target-pod')).toBe(false);
      expect(monolithic.headers.get('target-pod')).toMatch(/^decode/);
    });
  });
});
