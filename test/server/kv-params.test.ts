import { describe, expect, test } from 'vitest';
import type { ThreadEngine } from '../../src/fleet/thread-engine.ts';
import { HostNames } from '../../src/server/host-names.ts';
import { checkKvParams, type ParamsRule } from '../../src/server/kv/kv-params.ts';

const peer = (engineId: string, port: number) =>
  ({ engineId, address: { engineId, host: 'localhost', port } }) as ThreadEngine;

const rule = (more: Partial<ParamsRule> = {}): ParamsRule => ({
  peers: [peer('prefill-0.2', 5600), peer('prefill-1', 5602)],
  names: new HostNames(['0.0.0.0', 'gpu', '10.1.2.3']),
  recompute: false,
  ...more,
});

test("kv_transfer_params.streamed, for the router's own handovers, is refused from a client", () => {
  for (const role of ['do_remote_prefill', 'do_remote_decode']) {
    const params = { [role]: true, streamed: true, remote_engine_id: 'prefill-0', remote_request_id: 'x' };
    expect(() => checkKvParams(params, rule())).toThrow(
      expect.objectContaining({
        status: 400,
        message: expect.stringMatching(/kv_transfer_params.streamed .* --handover streamed/),
      }),
    );
  }
  expect(checkKvParams({ do_remote_decode: true }, rule())).toMatchObject({ do_remote_decode: true });
});

const offer = {
  ...{ do_remote_prefill: true, remote_block_ids: [[1, 2]], remote_request_id: 'r', remote_port: 5600 },
  ...{ remote_engine_id: 'prefill-0.2', remote_host: 'localhost', remote_num_tokens: 20 },
  ...{ remote_token_ids: Array(20).fill(1), unheard_of: 'passes' },
};

test('kv_transfer_params with more tokens than any engine can hold are refused', () => {
  expect(() => checkKvParams({ ...offer, remote_num_tokens: 2 ** 40 }, rule())).toThrow(
    expect.objectContaining({ status: 400, param: 'kv_transfer_params.remote_num_tokens' }),
  );
});

describe('remote_host', () => {
  test.each([
    'localhost',
    'LOCALHOST',
    '127.0.0.1',
    '127.0.1.1',
    '::1',
    '[::1]',
    '0.0.0.0',
    'gpu',
    '10.1.2.3',
  ])('%s is this machine, and is replaced by the name that its engines use', (remote_host) => {
    expect(checkKvParams({ ...offer, remote_host }, rule())).toMatchObject(offer);
  });

  test.each(['elsewhere', '10.9.9.9', 'localhost.evil.example'])('%s must be allowed', (remote_host) => {
    expect(() => checkKvParams({ ...offer, remote_host }, rule())).toThrow(
      expect.objectContaining({ status: 400, param: 'kv_transfer_params.remote_host' }),
    );
    expect(checkKvParams({ ...offer, remote_host }, rule({ names: new HostNames(['*']) }))).toMatchObject(
      offer,
    );
  });

  test('may be an IPv6 address under which that engine was reached, with or without brackets', () => {
    const names = new HostNames([]);
    names.noteHost('prefill-0', '[2001:db8::15]:8100');
    for (const remote_host of ['2001:db8::15', '[2001:db8::15]', '2001:DB8::15'])
      expect(checkKvParams({ ...offer, remote_host }, rule({ names }))).toMatchObject(offer);
    expect(names.has('prefill-0', '2001:db8::16')).toBe(false);
  });

  test('may be a name under which that engine was reached, also before a restart', () => {
    const names = new HostNames([]);
    names.noteHost('prefill-0', '192.0.2.7:8100');
    expect(checkKvParams({ ...offer, remote_host: '192.0.2.7' }, rule({ names }))).toMatchObject(offer);
    const other = { ...offer, remote_engine_id: 'prefill-1', remote_port: 5602, remote_host: '192.0.2.7' };
    expect(() => checkKvParams(other, rule({ names }))).toThrow(expect.objectContaining({ status: 400 }));
  });

  test('may be one of the 32 names that were used last', () => {
    const names = new HostNames([]);
    names.noteHost('prefill-1', '192.0.2.7:8100');
    for (let i = 0; i < 32; i++) names.noteHost('prefill-1', `198.51.100.${i}`);
    expect(names.has('prefill-1', '192.0.2.7')).toBe(false);
    names.noteHost('prefill-1', '198.51.100.0');
    names.noteHost('prefill-1', '192.0.2.7:8100');
    expect(names.has('prefill-1', '192.0.2.7')).toBe(true);
    expect(names.has('prefill-1', '198.51.100.0')).toBe(true);
    expect(names.has('prefill-1', '198.51.100.1')).toBe(false);
  });

  test.each([
    [{ remote_host: 'elsewhere' }, 'remote_host'],
    [{ remote_host: '10.9.9.9', remote_engine_id: null }, 'remote_host'],
  ])('is checked on a first turn already, before anything is computed: %j', (wrong, key) => {
    expect(() => checkKvParams({ do_remote_decode: true, ...wrong }, rule())).toThrow(
      expect.objectContaining({ status: 400, param: `kv_transfer_params.${key}` }),
    );
    const right = { do_remote_decode: true, remote_host: 'gpu', remote_port: 5600 };
    expect(checkKvParams(right, rule())).toMatchObject(right);
  });

  test('stays omitted if it was omitted', () => {
    const { remote_host: _, ...without } = offer;
    expect(checkKvParams(without, rule()).remote_host).toBeUndefined();
  });
});

describe('kv_transfer_params of a restarted engine', () => {
  test.each(['prefill-0', 'prefill-0.1'])(
    'under its old name %s get a 400 that says so, or are recomputed if that is the policy',
    (id) => {
      const stale = { ...offer, remote_engine_id: id };
      expect(() => checkKvParams(stale, rule())).toThrow(
        expect.objectContaining({
          status: 400,
          param: 'kv_transfer_params.remote_engine_id',
          message: expect.stringMatching(/restarted as prefill-0\.2/),
        }),
      );
      const computed = checkKvParams(stale, rule({ recompute: true }));
      expect(computed).toMatchObject({
        do_remote_prefill: true,
        remote_block_ids: null,
        remote_engine_id: null,
      });
      expect(computed.remote_token_ids).toBeNull();
    },
  );

  test('are refused under either policy if the engine never existed', () => {
    for (const recompute of [false, true])
      expect(() => checkKvParams({ ...offer, remote_engine_id: 'prefill-7' }, rule({ recompute }))).toThrow(
        /can read only from prefill-0\.2, prefill-1/,
      );
  });
});

describe('kv_transfer_params for KV in a store', () => {
  const left = {
    ...{ do_remote_prefill: true, remote_block_ids: [], remote_engine_id: 'prefill-0.2', remote_host: '' },
    ...{ remote_request_id: 'r', remote_port: -1, remote_store_num_tokens: 16, remote_store_offer: 3 },
  };

  test.each([
    ['as P wrote them', {}],
    ['with a host that a proxy replaced', { remote_host: 'elsewhere' }],
    ['from a P that restarted since', { remote_engine_id: 'prefill-0.1' }],
    ['from a P that left', { remote_engine_id: 'prefill-7' }],
  ])('pass unchanged under either policy: %s', (_, more) => {
    for (const recompute of [false, true])
      expect(checkKvParams({ ...left, ...more }, rule({ recompute }))).toMatchObject({ ...left, ...more });
  });

  test('have their port checked if they name blocks of a peer', () => {
    expect(() => checkKvParams({ ...left, remote_block_ids: [[1]], remote_host: 'gpu' }, rule())).toThrow(
      expect.objectContaining({ status: 400, param: 'kv_transfer_params.remote_port' }),
    );
  });
});
