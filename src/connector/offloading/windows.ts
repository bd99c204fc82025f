/**
 * What is kept in a store of KV cache groups with a window: the last window of a prompt, and of what was generated after it where
 * that is saved too. Whatever goes on from there finds it; of the windows that the tokens between saw nothing is kept.
 */
import type { KvCacheSpec } from '../../config/engine.ts';
import { skippedBlocks } from '../../engine/kv-cache-spec.ts';
import type { ConnectorRequest } from '../../engine/kv-connector.ts';
import { type BlockIds, NULL_BLOCK } from '../../engine/types.ts';

/** Groups with the same window. */
interface Window {
  spec: Extract<KvCacheSpec, { kind: 'sliding' }>;
  groups: number[];
  /** Blocks that its last token sees, wherever it stands in its own. */
  blocks: number;
}

/** The blocks [first, end) of groups with the same window. */
export interface WindowBlocks {
  groups: readonly number[];
  first: number;
  blockIds: BlockIds;
}

export class OfferedWindows {
  /** Groups without a window; null: all are. */
  readonly fullGroups: readonly number[] | null;
  /** What of a prefix the store must have; null: all of it. */
  readonly wanted: readonly KvCacheSpec[] | null;
  readonly #windows: readonly Window[];
  readonly #blockSize: number;
  /** Of requests that go on: the first block of each window that was offered. */
  readonly #offered = new Map<string, { request: ConnectorRequest; firsts: readonly number[] }>();

  constructor(groups: readonly KvCacheSpec[], blockSize: number) {
    this.#blockSize = blockSize;
    const windows: Window[] = [];
    for (const [group, spec] of groups.entries()) {
      if (spec.kind === 'full') continue;
      const same = windows.find((one) => one.spec.window === spec.window);
      if (same) same.groups.push(group);
      else windows.push({ spec, groups: [group], blocks: Math.ceil(spec.window / blockSize) });
    }
    this.#windows = windows;
    const full = [...groups.keys()].filter((group) => groups[group]!.kind === 'full');
    this.fullGroups = windows.length > 0 ? full : null;
    // A prompt that is there whole has its last token run again, which sees one further back than the token after it.
    const wanted = (spec: KvCacheSpec): KvCacheSpec =>
      spec.kind === 'full' ? { kind: 'full' } : { kind: 'sliding', window: spec.window + 1 };
    this.wanted = windows.length > 0 ? groups.map(wanted) : null;
  }

  /** The last windows of the first `end` blocks, as far as the table has them whole. */
  endingAt(end: number, table: BlockIds): WindowBlocks[] {
    return this.#windows.flatMap(({ groups, blocks }) => {
      const first = Math.max(0, end - blocks);
      const blockIds = table.map((ids) => ids.slice(first, end));
      const whole = groups.every(
        (group) => blockIds[group]?.length === end - first && !blockIds[group].includes(NULL_BLOCK),
      );
      return whole && end > first ? [{ groups, first, blockIds }] : [];
    });
  }

  /** These are read while the request goes on. */
  offered(request: ConnectorRequest, windows: readonly WindowBlocks[]): void {
    const firsts = this.#windows.map(
      ({ groups }) => windows.find((one) => one.groups === groups)?.first ?? Number.POSITIVE_INFINITY,
    );
    this.#offered.set(request.requestId, { request, firsts });
  }

  /** Its request ended, and what is left of its table stays; true: that is not all that was offered. */
  ended(requestId: string, table: BlockIds): boolean {
    const offered = this.#offered.get(requestId);
    this.#offered.delete(requestId);
    return (
      offered !== undefined &&
      this.#windows.some(({ groups }, i) => table[groups[0]!]?.[offered.firsts[i]!] === NULL_BLOCK)
    );
  }

  forget(requestId: string): void {
    this.#offered.delete(requestId);
  }

  /** Requests whose tokens went on beyond what was offered: blocks of it were given back, or will be. Told once. */
  takePassed(): string[] {
    const passed = this.#passed();
    for (const requestId of passed) this.#offered.delete(requestId);
    return passed;
  }

  get hasPassed(): boolean {
    return this.#offered.size > 0 && this.#passed().length > 0;
  }

  #passed(): string[] {
    return [...this.#offered.values()]
      .filter(({ request, firsts }) =>
        this.#windows.some(
          ({ spec }, i) => skippedBlocks(spec, request.numComputedTokens, this.#blockSize) > firsts[i]!,
        ),
      )
      .map(({ request }) => request.requestId);
  }
}
