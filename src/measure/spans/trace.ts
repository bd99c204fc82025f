/**
 * Writes spans as Chrome trace JSON, for Perfetto (ui.perfetto.dev). Streams text to a callback, so that memory does not grow
 * with the run.
 */
import { type RawSpan, type Span, wayName } from './spans.ts';
import { LINKS, TraceLanes, type TracePlace } from './trace-lanes.ts';

export interface TraceOptions {
  write: (text: string) => void;
  /** The trace's zero, in milliseconds of the shared clock. */
  originMs: number;
  /** Metadata, shown in the viewer's details. */
  about: Readonly<Record<string, string | number>>;
}

interface Change {
  atMs: number;
  bytes: number;
}

/** Chunks whose changes are kept before the older half is written out. */
const MOST_CHANGES = 65_536;
/** Chunks of which only one end was seen: what failed never gets its other end. */
const MOST_OPEN_FLOWS = 65_536;

export class TraceWriter {
  readonly #options: TraceOptions;
  readonly #lanes: TraceLanes;
  /** Bytes that entered or left the path between two engines, by holder and reader. */
  readonly #inFlight = new Map<string, { bytes: number; changes: Change[] }>();
  /** Flow ids of chunks of which one end was seen, by transfer and chunk. */
  readonly #openFlows = new Map<string, number>();
  #flows = 0;
  #written = 0;

  constructor(options: TraceOptions) {
    this.#options = options;
    this.#lanes = new TraceLanes((event) => this.#event(event));
    options.write(`{"displayTimeUnit":"ms","otherData":${JSON.stringify(options.about)},"traceEvents":[\n`);
  }

  add(span: Span): void {
    const { name, way, startMs, endMs, clock, turns, requestId, requestIds } = span;
    const [ts, end] = [this.#micros(startMs), this.#micros(endMs)];
    const place = this.#lanes.place(span, { start: ts, end });
    const requests = requestIds?.join(', ') ?? requestId;
    const args = {
      ...(requests === null ? {} : { requests }),
      ...(turns.length === 0
        ? {}
        : { turns: turns.map(({ turnId, side }) => `${turnId} ${side}`).join(', ') }),
      ...(way ? { way: wayName(way) } : {}),
      ...span.args,
    };
    this.#event({ ph: 'X', name, cat: clock, ...place, ts, dur: end - ts, args });
    this.#flow(span, place);
    this.#counters(span, place);
  }

  /** Call once; nothing can be added afterwards. */
  end(): void {
    for (const [name, { changes }] of this.#inFlight) this.#writeChanges(name, changes.length);
    this.#options.write('\n]}\n');
  }

  /** Connects the chunk in the holder's lane with the same chunk in the reader's. */
  #flow({ name, startMs, endMs, args }: RawSpan, place: TracePlace): void {
    if (name !== 'slab in' && name !== 'slab out') return;
    const id = this.#flowId(`${args.transferId}/${args.chunk}`);
    const shared = { name: 'chunk', cat: 'transfer', id, ...place };
    if (name === 'slab in') this.#event({ ...shared, ph: 's', ts: this.#micros(startMs) });
    else this.#event({ ...shared, ph: 'f', bp: 'e', ts: this.#micros(endMs) });
  }

  /** A number, because Perfetto reads a text as hexadecimal and drops the flow if it is not. */
  #flowId(chunk: string): number {
    const open = this.#openFlows.get(chunk);
    if (open !== undefined) {
      this.#openFlows.delete(chunk);
      return open;
    }
    if (this.#openFlows.size === MOST_OPEN_FLOWS)
      this.#openFlows.delete(this.#openFlows.keys().next().value!);
    this.#openFlows.set(chunk, ++this.#flows);
    return this.#flows;
  }

  #counters(span: RawSpan, { pid }: TracePlace): void {
    const { name, engineId, way, endMs, startMs, args } = span;
    if (name === 'collect' && args.freeBlocks !== undefined) {
      const ts = this.#micros(endMs);
      const shared = { ph: 'C', pid, tid: 0, ts };
      this.#event({ ...shared, name: `${engineId} free blocks`, args: { blocks: args.freeBlocks } });
      this.#event({ ...shared, name: `${engineId} held blocks`, args: { blocks: args.heldBlocks } });
    } else if (name === 'slab in' || name === 'slab out') {
      const bytes = Number(args.bytes);
      const entered = name === 'slab in';
      this.#change(wayName(way), { atMs: entered ? startMs : endMs, bytes: entered ? bytes : -bytes });
    }
  }

  #change(way: string, change: Change): void {
    const flight = this.#inFlight.get(way) ?? { bytes: 0, changes: [] };
    this.#inFlight.set(way, flight);
    flight.changes.push(change);
    if (flight.changes.length >= MOST_CHANGES) this.#writeChanges(way, MOST_CHANGES / 2);
  }

  /** Writes the earliest changes, in time order, as a running sum. */
  #writeChanges(way: string, count: number): void {
    const flight = this.#inFlight.get(way)!;
    flight.changes.sort((a, b) => a.atMs - b.atMs);
    const pid = this.#lanes.pid(LINKS);
    for (const { atMs, bytes } of flight.changes.splice(0, count)) {
      flight.bytes += bytes;
      const ts = this.#micros(atMs);
      this.#event({
        ph: 'C',
        name: `${way} bytes in flight`,
        pid,
        tid: 0,
        ts,
        args: { bytes: flight.bytes },
      });
    }
  }

  #micros(ms: number): number {
    return round((ms - this.#options.originMs) * 1000);
  }

  #event(event: Readonly<Record<string, unknown>>): void {
    this.#options.write(`${this.#written++ === 0 ? '' : ',\n'}${JSON.stringify(event)}`);
  }
}

/** Microseconds in multiples of 1/1024, so that ts + dur is exactly where the next slice begins. */
const round = (micros: number): number => Math.round(micros * 1024) / 1024;
