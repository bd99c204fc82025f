import { expect, it } from 'vitest';
import { metric, post, withServer } from './server-fixture.ts';

const pool = (count: number) => ({ count, numBlocks: 96, enablePrefixCaching: true });

interface Completion {
  choices: { text: string }[];
  kv_transfer_params: Record<string, unknown> | null;
}

it('each engine has a port of its own, any P hands over to any D by HTTP, and GET /fleet tells of all', async () => {
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
    // As a proxy does, over the second of each.
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
    // The operator's alone.
    expect((await fetch(`${urls.router}/fleet`)).status).toBe(404);
    expect(errors).toEqual([]);
  });
});
