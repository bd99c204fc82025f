/** Faults switched on over HTTP, on real engines, as a router in front of them would meet them. */
import { expect, it } from 'vitest';
import { FaultBoard } from '../../src/faults/board.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { metric, post, withServer } from './server-fixture.ts';

const ask = {
  prompt: 'Once upon a time there was a fox',
  max_tokens: 12,
  temperature: 1,
  seed: 4,
  ignore_eos: true,
};

it('POST /faults makes engines slow, hang, fail or die without changing tokens; DELETE /faults ends the faults', async () => {
  const faults = new FaultBoard(systemClock);
  await withServer(
    {},
    { faultEndpoint: true },
    async ({ urls, cluster }) => {
      const say = async () => {
        const response = await post(`${urls.router}/v1/completions`, ask);
        return { status: response.status, body: (await response.json()) as { choices?: { text: string }[] } };
      };
      const add = async (...added: object[]) =>
        (await (await post(`${urls.admin}/faults`, { faults: added })).json()) as {
          faults: { times: number }[];
        };
      const times = async () =>
        ((await (await fetch(`${urls.admin}/faults`)).json()) as { faults: { times: number }[] }).faults[0]!
          .times;
      const end = () => fetch(`${urls.admin}/faults`, { method: 'DELETE' });
      const { body: right } = await say();

      await add({ engine: 'decode-0', fault: 'slow', delay_ms: 20 });
      const began = performance.now();
      expect((await say()).body.choices).toEqual(right.choices);
      expect(performance.now() - began).toBeGreaterThan(12 * 20);
      expect(await times()).toBe(1);
      await end();

      await add({ engine: 'prefill-0', fault: 'hang' });
      const hung = say();
      await expect.poll(times).toBe(1);
      await end();
      expect((await hung).body.choices).toEqual(right.choices);

      await add({ engine: 'decode-0', fault: 'repeat', rate: 50 });
      expect((await say()).body.choices).toEqual(right.choices);
      await add({ engine: 'prefill-0', fault: 'delay', delay_ms: 30 });
      expect((await say()).body.choices).toEqual(right.choices);
      await end();

      await add({ engine: 'decode-0', fault: 'server_error' });
      const failed = await post(`${urls.decode}/v1/completions`, ask);
      expect(failed.status).toBe(503);
      expect((await say()).status).toBe(200);
      expect(await metric(urls.decode, 'kvferry:requests_refused_total')).toBe(1);
      await end();

      const kill = { engine: 'decode-0', fault: 'kill' };
      await add(kill);
      // An engine that is down is as good as killed, and the rest of the list counts.
      const both = await add(kill, { engine: 'prefill-0', fault: 'slow', delay_ms: 1 });
      expect(both.faults).toHaveLength(2);
      expect((await say()).body.choices).toEqual(right.choices);
      await expect.poll(() => cluster.engines.every(({ ended }) => !ended)).toBe(true);
      expect((await say()).body.choices).toEqual(right.choices);
    },
    faults,
  );
});

it('the fault endpoint answers 404 unless it is enabled', async () => {
  await withServer({}, {}, async ({ urls }) => {
    expect((await fetch(`${urls.admin}/faults`)).status).toBe(404);
    expect((await post(`${urls.router}/faults`, { faults: [] })).status).toBe(404);
  });
});
