/** Collects an engine's spans from its parts until they are sent, and turns the policy's activities into spans. */
import { STORE_ADDRESS } from '../config/connectors.ts';
import type { StoreInfo, TransferInfo } from '../connector/types.ts';
import type { EngineActivity } from '../engine/types.ts';
import { onHost, onLink, type RawSpan, routerSpan } from '../measure/spans/spans.ts';

export class EngineSpans {
  readonly #engineId: string;
  #spans: RawSpan[] = [];
  /** Called when a span is added and there was none. */
  onFirst: () => void = () => {};
  /** For each request that has not ended, the time in milliseconds at which its KV had arrived, until its next step. */
  readonly #loadedMs = new Map<string, number | null>();

  constructor(engineId: string) {
    this.#engineId = engineId;
  }

  get count(): number {
    return this.#spans.length;
  }

  readonly add = (span: RawSpan): void => {
    this.#spans.push(span);
    if (this.#spans.length === 1) this.onFirst();
  };

  take(): RawSpan[] {
    const spans = this.#spans;
    this.#spans = [];
    return spans;
  }

  /** Only requests that are open are tracked, so a load that ends after its request leaves no entry. */
  opened(requestId: string): void {
    this.#loadedMs.set(requestId, null);
  }

  closed(requestId: string): void {
    this.#loadedMs.delete(requestId);
  }

  submitted(requestId: string, startMs: number, endMs: number): void {
    this.add(routerSpan('submit', requestId, startMs, endMs, { to: this.#engineId }));
  }

  /** Call when the step's results have been sent: the last `collect` span lasts until then. */
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
      ...onHost(this.#engineId),
      startMs: Math.min(startMs, loadedMs ?? startMs),
      endMs,
      clock: 'host',
      requestId: others.length === 0 ? requestId : null,
      ...(others.length === 0 ? {} : { requestIds }),
      args: { step, ...(blocks && { freeBlocks: blocks.free, heldBlocks: blocks.held }) },
    });
  };

  readonly stored = ({ what, requestId, startedMs, endedMs, blocks, bytes, ...lookup }: StoreInfo): void => {
    const [store, own] = [STORE_ADDRESS.engineId, this.#engineId];
    const way = what === 'save' ? { from: own, to: store } : { from: store, to: own };
    const { raised, raisedBytes = 0, raisedMs = 0 } = lookup;
    const up = raised ? { raised, raisedBytes, raisedMs } : {};
    const args = { blocks, ...(bytes === undefined ? {} : { bytes }), ...up };
    this.add({
      name: what,
      ...onLink(way),
      startMs: startedMs,
      endMs: endedMs,
      clock: 'host',
      requestId,
      args,
    });
  };

  transferred({ requestId, remote, numTokens, startedMs, checkedMs, endedMs, result }: TransferInfo): void {
    if (this.#loadedMs.has(requestId)) this.#loadedMs.set(requestId, endedMs);
    const way = { from: remote.engineId, to: this.#engineId };
    const shared = { clock: 'host', requestId } as const;
    const checked = { startMs: startedMs, endMs: checkedMs };
    this.add({ ...shared, name: 'handshake', ...onHost(this.#engineId), way, ...checked, args: {} });
    const { bytes, blocks, descriptors, outcome, movingMs } = result;
    this.add({
      ...shared,
      name: 'transfer',
      ...onLink(way),
      startMs: startedMs,
      endMs: endedMs,
      args: {
        bytes,
        blocks,
        descriptors,
        tokens: numTokens,
        outcome,
        ...(movingMs === null ? {} : { movingMs }),
      },
    });
  }
}
