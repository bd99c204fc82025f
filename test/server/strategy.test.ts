import { describe, expect, it } from 'vitest';
import { StubService } from './stub.ts';
import { CHAT, hello, post, stubApp } from './stub-app.ts';

describe('the header routing-strategy', () => {
  it.each([
    ['least-request', 'least-request'],
    ['pd', 'aibrix-pd'],
    ['pd:1, least-request:2', 'aibrix-pd:1,least-request:2'],
    ['', null],
  ])("'%s' selects %s", async (header, routing) => {
    const stub = new StubService();
    const headers: Record<string, string> = header === '' ? {} : { 'Routing-Strategy': header };
    expect((await stubApp(stub).request(CHAT, post(hello, headers))).status).toBe(200);
    expect(stub.requests[0]!.routing).toBe(routing);
  });

  it.each([
    ['least-reqest', "there is no 'least-reqest' (did you mean least-request?)"],
    ['pd:0', 'a weight above 0 for aibrix-pd'],
    ['pd:x', 'a weight above 0 for aibrix-pd'],
    ['throughput', "there is no 'throughput'"],
    ['__proto__', "there is no '__proto__'"],
    ['constructor', "there is no 'constructor'"],
    [`pd:${'1'.repeat(300)}`, 'at most 256 characters'],
  ])("'%s' is refused with 400, as by AIBrix's gateway", async (header, message) => {
    const stub = new StubService();
    const answer = await stubApp(stub).request(CHAT, post(hello, { 'routing-strategy': header }));
    expect(answer.status).toBe(400);
    const { error } = (await answer.json()) as { error: { message: string; param: string } };
    expect(error.message).toContain(message);
    expect(error.message).toContain('the header routing-strategy is');
    expect(error.param).toBe('routing-strategy');
    expect(stub.requests).toEqual([]);
  });

  it("is ignored on an engine's port, since it was meant for the gateway", async () => {
    const stub = new StubService('engine');
    const answer = await stubApp(stub).request(CHAT, post(hello, { 'routing-strategy': 'throughput' }));
    expect(answer.status).toBe(200);
    expect(stub.requests[0]!.routing).toBeNull();
  });
});

describe('the target-pod headers', () => {
  class Routed extends StubService {
    ways: { prefill: string | null; decode: string }[] = [];

    override async *generate(request: Parameters<StubService['generate']>[0]) {
      for (const way of this.ways) request.onEngines(way);
      yield* super.generate(request);
    }
  }

  it.each([false, true])('name the engines that served in the end (stream %s)', async (stream) => {
    const stub = new Routed();
    stub.ways = [
      { prefill: 'prefill-0', decode: 'decode-0' },
      { prefill: 'prefill-0', decode: 'decode-1' },
    ];
    const { headers } = await stubApp(stub).request(CHAT, post({ ...hello, stream }));
    expect(headers.get('target-pod')).toBe('decode-1');
    expect(headers.get('prefill-target-pod')).toBe('prefill-0');
    stub.ways.push({ prefill: null, decode: 'prefill-1' });
    const alone = await stubApp(stub).request(CHAT, post({ ...hello, stream }));
    expect(alone.headers.get('target-pod')).toBe('prefill-1');
    expect(alone.headers.has('prefill-target-pod')).toBe(false);
  });

  it("are not sent by an engine's port", async () => {
    const { headers } = await stubApp(new StubService('engine')).request(CHAT, post(hello));
    expect(headers.has('target-pod')).toBe(false);
  });
});
