/** Changes of an engine's blocks, figures and slab since they were last reported. */
import type { BlockFact } from '../engine/inspect/block-facts.ts';
import type { EngineSnapshot } from '../fleet/types.ts';
import { emptyBlock } from './empty-block.ts';
import type { BlockView, SessionEvent } from './events.ts';

export class SnapshotNews {
  readonly #view: (fact: BlockFact) => BlockView;
  /** The last reported values, by engine, then by subject: a block's id or a name. */
  readonly #reports = new Map<string, Map<number | string, string>>();

  constructor(view: (fact: BlockFact) => BlockView) {
    this.#view = view;
  }

  /** Reports everything of this engine again. */
  restarted(engineId: string): void {
    this.#reports.delete(engineId);
  }

  /** Forgets engines that have ended or left. */
  keep(snapshots: readonly EngineSnapshot[]): void {
    const serving = new Set(snapshots.map(({ engineId }) => engineId));
    for (const engineId of this.#reports.keys()) if (!serving.has(engineId)) this.#reports.delete(engineId);
  }

  news({ engineId, blocks, stats }: EngineSnapshot, atMs: number): SessionEvent[] {
    const reports = this.#reports.get(engineId) ?? new Map<number | string, string>();
    this.#reports.set(engineId, reports);
    const isNews = (about: number | string, value: unknown): boolean => {
      const text = JSON.stringify(value);
      if (reports.get(about) === text) return false;
      reports.set(about, text);
      return true;
    };
    const views = blocks.facts.map((fact) => this.#view(fact));
    const present = new Set(views.map(({ id }) => id));
    // The policy was rebuilt, so blocks that it no longer reports are empty.
    for (const id of reports.keys())
      if (typeof id === 'number' && !present.has(id)) views.push(emptyBlock(id));
    const changed = views.filter((view) => isNews(view.id, view));
    const { numBlocks, slab } = blocks;
    const events: SessionEvent[] = [];
    if (isNews('size', numBlocks) || changed.length > 0) {
      events.push({ kind: 'blocks', atMs, engineId, numBlocks, changed });
    }
    const { running, waiting, waitingForRemote, heldRequests, freeBlocks, usedBlocks, preemptions } = stats;
    const { queries, hits } = stats.prefixCache;
    const counts = { running, waiting, waitingForRemote, heldRequests, freeBlocks, usedBlocks, preemptions };
    const brief = { ...counts, prefixCache: { queries, hits } };
    if (isNews('stats', brief)) events.push({ kind: 'stats', atMs, engineId, stats: brief });
    if (slab.slots > 0 && isNews('slab', slab)) events.push({ kind: 'slab', atMs, engineId, ...slab });
    return events;
  }
}
