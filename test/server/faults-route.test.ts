/** POST, GET and DELETE /faults, and what a port answers while faults are active. */
import type { Hono } from 'hono';
import { beforeEach, describe, expect, it } from 'vitest';
import { FaultBoard, PORT_FAULTS } from '../../src/faults/board.ts';
import { mountFaults, portFailure } from '../../src/server/operator/faults-route.ts';
import { adminApp } from '../../src/server/operator/operator.ts';
import { TestClock } from '../clock.ts';
import { asService, StubService } from './stub.ts';
import { CHAT, hello, noObserver, post, stubApp } from './stub-app.ts';

let board: FaultBoard;
let admin: Hono;
beforeEach(() => {
  board = new FaultBoard(new TestClock());
  const log = { access() {}, ended() {}, note() {}, error() {} };
  const observability = {
    mountMetrics() {},
    mountDetails() {},
    observer: noObserver,
    answered() {},
    close() {},
  };
  const ports = [{ service: asService(new StubService('engine')), observability }];
  admin = adminApp(ports, { adminKey: 'secret', version: '1', log });
  mountFaults(admin, board, () => ['prefill-0', 'decode-0']);
});

const key = { Authorization: 'Bearer secret' };
const add = (body: unknown, headers: Record<string, string> = key) =>
  admin.request('/faults', post(body, headers));

describe('/faults', () => {
  it('adds faults with POST, shows them with GET and ends them with DELETE', async () => {
    const body = { seed: 7, faults: [{ engine: 'decode-0', fault: 'slow', delay_ms: 50, rate: 20 }] };
    const shown = { seed: 7, faults: [{ ...body.faults[0], times: 0 }] };
    const added = await add(body);
    expect([added.status, await added.json()]).toEqual([200, shown]);
    expect(await (await admin.request('/faults', { headers: key })).json()).toEqual(shown);
    const ended = await admin.request('/faults', { method: 'DELETE', headers: key });
    expect(await ended.json()).toEqual({ seed: 7, faults: [] });
  });

  it('requires the admin key, and is not on client ports', async () => {
    for (const headers of [{}, { Authorization: 'Bearer other' }]) {
      expect((await add({ faults: [] }, headers)).status).toBe(401);
      expect((await admin.request('/faults', { method: 'DELETE', headers })).status).toBe(401);
    }
    expect((await stubApp(new StubService()).request('/faults', post({ faults: [] }))).status).toBe(404);
  });

  it.each([
    [{}, 'faults', /a list such as/],
    [{ faults: [{}] }, 'faults.0.engine', /name of an engine/],
    [
      { faults: [{ engine: 'decode-7', fault: 'slow' }] },
      'faults.0.engine',
      /wanted one of prefill-0, decode-0 for slow/,
    ],
    [
      { faults: [{ engine: 'router', fault: 'kill' }] },
      'faults.0.engine',
      /wanted one of prefill-0, decode-0 for kill/,
    ],
    [{ faults: [{ engine: 'decode-0', fault: 'explode' }] }, 'faults.0.fault', /one of kill, hang, slow/],
    [{ faults: [{ engine: 'decode-0', fault: 'slow', rate: 0.004 }] }, 'faults.0.rate', /at least 0.01/],
    [{ faults: [{ engine: 'decode-0', fault: 'slow', rate: 101 }] }, 'faults.0.rate', /at most 100/],
    [{ faults: [{ engine: 'decode-0', fault: 'slow', delay: 1 }] }, 'faults.0', /delay is unknown/],
    [{ faults: [], seed: 0.5 }, 'seed', /whole number/],
  ])('refuses %j with 400', async (body, param, message) => {
    const response = await add(body);
    const { error } = (await response.json()) as { error: { param: string; message: string } };
    expect([response.status, error.param, error.message]).toEqual([
      400,
      param,
      expect.stringMatching(message),
    ]);
    expect(board.injected).toEqual([]);
  });
});

describe('a port with an injected fault', () => {
  it("answers with the status of llm-d's simulator and the fault's name", async () => {
    const stub = new StubService('engine');
    const failure = () => {
      const fault = board.atPort('decode-0');
      return fault && portFailure(fault);
    };
    const app = stubApp(stub, { failure });
    const statuses: number[] = [];
    for (const fault of PORT_FAULTS) {
      await add({ faults: [{ engine: 'decode-0', fault }] });
      const response = await app.request(CHAT, post(hello));
      statuses.push(response.status);
      expect(await response.json()).toMatchObject({ error: { message: expect.stringContaining(fault) } });
      board.clear();
    }
    expect(statuses).toEqual([429, 401, 400, 503, 400, 404]);
    expect(stub.requests).toEqual([]);
    expect((await app.request(CHAT, post(hello))).status).toBe(200);
  });
});
