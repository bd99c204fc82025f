/**
 * Worker side of the NIXL connector: starts pulls, reports how they ended, and keeps the holds that others will read. Follows
 * vLLM's nixl/pull_worker.py and base_worker.py. Does not decide what to pull, and frees no blocks itself.
 */
import type { KvCacheSpec } from '../../config/engine.ts';
import type { NixlConfig } from '../../config/kv-transfer.ts';
import type { ConnectorOutput, KvConnectorWorker } from '../../engine/kv-connector.ts';
import type { BlockId, Clock } from '../../engine/types.ts';
import { EngineDeadError, invariant } from '../../errors.ts';
import { type ClaimPrefix, claimPrefix } from '../../transport/prefix-claim.ts';
import { emptyResult } from '../../transport/transfer.ts';
import type {
  PeerNotification,
  ReadRequest,
  ServingTransport,
  TransferResult,
} from '../../transport/types.ts';
import { Reports } from '../polled-reports.ts';
import { type ConnectorDeps, countPull, noTransfers, type TransferEvents } from '../types.ts';
import { HoldTable } from './holds.ts';
import type { NixlMetadata, RecvRequest } from './metadata.ts';
import { StreamTable } from './streams.ts';

/** A pull is not started this close to its blocks' expiry (vLLM, #47021). */
const EXPIRY_MARGIN_SECONDS = 5;

export interface WorkerSideDeps extends Partial<TransferEvents> {
  config: NixlConfig;
  /** By KV cache group. */
  groups: readonly KvCacheSpec[];
  /** The constructor registers this object's gates and handlers with it. */
  transport: ServingTransport;
  clock: Clock;
  claim?: ClaimPrefix | undefined;
  keptElsewhere?: ConnectorDeps['keptElsewhere'];
}

export class NixlWorkerSide implements KvConnectorWorker<NixlMetadata> {
  readonly counters = noTransfers();
  readonly holds: HoldTable;
  readonly #config: NixlConfig;
  readonly #transport: ServingTransport;
  readonly #clock: Clock;
  readonly #events: Partial<TransferEvents>;
  readonly #streams: StreamTable;
  /** Unfinished streamed pulls by local request. */
  readonly #cancels = new Map<string, AbortController>();
  readonly #reports: Reports;

  constructor(deps: WorkerSideDeps) {
    this.#config = deps.config;
    this.#transport = deps.transport;
    this.#clock = deps.clock;
    this.#events = deps;
    this.#reports = new Reports(deps.clock, () => this.holds.nextDeadline());
    const { clock } = deps;
    const { blockSize } = deps.transport.identity;
    const claim = deps.claim ?? claimPrefix(deps.config.tokenCheck);
    this.holds = new HoldTable({
      clock,
      blockSize,
      groups: deps.groups,
      claim,
      leaseMs: deps.config.leaseMs,
      onEnd: (requestId, end, direction) => {
        if (end === 'expired') this.counters.numKvExpired += 1;
        if (end === 'dropped' && direction) {
          this.counters.holdsDropped[direction] += 1;
          this.#events.onHoldDropped?.(requestId, direction);
        }
        this.#reports.sent(requestId);
      },
      onDeadline: () => this.#reports.wake(),
      onDroppable: () => this.#reports.changed(),
      keptElsewhere: deps.keptElsewhere,
      streamStarves: () => this.#streams.starving,
    });
    this.#streams = new StreamTable({
      holds: this.holds,
      clock,
      blockSize,
      claim,
      patienceMs: deps.config.leaseMs,
      onStarving: () => this.#reports.changed(),
    });
    deps.transport.setHandlers({
      gate: this.holds.gate,
      streamGate: this.#streams.gate,
      onNotification: (from, notification) => this.#onNotification(from, notification),
      onNotifyFailed: () => {
        this.counters.numFailedNotifications += 1;
      },
      onPeerGone: (engineId) => this.holds.readerGone(engineId),
    });
  }

  startLoadKv(metadata: NixlMetadata): void {
    // First, so that nothing started below reads freed blocks.
    for (const [requestId, computed] of metadata.computed) this.#streams.computed(requestId, computed);
    for (const requestId of metadata.reqsNotProcessed) this.#streams.ended(requestId);
    for (const requestId of metadata.reqsToCancel) this.#cancels.get(requestId)?.abort();
    for (const [requestId, recv] of metadata.reqsToRecv) void this.#receive(requestId, recv);
    for (const requestId of metadata.reqsInBatch) this.holds.process(requestId);
    for (const requestId of metadata.reqsNotProcessed) {
      invariant(
        !metadata.reqsToSend.has(requestId),
        () => `request '${requestId}' leaves blocks to send and is reported as leaving none`,
      );
      this.holds.notProcessed(requestId);
    }
    for (const [requestId, send] of metadata.reqsToSend) {
      this.holds.hold(requestId, send);
      this.#streams.held(requestId);
    }
    for (const { remote, hold } of metadata.refused)
      this.#transport.notify(remote, { kind: 'done_reading', ...hold });
    for (const { remote, holds } of metadata.heartbeats) {
      this.#transport.notify(remote, { kind: 'heartbeat', holds });
    }
  }

  getFinished(): ConnectorOutput {
    this.holds.expire();
    return this.#reports.take();
  }

  waitForChange(signal: AbortSignal): Promise<void> {
    return this.#reports.wait(signal);
  }

  dueMs(): number | null {
    return this.holds.nextDeadline();
  }

  #onNotification(from: string, notification: PeerNotification): void {
    if (notification.kind === 'done_reading') this.holds.doneReading(notification);
    else if (notification.kind === 'heartbeat')
      for (const hold of notification.holds) this.holds.heartbeat(hold, from);
  }

  async #receive(requestId: string, recv: RecvRequest): Promise<void> {
    const { remote, pairs, numTokens } = recv;
    const done = () => {
      const { held } = remote.claim;
      this.#transport.notify(remote, { kind: 'done_reading', requestId: remote.requestId, held }, requestId);
    };
    if (pairs.length === 0) {
      done();
      // All blocks lie before what the windows see (e.g. a window of one token): nothing to read.
      if (numTokens > 0) this.#reports.received(requestId, null);
      return;
    }
    if (recv.streamed) this.#cancels.set(requestId, new AbortController());
    const startedMs = this.#clock.now();
    this.#events.onPull?.({ requestId, remote, pairs, streamed: recv.streamed ?? false });
    const refusal = await this.#refusal(recv);
    const checkedMs = this.#clock.now();
    const result = refusal ?? (await this.#read(requestId, recv));
    const endedMs = this.#clock.now();
    // The expiry check may have included a handshake, which is part of the pull.
    result.stages.handshakeMs += checkedMs - startedMs;
    result.wallMs = endedMs - startedMs;
    const cancelled = this.#cancels.get(requestId)?.signal.aborted ?? false;
    this.#cancels.delete(requestId);
    if (result.outcome === 'done' || cancelled) {
      const postedAt = this.#clock.now();
      done();
      result.stages.notifyMs = this.#clock.now() - postedAt;
    }
    if (!cancelled) countPull(this.counters, result.outcome);
    this.#events.onTransfer?.({ requestId, remote, numTokens, startedMs, checkedMs, endedMs, result });
    const { outcome, message } = result;
    const failed =
      outcome === 'done' ? null : { requestId, outcome, message, invalidBlockIds: this.#localIds(recv) };
    this.#reports.received(requestId, failed);
  }

  #read(requestId: string, { remote, pairs, streamed }: RecvRequest): Promise<TransferResult> {
    const { requestId: remoteRequestId, claim } = remote;
    const read = { remote, remoteRequestId, claim, pairs, requestId };
    if (!streamed) return this.#transport.read(read);
    const { signal } = this.#cancels.get(requestId)!;
    const onChunk: ReadRequest['onChunk'] = (pairs) => this.#events.onChunk?.({ requestId, pairs });
    return this.#transport.read({ ...read, streamed, signal, onChunk });
  }

  /** A refusal if the pull must not start because its blocks may be reused before it ends; null if it may. */
  async #refusal({ remote }: RecvRequest): Promise<TransferResult | null> {
    const { blocksExpiryTime } = remote;
    if (!this.#config.bidirectional || blocksExpiryTime === null) return null;
    try {
      const expiry = blocksExpiryTime - (await this.#transport.clockOffsetSeconds(remote));
      const left = expiry - this.#clock.now() / 1000;
      if (left > EXPIRY_MARGIN_SECONDS) return null;
      this.counters.numKvExpired += 1;
      const message =
        left > 0
          ? `request '${remote.requestId}' is held for ${left.toFixed(1)} s more, but a READ needs a margin of ${EXPIRY_MARGIN_SECONDS} s.`
          : `request '${remote.requestId}' was held until ${(-left).toFixed(1)} s ago.`;
      return emptyResult('expired', message, 0);
    } catch (error) {
      const outcome = error instanceof EngineDeadError ? 'dead' : 'failed';
      const message = error instanceof Error ? error.message : String(error);
      return emptyResult(outcome, message, 0);
    }
  }

  #localIds({ pairs }: RecvRequest): BlockId[][] {
    const groups = this.#transport.identity.blockBytes.length;
    return Array.from({ length: groups }, (_, group) => {
      return pairs.filter((pair) => pair.group === group).map((pair) => pair.local);
    });
  }
}
