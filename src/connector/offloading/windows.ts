/**
 * Selects the blocks of windowed KV cache groups to save in a store: the last window of the prompt, and the last window of the
 * output if that is saved too. A request that continues from either point finds them. Windows in between are not saved.
 */
import type { KvCacheSpec } from '../../config/engine.ts';
import { skippedBlocks } from '../../engine/kv-cache-spec.ts';
import type { ConnectorRequest } from '../../engine/kv-connector.ts';
import { type BlockIds, NULL_BLOCK } from '../../engine/types.ts';

/** Groups with the same window. */
interface Window {
  spec: Extract<KvCacheSpec, { kind: 'sliding' }>;
  groups: number[];
  /** Number of blocks that the last token before a block boundary sees. */
  blocks: number;
}

/** The blocks [first, end) of groups with the same window. */
export interface WindowBlocks {
  groups: readonly number[];
  first: number;
  blockIds: BlockIds;
}

export class OfferedWindows {
  /** Groups without a window; null if no group has one. */
  readonly fullGroups: readonly number[] | null;
  /** What the store must have for a hit, by group; null if no group has a window. */
  readonly hitGroups: readonly KvCacheSpec[] | null;
  readonly #windows: readonly Window[];
  readonly #blockSize: number;
  /** For running requests: index of the first block of each window that was offered. */
  readonly #offered = new Map<string, { request: ConnectorRequest; firsts: readonly number[] }>();

  constructor(groups: readonly KvCacheSpec[], blockSize: number) {
    this.#blockSize = blockSize;
    const windows: Window[] = [];
    for (const [group, spec] of groups.entries()) {
      if (spec.kind === 'full') continue;
      const same = windows.find((window) => window.spec.window === spec.window);
      if (same) same.groups.push(group);
      else windows.push({ spec, groups: [group], blocks: Math.ceil(spec.window / blockSize) });
    }
    this.#windows = windows;
    const full = [...groups.keys()].filter((group) => groups[group]!.kind === 'full');
    this.fullGroups = windows.length > 0 ? full : null;
    // If the whole prompt is stored, its last token is recomputed, and it sees one token further back than the next one.
    const hitSpec = (spec: KvCacheSpec): KvCacheSpec =>
      spec.kind === 'full' ? { kind: 'full' } : { kind: 'sliding', window: spec.window + 1 };
    this.hitGroups = windows.length > 0 ? groups.map(hitSpec) : null;
  }

  /** The windows at the end of the first `end` blocks, if the table has all their blocks. */
  endingAt(end: number, table: BlockIds): WindowBlocks[] {
    return this.#windows.flatMap(({ groups, blocks }) => {
      const first = Math.max(0, end - blocks);
      const blockIds = table.map((ids) => ids.slice(first, end));
      const complete = groups.every(
        (group) => blockIds[group]?.length === end - first && !blockIds[group].includes(NULL_BLOCK),
      );
      return complete && end > first ? [{ groups, first, blockIds }] : [];
    });
  }

  /** Records windows that were offered while the request runs. */
  offered(request: ConnectorRequest, windows: readonly WindowBlocks[]): void {
    const firsts = this.#windows.map(
      ({ groups }) => windows.find((window) => window.groups === groups)?.first ?? Number.POSITIVE_INFINITY,
    );
    this.#offered.set(request.requestId, { request, firsts });
  }

  /** The request ended with this table. Returns whether blocks of its offered windows have been freed. */
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

  /** Requests that have moved past an offered window, so that its blocks were or will be freed. Each is returned once. */
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
