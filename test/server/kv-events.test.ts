/** GET /kv/events: vLLM's events with sequence numbers; replay, gaps, several readers, slow readers. */
import { type AddressInfo, connect } from 'node:net';
import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { describe, expect, it } from 'vitest';
import type { CacheEvent } from '../../src/engine/cache-event.ts';
import { listenOn } from '../../src/server/http/listening.ts';
import { KvEventLog } from '../../src/server/kv/kv-events.ts';
import { mountKvEvents } from '../../src/server/kv/kv-events-route.ts';
import { engineConfig, request, TestEngine, tokens } from '../engine/fakes.ts';
import { appOf, engineService } from './ports.ts';

const service = engineService(() => null);
const portOf = (log: KvEventLog) => appOf(service, (app) => mountKvEvents(app, log));
const removed = (hash: string): CacheEvent => ({ kind: 'removed', group: 0, blockHashes: [hash] });

/** Reads a stream event by event. */
class Reader {
  readonly #body: ReadableStreamDefaultReader<Uint8Array>;
  readonly #events: EventSourceMessage[] = [];
  readonly #parser = createParser({ onEvent: (event) => this.#events.push(event) });
  readonly #decoder = new TextDecoder();

  constructor(response: Response) {
    expect(response.status).toBe(200);
    expect(response.headers.get('Content-Type')).toMatch(/^text\/event-stream/);
    this.#body = response.body!.getReader();
  }

  /** null at the end of the stream. */
  async next(): Promise<EventSourceMessage | null> {
    while (this.#events.length === 0) {
      const { done, value } = await this.#body.read();
      if (done) return null;
      this.#parser.feed(this.#decoder.decode(value, { stream: true }));
    }
    return this.#events.shift()!;
  }

  /** Number and first hash of each batch. */
  async hashes(count: number): Promise<string[]> {
    const found: string[] = [];
    for (let i = 0; i < count; i++) {
      const { id, data } = (await this.next())!;
      const number = /^[0-9a-f]{8}-(\d+)$/.exec(id!)![1];
      found.push(`${number}:${JSON.parse(data).events[0].block_hashes[0]}`);
    }
    return found;
  }

  leave(): Promise<void> {
    return this.#body.cancel();
  }
}

async function open(log: KvEventLog, query = '', headers: Record<string, string> = {}): Promise<Reader> {
  return new Reader(await portOf(log).request(`/kv/events${query}`, { headers }));
}

function filled(count: number, most?: number): KvEventLog {
  const log = new KvEventLog(most);
  for (let i = 0; i < count; i++) log.append([removed(`h${i}`)], i);
  return log;
}

describe('KV events', () => {
  it("have vLLM's fields and the order in which they happened", async () => {
    const log = new KvEventLog();
    const engine = new TestEngine(engineConfig({ numBlocks: 4 }));
    engine.core.onCacheEvent = (event) => log.append([event], 1_700_000_000_500);
    for (const seed of [1, 2]) {
      engine.add(request(`${seed}`, tokens(40, seed), { maxTokens: 1 }));
      await engine.settle();
    }
    engine.core.resetPrefixCache();
    const reader = await open(log, '?from=0');
    const batches = [];
    for (let i = 0; i < 5; i++) batches.push(JSON.parse((await reader.next())!.data));
    await reader.leave();
    const [stored, tail, head, , cleared] = batches.map(({ events }) => events[0]);
    expect(batches[0]).toMatchObject({ ts: 1_700_000_000.5, data_parallel_rank: 0 });
    expect(stored).toEqual({
      type: 'BlockStored',
      block_hashes: [expect.stringMatching(/^[0-9a-f]{64}$/), expect.stringMatching(/^[0-9a-f]{64}$/)],
      parent_block_hash: null,
      token_ids: tokens(32, 1),
      block_size: 16,
      lora_id: null,
      medium: 'GPU',
      lora_name: null,
      group_idx: 0,
    });
    // The tail of a chain is evicted before its head.
    expect(tail).toEqual({
      type: 'BlockRemoved',
      block_hashes: [stored.block_hashes[1]],
      medium: 'GPU',
      group_idx: 0,
    });
    expect(head.block_hashes).toEqual([stored.block_hashes[0]]);
    expect(cleared).toEqual({ type: 'AllBlocksCleared' });
  });

  it('suffice to rebuild what is cached: a mirror built from them knows every hit', async () => {
    const mirror = new Map<string, number>();
    const engine = new TestEngine(engineConfig({ numBlocks: 20 }));
    const log = new KvEventLog();
    engine.core.onCacheEvent = (event) => log.append([event], 0);
    for (let i = 0; i < 12; i++) {
      engine.add(request(`${i}`, tokens(60 + 5 * i, i % 5), { maxTokens: 2 }));
      await engine.settle();
    }
    const reader = await open(log, '?from=0');
    for (let i = 0; i < log.next; i++) {
      for (const event of JSON.parse((await reader.next())!.data).events) {
        for (const hash of event.block_hashes) {
          if (event.type === 'BlockStored') mirror.set(hash, event.block_size);
          else mirror.delete(hash);
        }
      }
    }
    await reader.leave();
    for (let seed = 0; seed < 5; seed++) {
      const { blockHashes } = engine.core.inspect.lookup(tokens(115, seed), null);
      for (const hash of blockHashes) expect(mirror.delete(hash)).toBe(true);
    }
    expect(mirror.size).toBeLessThanOrEqual(engine.core.inspect.stats().numBlocks);
  });
});

describe('the event stream', () => {
  it('gives each reader every event from now on, with sequence numbers as ids', async () => {
    const log = filled(2);
    const [a, b] = [await open(log), await open(log)];
    log.append([removed('x')], 0);
    log.append([removed('y')], 0);
    expect(await a.hashes(2)).toEqual(['2:x', '3:y']);
    await a.leave();
    log.append([removed('z')], 0);
    expect(await b.hashes(3)).toEqual(['2:x', '3:y', '4:z']);
    await b.leave();
  });

  it('answers HEAD with the headers alone, and does not follow the log for it', async () => {
    let followed = 0;
    const log = new (class extends KvEventLog {
      override changed(signal: AbortSignal): Promise<void> {
        followed++;
        return super.changed(signal);
      }
    })();
    const response = await portOf(log).request('/kv/events', { method: 'HEAD' });
    expect([response.status, response.headers.get('Content-Type')]).toEqual([200, 'text/event-stream']);
    expect(await response.text()).toBe('');
    expect(followed).toBe(0);
  });

  it('replays from ?from=N, or from after Last-Event-ID', async () => {
    const log = filled(4);
    const from = await open(log, '?from=2');
    expect(await from.hashes(2)).toEqual(['2:h2', '3:h3']);
    const again = await open(log, '?from=0', { 'Last-Event-ID': `${log.run}-2` });
    expect(await again.hashes(1)).toEqual(['3:h3']);
    log.append([removed('live')], 0);
    expect(await again.hashes(1)).toEqual(['4:live']);
    const byId = await open(log, `?from=${log.run}-3`);
    expect(await byId.hashes(1)).toEqual(['3:h3']);
    await Promise.all([from.leave(), again.leave(), byId.leave()]);
  });

  it('reports a gap to a reader that comes back after the server was started again, and sends it all', async () => {
    const before = await open(filled(4), '?from=0');
    let id = '';
    for (let i = 0; i < 3; i++) id = (await before.next())!.id!;
    await before.leave();
    const log = filled(5);
    // The number alone would be one of this log.
    for (const [query, headers] of [
      ['', { 'Last-Event-ID': id }],
      ['', { 'Last-Event-ID': '2' }],
      [`?from=${id}`, {}],
    ] as const) {
      const reader = await open(log, query, headers);
      const gap = (await reader.next())!;
      expect([gap.event, JSON.parse(gap.data)]).toMatchObject(['gap', { next: 5, continues_at: 0 }]);
      expect(await reader.hashes(1)).toEqual(['0:h0']);
      await reader.leave();
    }
  });

  it('reports a gap if events that a reader wants are not available', async () => {
    const log = filled(10, 4);
    const late = await open(log, '?from=3');
    const gap = (await late.next())!;
    expect(gap.event).toBe('gap');
    expect(gap.id).toBeUndefined();
    expect(JSON.parse(gap.data)).toEqual({ requested: 3, first_available: 6, next: 10, continues_at: 6 });
    expect(await late.hashes(1)).toEqual(['6:h6']);
    const ahead = await open(log, '?from=99');
    expect(JSON.parse((await ahead.next())!.data)).toMatchObject({ requested: 99, continues_at: 10 });
    await Promise.all([late.leave(), ahead.leave()]);
  });

  it('drops a reader that falls too far behind, with a last event that says so', async () => {
    const log = new KvEventLog(4);
    const slow = await open(log);
    for (let i = 0; i < 50; i++) {
      log.append([removed(`h${i}`)], 0);
      await new Promise((resolve) => setImmediate(resolve));
    }
    const names: string[] = [];
    let last: EventSourceMessage | null = null;
    for (let event = await slow.next(); event; event = await slow.next()) {
      names.push(event.event!);
      last = event;
    }
    expect(names.at(-1)).toBe('dropped');
    expect(names.filter((name) => name === 'kv').length).toBeLessThan(8);
    expect(JSON.parse(last!.data)).toMatchObject({ first_available: 46, reason: 'the reader was too slow' });
  });

  it('ends with an end event when the log closes', async () => {
    const log = filled(1);
    const reader = await open(log, '?from=0');
    expect(await reader.hashes(1)).toEqual(['0:h0']);
    log.close();
    expect(await reader.next()).toMatchObject({ event: 'end', data: '{"next":1}' });
    expect(await reader.next()).toBeNull();
  });

  it.each([
    ['1.0', false],
    ['1.1', true],
  ])('are framed as HTTP/%s frames a body: in chunks %s', async (version, chunked) => {
    const log = filled(1);
    log.close();
    const server = await listenOn(portOf(log), { host: '127.0.0.1', port: 0, writeTimeoutMs: 60_000 });
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1').setEncoding('utf8');
    socket.write(`GET /kv/events?from=0 HTTP/${version}\r\nHost: localhost\r\nConnection: close\r\n\r\n`);
    const [head, body] = (await socket.toArray()).join('').split(/\r\n\r\n([\s\S]*)/);
    expect(/transfer-encoding: chunked/i.test(head!)).toBe(chunked);
    expect(body!.startsWith('id: 0\nevent: kv\n') || body!.startsWith('event: kv\n')).toBe(!chunked);
    server.close();
  });

  it('refuses a ?from that is not a number', async () => {
    const response = await portOf(filled(1)).request('/kv/events?from=soon');
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { param: 'from' } });
  });
});

describe('the event log', () => {
  it('keeps up to 10,000 batches and no more text than its limit', () => {
    const log = new KvEventLog();
    for (let i = 0; i < 10_050; i++) log.append([removed('h')], i);
    expect([log.first, log.next]).toEqual([50, 10_050]);
    const small = new KvEventLog(10_000, 1000);
    for (let i = 0; i < 50; i++) small.append([removed(`h${i}`.padEnd(100))], i);
    expect(small.next).toBe(50);
    expect(small.next - small.first).toBeLessThan(10);
    expect(small.read(49)).not.toBeNull();
  });

  it('numbers a batch that is larger than its limit, but does not keep it', () => {
    const log = new KvEventLog(10, 20);
    log.append([removed('x'.repeat(100))], 0);
    expect([log.first, log.next]).toEqual([1, 1]);
  });
});
