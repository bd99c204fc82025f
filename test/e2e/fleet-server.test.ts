import { expect, it } from 'vitest';
import { OFFLOADING_DEFAULTS } from '../../src/config/connectors.ts';
import { testOptions } from './cluster-fixture.ts';
import { metric, post, withServer } from './server-fixture.ts';

const pool = (count: number) => ({ count, numBlocks: 96, enablePrefixCaching: true });

interface Completion {
  choices: { text: string }[];
  kv_transfer_params: Record<string, unknown> | null;
}

interface Member {
  name: string;
  url: string;
  start_ms: number;
}

it('POST /fleet/scale opens ports for engines that join, closes those that leave, and loses no routed request', async () => {
  const ports = { prefill: [0], decode: [0], router: 0, admin: 0 };
  await withServer({}, { ports }, async ({ urls, server, cluster, errors }) => {
    const scale = (body: object) => post(`${urls.admin}/fleet/scale`, body);
    const answers: Promise<Response>[] = [];
    const ask = (i: number) => {
      const prompt = Array.from({ length: 30 }, (_, k) => 10 + ((7 * i + k) % 300));
      answers.push(post(`${urls.router}/v1/completions`, { prompt, max_tokens: 12, ignore_eos: true }));
    };
    for (let i = 0; i < 6; i++) ask(i);
    const up = (await (await scale({ prefill: 2, decode: 2 })).json()) as {
      joined: Member[];
      left: Member[];
    };
    expect(up.joined.map(({ name }) => name)).toEqual(['prefill-1', 'decode-1']);
    expect(up.left).toEqual([]);
    const [, joined] = up.joined as [Member, Member];
    expect(joined.start_ms).toBeGreaterThan(0);
    expect((await fetch(`${joined.url}/health`)).status).toBe(200);
    expect((await fetch(`${urls.admin}/decode-1/metrics`)).status).toBe(200);
    for (let i = 6; i < 12; i++) ask(i);
    const down = await scale({ prefill: 1, decode: 1, drain: 'migrate', drain_timeout: 5 });
    const { left } = (await down.json()) as { left: Member[] };
    expect(left.map(({ name }) => name.split('-')[0])).toEqual(['prefill', 'decode']);
    for (const answer of await Promise.all(answers)) {
      expect(answer.status).toBe(200);
      const { usage } = (await answer.json()) as { usage: { completion_tokens: number } };
      expect(usage.completion_tokens).toBe(12);
    }
    const gone = left.find(({ name }) => name.startsWith('decode'))!;
    expect((await fetch(`${urls.admin}/${gone.name}/metrics`)).status).toBe(404);
    const url = gone.name === 'decode-1' ? joined.url : server.engineUrls[gone.name]!;
    await expect(fetch(`${url}/health`)).rejects.toThrow();
    const fleet = (await (await fetch(`${urls.admin}/fleet`)).json()) as { engines: Member[] };
    expect(fleet.engines).toHaveLength(2);
    // An engine that reuses a former name is a new engine with its own metrics.
    const again = (await (await scale({ decode: 2 })).json()) as {
      joined: (Member & { engine_id: string })[];
    };
    expect(again.joined[0]!.name).toBe(gone.name);
    expect(again.joined[0]!.engine_id).toBe(`${gone.name}.2`);
    expect((await fetch(`${urls.admin}/${gone.name}/metrics`)).status).toBe(200);
    expect(cluster.engines).toHaveLength(3);
    expect(errors).toEqual([]);
  });
});

it('POST /fleet/scale refuses impossible or malformed requests with a clear message, and needs the admin key', async () => {
  await withServer({}, { adminKey: 'secret' }, async ({ urls }) => {
    const headers = { Authorization: 'Bearer secret' };
    const scale = async (body: unknown) => {
      const answer = await post(`${urls.admin}/fleet/scale`, body, { headers });
      const { error } = (await answer.json()) as { error: { message: string } };
      return `${answer.status} ${error.message}`;
    };
    expect(await scale({ prefill: 0 })).toMatch(
      /^400 cannot scale prefill to 0: without a P nothing is served; give/,
    );
    expect(await scale({ decodes: 2 })).toBe(
      '400 unknown field decodes: wanted some of prefill, decode, roleset, drain, drain_timeout',
    );
    expect(await scale({ decode: 1.5 })).toBe('400 decode is 1.5: wanted a whole number of engines');
    expect(await scale([])).toBe(
      '400 the body is not an object: wanted one such as {"prefill": 2, "decode": 2}',
    );
    expect(await scale({ drain: 'quick' })).toBe('400 drain is "quick": wanted one of wait, migrate, drop');
    expect((await post(`${urls.admin}/fleet/scale`, { decode: 2 })).status).toBe(401);
    expect((await post(`${urls.router}/fleet/scale`, { decode: 2 }, { headers })).status).toBe(404);
  });
});

it('each engine has its own port, any P can hand over to any D over HTTP, and GET /fleet lists all engines', async () => {
  await withServer({ prefill: pool(2), decode: pool(2) }, {}, async ({ urls, server, errors }) => {
    const names = ['prefill-0', 'prefill-1', 'decode-0', 'decode-1'];
    expect(Object.keys(server.engineUrls)).toEqual(names);
    expect(new Set(Object.values(server.engineUrls)).size).toBe(4);
    expect(urls.prefill).toBe(server.engineUrls['prefill-0']);
    const at = (name: string) => `${server.engineUrls[name]}/v1/completions`;
    const ask = async (url: string, body: object): Promise<Completion> => {
      const answer = await post(url, body);
      expect(answer.status).toBe(200);
      return (await answer.json()) as Completion;
    };
    const prompt = Array.from({ length: 50 }, (_, i) => 10 + i);
    const routed = await ask(`${urls.router}/v1/completions`, { prompt, max_tokens: 6, ignore_eos: true });
    // As a proxy would, through the second P and the second D.
    const prefilled = await ask(at('prefill-1'), {
      ...{ prompt, max_tokens: 1 },
      kv_transfer_params: { do_remote_decode: true, do_remote_prefill: false },
    });
    expect(prefilled.kv_transfer_params).toMatchObject({ remote_engine_id: 'prefill-1' });
    const decoded = await ask(at('decode-1'), {
      ...{ prompt, max_tokens: 6, ignore_eos: true },
      kv_transfer_params: prefilled.kv_transfer_params,
    });
    expect(decoded.choices[0]!.text).toBe(routed.choices[0]!.text);
    expect(await metric(`${urls.admin}/decode-1`, 'vllm:prompt_tokens_by_source_total')).toBe(50);
    for (const [name, index] of [
      ['prefill-1', 1],
      ['decode-0', 0],
    ] as const) {
      const text = await (await fetch(`${urls.admin}/${name}/metrics`)).text();
      expect(text).toContain(`vllm:num_requests_running{model_name="nano",engine="${index}"} 0`);
    }
    const fleet = (await (await fetch(`${urls.admin}/fleet`)).json()) as {
      mode_of_fleet: string;
      rolesets: object[];
      engines: { name: string }[];
    };
    expect(fleet.mode_of_fleet).toBe('pooled');
    expect(fleet.rolesets).toEqual([
      { name: 'all', prompt_tokens: { min: 0, max: null }, eligible: true, engines: names },
    ]);
    expect(fleet.engines.map(({ name }) => name)).toEqual(names);
    expect(fleet.engines[3]).toMatchObject({
      ...{ engine_id: 'decode-1', role: 'decode', roleset: 'all', state: 'serving', reason: null },
      url: server.engineUrls['decode-1'],
      load: { requests_in_flight: 0, requests_running: 0, kv_blocks: 95 },
    });
    // Only the operator's port has it.
    expect((await fetch(`${urls.router}/fleet`)).status).toBe(404);
    expect(errors).toEqual([]);
  });
});

it("P hands over through a store on the engines' own ports, even when the parameters name another P", async () => {
  const connector = {
    ...testOptions.connector,
    ...({ name: 'OffloadingConnector', offloading: OFFLOADING_DEFAULTS } as const),
  };
  const store = { bytes: 2 ** 20, eviction: 's3fifo' } as const;
  await withServer({ connector, store }, {}, async ({ urls, cluster, errors }) => {
    const prompt = Array.from({ length: 50 }, (_, i) => 10 + i);
    const ask = async (url: string, body: object): Promise<Completion> => {
      const answer = await post(`${url}/v1/completions`, { prompt, ignore_eos: true, ...body });
      expect(answer.status).toBe(200);
      return (await answer.json()) as Completion;
    };
    const { kv_transfer_params: left } = await ask(urls.prefill, {
      max_tokens: 1,
      kv_transfer_params: { do_remote_decode: true, do_remote_prefill: false },
    });
    expect(left).toMatchObject({ remote_block_ids: [], remote_port: -1 });
    const decoded = await ask(urls.decode, { max_tokens: 6, kv_transfer_params: left });
    const loaded = async () => (await cluster.stats())[1]!.store!.loadedTokens;
    expect(await loaded()).toBe(48);
    const elsewhere = { ...left, remote_engine_id: 'prefill-0.9', remote_host: 'another' };
    const again = await ask(urls.decode, { max_tokens: 6, kv_transfer_params: elsewhere });
    const routed = await ask(urls.router, { max_tokens: 6 });
    expect([decoded, again].map(({ choices }) => choices[0]!.text)).toEqual(
      Array(2).fill(routed.choices[0]!.text),
    );
    expect(errors).toEqual([]);
  });
});
