/**
 * The reader's half of a connection to one holder: performs the handshake, posts READs, and copies chunks from the slab into
 * local blocks. A transfer's result comes only when nothing of it can still write into local blocks.
 */
import { copyBytes } from '../copy-bytes.ts';
import type { BlockId, Clock } from '../engine/types.ts';
import { messageOf, TransferError } from '../errors.ts';
import type { SpanSink } from '../measure/spans/spans.ts';
import { checksum } from './checksum.ts';
import { ATTEMPTS, silence } from './deadlines.ts';
import { type Connected, Handshake, type HandshakeDeps } from './handshake.ts';
import type { ChunkMessage, ReadEndedMessage, ToReader } from './messages.ts';
import { slotView } from './slab.ts';
import { emitHolderStages, emitStage, type StageName } from './stage-spans.ts';
import { emptyResult, Transfer } from './transfer.ts';
import type { BlockMemory, ReadRequest, StagedBlocks, TransferResult } from './types.ts';

export interface ReaderDeps extends HandshakeDeps {
  memory: BlockMemory;
  clock: Clock;
  onSpan: SpanSink;
  nextTransferId: () => string;
}

export class ReaderHalf {
  readonly handshake: Handshake;
  readonly #deps: ReaderDeps;
  readonly #transfers = new Map<string, Transfer>();

  constructor(deps: ReaderDeps) {
    this.#deps = deps;
    this.handshake = new Handshake(deps);
  }

  /** Reads blocks. Retries if messages were lost, up to ATTEMPTS times in all. Never rejects. */
  async read(request: ReadRequest): Promise<TransferResult> {
    for (let attempt = 1; ; attempt++) {
      const { result, lost } = await this.#attempt(request);
      if (!lost || attempt === ATTEMPTS || request.signal?.aborted) return result;
    }
  }

  async #attempt(request: ReadRequest): Promise<{ result: TransferResult; lost: boolean }> {
    const { clock, memory, post } = this.#deps;
    const none = (outcome: 'failed' | 'dead', message: string, lost = false) => {
      return { result: emptyResult(outcome, message, clock.now() - startedAt), lost };
    };
    const startedAt = clock.now();
    const wasConnected = this.handshake.connected !== null;
    const result = await this.handshake.connect();
    const elapsed = clock.now() - startedAt;
    if (!result.ok) return none(result.outcome, result.message);
    const { connected } = result;
    const { engineId, host, port } = request.remote;
    if (connected.identity.engineId !== engineId) {
      const message = `expected engine '${engineId}' at ${host}:${port}, found '${connected.identity.engineId}': its blocks are gone.`;
      return none('failed', message);
    }
    if (this.handshake.connected !== connected) {
      return none('failed', `the connection to '${engineId}' ended before the READ was posted.`, true);
    }
    const transferId = this.#deps.nextTransferId();
    const groups = memory.blockBytes.length;
    const transfer = new Transfer(transferId, request, groups, startedAt, () => clock.now());
    if (!wasConnected) {
      transfer.stages.handshakeMs = elapsed;
      this.#span('handshake', { index: 0, byteLength: 0 }, transfer, startedAt, startedAt + elapsed);
    }
    this.#transfers.set(transferId, transfer);
    const { remoteRequestId, claim, requestId, signal } = request;
    const postedAt = clock.now();
    const read = { epoch: connected.epoch, transferId, remoteRequestId, claim, requestId, postedAt };
    if (request.streamed) post({ kind: 'stream', ...read, blockIndexes: transfer.remoteIds });
    else post({ kind: 'read', ...read, blockIds: transfer.remoteIds });
    transfer.postMs = clock.now() - postedAt;
    const onAbort = () => this.#fail(transfer, 'the READ was aborted.');
    signal?.addEventListener('abort', onAbort);
    if (signal?.aborted) onAbort();
    const done = new AbortController();
    void this.#watch(transfer, done.signal);
    const ended = await transfer.result;
    done.abort();
    signal?.removeEventListener('abort', onAbort);
    this.#transfers.delete(transferId);
    // More may have been lost, e.g. slots of the slab: start over with a new connection.
    if (transfer.lost && this.handshake.connected === connected) this.disconnect(ended.message);
    return { result: ended, lost: transfer.lost };
  }

  /** Ends the transfer if its holder is silent. */
  async #watch(transfer: Transfer, done: AbortSignal): Promise<void> {
    const { clock, silenceMs } = this.#deps;
    const news = () => transfer.news;
    while (await silence(clock, silenceMs, news, done)) {
      if (!transfer.awaitsHolder) return;
      const { engineId } = transfer.request.remote;
      this.#cancel(transfer);
      transfer.lose(`no message from '${engineId}' for ${silenceMs / 1000} s.`);
    }
  }

  onMessage(message: ToReader): void {
    if (message.kind === 'welcome') this.handshake.onWelcome(message);
    else if (message.epoch !== this.handshake.connected?.epoch) return;
    else {
      const transfer = this.#transfers.get(message.transferId);
      if (transfer) transfer.news++;
      if (message.kind === 'chunk') void this.#takeChunk(message, this.handshake.connected);
      else if (message.kind === 'read_ended') this.#readEnded(message);
    }
  }

  /** The holder is gone: every transfer ends as 'dead', as soon as its pending copies are done. */
  end(message: string): void {
    this.handshake.end(message);
    for (const transfer of this.#transfers.values()) transfer.end('dead', message);
  }

  #readEnded(message: ReadEndedMessage): void {
    const transfer = this.#transfers.get(message.transferId);
    if (message.outcome === 'done') transfer?.allPosted();
    else if (message.outcome !== 'dead') transfer?.end(message.outcome, message.message);
    else this.disconnect(message.message);
  }

  /** Drops the connection. Current READs are repeated, and they and later ones perform a new handshake. */
  disconnect(message: string): void {
    for (const each of this.#transfers.values()) this.#cancel(each);
    this.handshake.forget();
    for (const each of this.#transfers.values()) each.lose(message);
  }

  async #takeChunk(chunk: ChunkMessage, connected: Connected): Promise<void> {
    const { slot, transferId, epoch, index } = chunk;
    const credit = { kind: 'credit', epoch, slot, transferId, index } as const;
    const transfer = this.#transfers.get(transferId);
    if (!transfer || transfer.ended) {
      this.#deps.post(credit);
      return;
    }
    const place = transfer.takeChunk(chunk, this.#deps.memory.blockBytes);
    if (place === 'seen') return;
    if ('wrong' in place) {
      this.#deps.post(credit);
      this.#fail(transfer, `the holder sent an invalid chunk: ${place.wrong}.`);
      return;
    }
    const { group, blockIds } = chunk;
    if (blockIds) {
      const pairs = blockIds.map((remote, i) => ({ group, remote, local: place.localIds[i]! }));
      transfer.request.onChunk?.(pairs);
    }
    let committed = false;
    try {
      const staged = await this.#copyOut(chunk, connected, transfer);
      if (staged) {
        await this.#commit(chunk, transfer, staged, place.localIds);
        committed = true;
      }
    } catch (error) {
      const why = messageOf(error);
      this.#fail(transfer, error instanceof TransferError ? why : `the blocks could not be stored: ${why}`);
    }
    transfer.chunkDone(chunk, committed);
  }

  /** Copies from the slab to staging memory. Always returns the slot. null if the transfer ended meanwhile. */
  async #copyOut(
    chunk: ChunkMessage,
    connected: Connected,
    transfer: Transfer,
  ): Promise<StagedBlocks | null> {
    const { slot, epoch, transferId, index, byteLength } = chunk;
    const { clock, memory, post } = this.#deps;
    try {
      if (slot >= connected.slots || byteLength > connected.slotBytes) {
        throw new TransferError(`chunk ${chunk.index} is not in a slot of the slab.`);
      }
      const source = slotView(connected.slab, connected.slotBytes, slot, byteLength);
      if (chunk.checksum !== null && checksum(source) !== chunk.checksum) {
        throw new TransferError(
          `checksum differs in chunk ${chunk.index}: its bytes were damaged in transit.`,
        );
      }
      const staged = await memory.stage(byteLength);
      if (transfer.ended) {
        staged.discard();
        return null;
      }
      const startMs = clock.now();
      copyInto(staged, source);
      const endMs = clock.now();
      transfer.bytes += source.byteLength;
      transfer.stages.slabOutMs += endMs - startMs;
      this.#span('slab out', chunk, transfer, startMs, endMs);
      return staged;
    } finally {
      post({ kind: 'credit', epoch, slot, transferId, index });
      const ends = { holderId: connected.identity.engineId, readerId: this.#deps.own.identity.engineId };
      emitHolderStages(this.#deps.onSpan, chunk, { ...ends, requestId: transfer.request.requestId });
    }
  }

  async #commit(
    chunk: ChunkMessage,
    transfer: Transfer,
    staged: StagedBlocks,
    localIds: readonly BlockId[],
  ): Promise<void> {
    const startMs = this.#deps.clock.now();
    const { scatterMs } = await staged.commit(chunk.group, localIds);
    const endMs = this.#deps.clock.now();
    const submittedMs = Math.max(startMs, endMs - scatterMs);
    transfer.stages.uploadMs += submittedMs - startMs;
    transfer.stages.scatterMs += endMs - submittedMs;
    this.#span('upload', chunk, transfer, startMs, submittedMs);
    this.#span('scatter', chunk, transfer, submittedMs, endMs);
  }

  #fail(transfer: Transfer, message: string): void {
    if (transfer.ended) return;
    transfer.end('failed', message);
    this.#cancel(transfer);
  }

  #cancel(transfer: Transfer): void {
    const epoch = this.handshake.connected?.epoch;
    if (epoch !== undefined) {
      this.#deps.post({ kind: 'cancel', epoch, transferId: transfer.transferId });
    }
  }

  #span(
    name: StageName,
    { index, byteLength }: Pick<ChunkMessage, 'index' | 'byteLength'>,
    { transferId, request }: Transfer,
    startMs: number,
    endMs: number,
  ): void {
    const { engineId } = this.#deps.own.identity;
    const { requestId, remote } = request;
    const way = { from: remote.engineId, to: engineId };
    const args = { transferId, chunk: index, bytes: byteLength };
    emitStage(this.#deps.onSpan, name, engineId, { way, requestId, args }, startMs, endMs);
  }
}

function copyInto(staged: StagedBlocks, source: Uint8Array): void {
  try {
    copyBytes(staged.bytes, source);
  } catch (error) {
    staged.discard();
    throw error;
  }
}
