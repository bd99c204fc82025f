/** An engine's spans until they are sent: gathers them from its parts, and gives what policy tells of the engine's lanes. */
import type { TransferInfo } from '../connector/types.ts';
import type { EngineActivity } from '../engine/types.ts';
import { hostLane, linkLane, ROUTER_LANE, type Span } from '../measure/spans.ts';

export class EngineSpans {
  readonly #engineId: string;
  #spans: Span[] = [];
  /** Called when a span comes and there was none. */
  onFirst: () => void = () => {};
  /** Requests that have not ended, each with when its KV was there, until its next step. */
  readonly #loadedMs = new Map<string, number | null>();

  constructor(engineId: string) {
    this.#engineId = engineId;
  }

  get count(): number {
    return this.#spans.length;
  }

  readonly add = (span: Span): void => {
    this.#spans.push(span);
    if (this.#spans.length === 1) this.onFirst();
  };

  take(): Span[] {
    const spans = this.#spans;
    this.#spans = [];
    return spans;
  }

  /** A load that ends after its request leaves nothing behind. */
  opened(requestId: string): void {
    this.#loadedMs.set(requestId, null);
  }

  closed(requestId: string): void {
    this.#loadedMs.delete(requestId);
  }

  submitted(requestId: string, startMs: number, endMs: number): void {
    const lane = ROUTER_LANE;
    this.add({
      name: 'submit',
      lane,
      startMs,
      endMs,
      clock: 'host',
      requestId,
      args: { to: this.#engineId },
    });
  }

  /** The step's results are out: until then they were being collected. */
  outputsSent(atMs: number): void {
    const last = this.#spans.at(-1);
    if (last?.name === 'collect') this.#spans[this.#spans.length - 1] = { ...last, endMs: atMs };
  }

  readonly activity = ({ name, startMs, endMs, step, requestIds, blocks }: EngineActivity): void => {
    const [requestId = null, ...others] = requestIds;
    const loadedMs = name === 'queue' && requestId !== null ? (this.#loadedMs.get(requestId) ?? null) : null;
    if (requestId !== null && loadedMs !== null) this.#loadedMs.set(requestId, null);
    this.add({
      name,
      lane: hostLane(this.#engineId),
      startMs: Math.min(startMs, loadedMs ?? startMs),
      endMs,
      clock: 'host',
      requestId: others.length === 0 ? requestId : null,
      ...(others.length === 0 ? {} : { requestIds }),
      args: { step, ...(blocks && { freeBlocks: blocks.free, heldBlocks: blocks.held }) },
    });
  };

  transferred({ requestId, remote, numTokens, startedMs, checkedMs, endedMs, result }: TransferInfo): void {
    if (this.#loadedMs.has(requestId)) this.#loadedMs.set(requestId, endedMs);
    const shared = { clock: 'host', requestId } as const;
    this.add({
      ...shared,
      name: 'handshake',
      lane: hostLane(this.#engineId),
      startMs: startedMs,
      endMs: checkedMs,
      args: { from: remote.engineId },
    });
    const { bytes, blocks, descriptors, outcome, movingMs } = result;
    this.add({
      ...shared,
      name: 'transfer',
      lane: linkLane(remote.engineId, this.#engineId),
      startMs: startedMs,
      endMs: endedMs,
      args: {
        ...{ bytes, blocks, descriptors, tokens: numTokens, outcome },
        ...(movingMs === null ? {} : { movingMs }),
      },
    });
  }
}
