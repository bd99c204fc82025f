import fc from 'fast-check';
import { expect, it } from 'vitest';
import { ganttLines } from '../../src/measure/spans/gantt.ts';
import { atRouter, onGpu, onHost, onLink, routerSpan, type Span } from '../../src/measure/spans/spans.ts';
import { turnStages } from '../../src/measure/spans/stages.ts';
import { TraceWriter } from '../../src/measure/spans/trace.ts';

const ORIGIN = 1_795_000_000_000;

interface TraceEvent {
  ph: string;
  name: string;
  pid: number;
  tid: number;
  ts: number;
  dur: number;
  id?: number;
  args: Record<string, number | string>;
}

function trace(spans: readonly Span[]): TraceEvent[] {
  let text = '';
  const writer = new TraceWriter({
    write: (more) => {
      text += more;
    },
    originMs: ORIGIN,
    about: { program: 'test' },
  });
  for (const span of spans) writer.add(span);
  writer.end();
  return (JSON.parse(text) as { traceEvents: TraceEvent[] }).traceEvents;
}

type Where = Pick<Span, 'engineId' | 'lane' | 'way'>;

const turns = [{ turnId: 't', side: 'prefill' }] as const;

const at = (name: string, where: Where, startMs: number, endMs: number, args: Span['args'] = {}): Span => ({
  name,
  ...where,
  startMs: ORIGIN + startMs,
  endMs: ORIGIN + endMs,
  clock: 'host',
  requestId: 'r1',
  turns,
  args,
});

const way = { from: 'd', to: 'p' };

const chunk = (index: number, from: number): Span[] => {
  const args = { transferId: 'x-1', chunk: index, bytes: 100 };
  return [
    at('slab in', { ...onHost('d'), way }, from, from + 1, args),
    at('slab out', { ...onHost('p'), way }, from + 3, from + 4, args),
  ];
};

it('a trace has a thread of its own for the modelled spans of a link, named after their clock', () => {
  const modelled = { ...at('link', onLink(way), 1, 2, {}), clock: 'modelled' } as const;
  const events = trace([at('transfer', onLink(way), 0, 3, {}), modelled]);
  const threads = new Map(
    events.filter(({ name }) => name === 'thread_name').map(({ tid, args }) => [tid, args.name]),
  );
  const shown = events.filter(({ ph }) => ph === 'X').map(({ name, tid }) => `${name}: ${threads.get(tid)}`);
  expect(shown).toEqual(['transfer: link d>p, host clock', 'link: link d>p, modelled clock']);
});

it('a trace shows the router first and links after all engines, whichever is seen first', () => {
  const events = trace([
    at('transfer', onLink(way), 0, 1, {}),
    at('step', onHost('p'), 1, 2, {}),
    at('turn', atRouter, 0, 3, {}),
    at('step', onHost('d'), 2, 3, {}),
  ]);
  const named = (name: string) => events.filter((event) => event.name === name);
  const orders = new Map(named('process_sort_index').map(({ pid, args }) => [pid, Number(args.sort_index)]));
  const shown = named('process_name').toSorted((a, b) => orders.get(a.pid)! - orders.get(b.pid)!);
  expect(shown.map(({ args }) => args.name)).toEqual(['router', 'p', 'd', 'links']);
});

it('a trace gives every span its time, bytes and lane, and links the two ends of a chunk', () => {
  const events = trace([
    ...chunk(0, 10),
    ...chunk(1, 12),
    at('transfer', onLink(way), 9, 17, { bytes: 200 }),
  ]);
  const transfer = events.find(({ name }) => name === 'transfer')!;
  expect(transfer).toMatchObject({
    ph: 'X',
    ts: 9000,
    dur: 8000,
    args: { bytes: 200, requests: 'r1', turns: 't prefill', way: 'd>p' },
  });
  const threads = events.filter(({ name }) => name === 'thread_name').map(({ args }) => args.name);
  expect(threads).toEqual(['d host, host clock', 'p host, host clock', 'link d>p, host clock']);
  const processes = events.filter(({ name }) => name === 'process_name').map(({ args }) => args.name);
  expect(processes).toEqual(['d', 'p', 'links']);
  const flows = events.filter(({ ph }) => ph === 's' || ph === 'f');
  expect(flows.map(({ ph, id, ts }) => `${ph} ${id} ${ts}`)).toEqual([
    's 1 10000',
    'f 1 14000',
    's 2 12000',
    'f 2 16000',
  ]);
  // Perfetto reads a text as hexadecimal.
  expect(flows.every(({ id }) => typeof id === 'number')).toBe(true);
  // 10: in, 12: in, 14: out, 16: out.
  const inFlight = events.filter(({ name }) => name === 'd>p bytes in flight');
  expect(inFlight.map(({ ts, args }) => [ts, args.bytes])).toEqual([
    [10000, 100],
    [12000, 200],
    [14000, 100],
    [16000, 0],
  ]);
});

it('a trace links the two ends of a chunk in whichever order they come, and a chunk that comes again', () => {
  const [holder, reader] = chunk(0, 10);
  const flows = trace([reader!, ...chunk(1, 11), holder!, ...chunk(0, 30)]).filter(({ ph }) =>
    /[sf]/.test(ph),
  );
  expect(flows.map(({ ph, id }) => `${ph} ${id}`)).toEqual(['f 1', 's 2', 'f 2', 's 1', 's 3', 'f 3']);
});

it('a trace counts the free and held blocks of the engine that reported them', () => {
  const events = trace([at('collect', onHost('prefill-0'), 1, 2, { step: 3, freeBlocks: 7, heldBlocks: 2 })]);
  const counters = events.filter(({ ph }) => ph === 'C');
  expect(counters.map(({ name, ts, args }) => [name, ts, args.blocks])).toEqual([
    ['prefill-0 free blocks', 2000, 7],
    ['prefill-0 held blocks', 2000, 2],
  ]);
});

it('spans on one thread of a trace are separate or nested, and no time is lost', () => {
  const anySpan = fc
    .tuple(fc.constantFrom(onHost('a'), onGpu('a'), atRouter), fc.nat(4000), fc.integer({ min: 1, max: 600 }))
    .map(([where, start, length]) => at('wait', where, start / 7, (start + length) / 7));
  fc.assert(
    fc.property(fc.array(anySpan, { maxLength: 80, size: 'max' }), (spans) => {
      const events = trace(spans).filter(({ ph }) => ph === 'X');
      expect(events.length).toBe(spans.length);
      const sum = (list: readonly number[]) => list.reduce((a, b) => a + b, 0);
      const wanted = sum(spans.map(({ startMs, endMs }) => endMs - startMs)) * 1000;
      expect(sum(events.map(({ dur }) => dur))).toBeCloseTo(wanted, 0);
      for (const [i, a] of events.entries()) {
        for (const b of events.slice(i + 1)) {
          if (a.tid !== b.tid || a.pid !== b.pid) continue;
          const apart = a.ts + a.dur <= b.ts || b.ts + b.dur <= a.ts;
          const within = (x: TraceEvent, y: TraceEvent) => x.ts >= y.ts && x.ts + x.dur <= y.ts + y.dur;
          expect(apart || within(a, b) || within(b, a)).toBe(true);
          // Viewers nest those that begin at once in the order in which they are written.
          if (!apart && a.ts === b.ts) expect(a.dur).toBeGreaterThanOrEqual(b.dur);
        }
      }
    }),
    { numRuns: 40 },
  );
});

it('of spans that begin at once, one that is written after a shorter one has another thread', () => {
  const spans = [at('accept', atRouter, 0, 2), at('turn', atRouter, 0, 9), at('ttft', atRouter, 0, 5)];
  const shown = trace(spans).filter(({ ph }) => ph === 'X');
  expect(shown.map(({ name, tid }) => `${name} ${tid}`)).toEqual(['accept 1', 'turn 2', 'ttft 2']);
});

it('the Gantt chart names the engine that served a turn alone, and calls it neither P nor D', () => {
  const spans = [
    at('queue', onHost('decode-0'), 0, 10),
    at('store lookup', { ...onHost('p'), way: { from: 'store', to: 'p' } }, 10, 30),
    at('forward', onGpu('decode-0'), 30, 100),
  ];
  const window = { turnId: 't', acceptedMs: ORIGIN, firstTokenMs: ORIGIN + 100 };
  const text = ganttLines(spans, window, 'turn 2').join('\n');
  expect(text).toMatch(/^queue +█+ +10\.0$/m);
  expect(text).toMatch(/^prefill +█+ +70\.0$/m);
  expect(text).toMatch(/^store lookup +█+ +20\.0$/m);
  expect(text).toMatch(/^decode-0 prefills and generates\.$/m);
});

it('the Gantt chart of a turn fits 80 columns and shows the times of its stages', () => {
  const spans = [
    { ...routerSpan('accept', 'r1', ORIGIN, ORIGIN + 2), turns },
    at('queue', onHost('p'), 2, 8),
    at('store lookup', { ...onHost('p'), way: { from: 'store', to: 'p' } }, 8, 10),
    at('readback', onHost('d'), 10, 30),
    at('slab out', onHost('p'), 20, 25),
    at('forward', onGpu('p'), 30, 99.5),
    at('sampling', onHost('p'), 99.5, 100),
    { ...at('queue', onHost('d'), 100, 101), turns: [{ turnId: 't', side: 'decode' as const }] },
  ];
  const window = { turnId: 't', acceptedMs: ORIGIN, firstTokenMs: ORIGIN + 100 };
  const lines = ganttLines(spans, window, 'turn 1');
  for (const line of lines) expect(line.length).toBeLessThanOrEqual(80);
  const text = lines.join('\n');
  expect(text).toMatch(/P prefill +█+ +69\.5$/m);
  expect(text).toMatch(/store→P lookup +█+ +2\.0$/m);
  expect(text).toMatch(/D→P readback +█+ +20\.0$/m);
  expect(text).toMatch(/D→P slab out +░+ +5\.0$/m);
  expect(text).toMatch(/to the first token +100$/m);
  const { stagesMs } = turnStages(spans, window);
  expect(Object.values(stagesMs).reduce((a, b) => a + b, 0)).toBe(100);
});
