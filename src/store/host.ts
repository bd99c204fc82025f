/** A store in its own thread: creates memory, catalog, tiers and transport, and implements the API for the starting thread. */
import type { EvictionName, Prefetch } from '../config/store.ts';
import type { CacheEvent } from '../engine/cache-event.ts';
import type { Clock } from '../engine/types.ts';
import { ConfigError, EngineDeadError } from '../errors.ts';
import type { KeyValueServer, StoreFolder } from '../platform/types.ts';
import type { LinkSpec } from '../transport/link.ts';
import { createTransport, type PeerTransport } from '../transport/transport.ts';
import type { EngineIdentity, RemoteAddress } from '../transport/types.ts';
import { ArenaMemory } from './arena.ts';
import { BlockNews, type StoreBlocks } from './block-news.ts';
import { BlockCatalog } from './catalog.ts';
import { FolderTier } from './folder-tier.ts';
import { LowerTiers, type StoreFolderStart, type StoreServerStart } from './lower-tiers.ts';
import { StoreReport } from './report.ts';
import { ServerTier } from './server-tier.ts';
import { StoreService } from './service.ts';
import { slotBytes, slotsIn } from './slots.ts';
import type { StoreStats } from './stats.ts';

export interface StoreStart {
  /** What the engines and the store must agree on, with the store's own address. */
  identity: EngineIdentity;
  /** Memory for blocks. */
  bytes: number;
  eviction: EvictionName;
  /** Default: wait_complete. */
  prefetch?: Prefetch;
  /** null for no folder. */
  folder: StoreFolderStart | null;
  /** null or absent for no server. */
  server?: StoreServerStart | null;
  /** Compare a checksum of each chunk at both ends. */
  checksum: boolean;
}

/** Called over comlink. Every call may reject with a KvferryError. */
export interface StoreApi {
  /** `onTrouble` is called with one line for users, once per kind of trouble. */
  start(
    start: StoreStart,
    onTrouble: (message: string) => void,
    /** Changes of its tiers, while somebody follows; `to`: a new follower, whose first batch this is. */
    onEvents: (events: CacheEvent[], atMs: number, to: number | null) => void,
  ): Promise<void>;
  /** A number: a new follower, who first gets what is present. null: nobody follows any more. */
  reportEvents(to: number | null): Promise<void>;
  addPeer(peer: RemoteAddress, port: MessagePort): Promise<void>;
  peerDied(engineId: string): Promise<void>;
  setLink(link: LinkSpec | null): Promise<void>;
  /** For measurements: from now on, serves any block to any reader. */
  serveAnyBlock(): Promise<void>;
  stats(): Promise<StoreStats>;
  /** Changes since the call that returned this revision; everything for 0. */
  blocks(since: number): Promise<StoreBlocks>;
  /**
   * Removes blocks that are not in use from memory, and writes them to lower tiers first as at the end. Waits up to 0.5 s for
   * others, whose releases may be on their way. Afterwards, engines may number their offers from 1 again.
   */
  clear(): Promise<void>;
  /** Rejects with InternalError if its bookkeeping is inconsistent. */
  checkIntegrity(): Promise<void>;
  /** The thread ends after the answer. */
  shutdown(): Promise<void>;
}

export interface StoreHostDeps {
  clock: Clock;
  /** null if this platform has no folders; onTrouble has then been called. */
  openFolder: (directory: string, onTrouble: (message: string) => void) => Promise<StoreFolder | null>;
  /** Absent if this platform cannot connect to a server. */
  openServer?: (url: string) => Promise<KeyValueServer>;
  /** Ends the thread, but only after a moment in which the answer to shutdown() can leave. */
  exit: () => void;
}

const CLEARING_STEP_MS = 2;
const MOST_CLEARING_MS = 500;

interface Parts {
  transport: PeerTransport;
  catalog: BlockCatalog;
  service: StoreService;
  folder: FolderTier | null;
  server: ServerTier | null;
  /** Folder and server; null if there is neither. */
  lower: LowerTiers | null;
  report: StoreReport;
  news: BlockNews;
}

export function hostStore({ clock, openFolder, openServer, exit }: StoreHostDeps): StoreApi {
  let parts: Parts | null = null;
  const running = (): Parts => {
    if (!parts) throw new EngineDeadError('the store is not running: start it first');
    return parts;
  };
  async function openTiers(
    { identity, folder, server }: StoreStart,
    onTrouble: (message: string) => void,
    report: StoreReport,
  ) {
    const blockBytes = slotBytes(identity.blockBytes);
    const below = { blockBytes, clock, onTrouble };
    const tiers: Pick<Parts, 'folder' | 'server'> = { folder: null, server: null };
    if (folder) {
      const { directory, bytes: quotaBytes, namespace, ttlMs } = folder;
      const rest = { ...below, namespace, quotaBytes, ttlMs, onChange: report.changedIn('DISK') };
      const opened = await openFolder(directory, onTrouble);
      tiers.folder = opened && (await FolderTier.open({ folder: opened, ...rest }));
    }
    if (server) {
      if (!openServer) throw new ConfigError('a store cannot use a server here: leave the server out');
      const { url, namespace, ttlMs } = server;
      const rest = { ...below, namespace, ttlMs, onChange: report.changedIn('REMOTE') };
      tiers.server = await ServerTier.open({ server: await openServer(url), ...rest });
    }
    return tiers;
  }

  return {
    async start(start, onTrouble, onEvents) {
      const { identity, bytes, eviction, prefetch, checksum } = start;
      const slots = slotsIn(bytes, identity.blockBytes);
      const report = new StoreReport(identity.blockSize, (events, to) => onEvents(events, clock.now(), to));
      const memory = new ArenaMemory(slots, identity.blockBytes);
      const { folder, server } = await openTiers(start, onTrouble, report);
      const tiers = [
        ...(folder ? [{ tier: folder, ingestion: start.folder!.ingestion }] : []),
        ...(server ? [{ tier: server, ingestion: start.server!.ingestion }] : []),
      ];
      const lower = tiers.length > 0 ? new LowerTiers(tiers, memory, clock) : null;
      const transport = createTransport({ identity, memory, clock, checksum });
      const onChange = report.changedIn('CPU');
      const catalog = new BlockCatalog({ slots, eviction, onChange, ...lower?.listeners });
      const service = new StoreService({ transport, catalog, clock, lower, prefetch });
      parts = { transport, catalog, service, folder, server, lower, report, news: new BlockNews() };
    },

    async reportEvents(to) {
      const { catalog, folder, server, report } = running();
      if (to === null) return report.stop();
      report.begin(to, [
        ['CPU', [...catalog.ready()].map(([key]) => key)],
        ['DISK', [...(folder?.keys() ?? [])]],
        ['REMOTE', [...(server?.keys() ?? [])]],
      ]);
    },

    async addPeer(peer, port) {
      const { transport, service } = running();
      transport.addPeer(port, peer);
      service.addEngine(peer);
    },

    async peerDied(engineId) {
      running().transport.peerDied(engineId);
    },

    async setLink(link) {
      running().transport.setLink(link);
    },

    async serveAnyBlock() {
      running().transport.setHandlers({ gate: () => ({ allow: true, finished() {} }) });
    },

    async stats() {
      const { transport, catalog, service, folder, server } = running();
      return {
        slots: catalog.slots,
        blocks: catalog.size,
        inUse: catalog.inUse,
        blockBytes: slotBytes(transport.identity.blockBytes),
        counters: { ...catalog.counters, ...service.counters },
        folder: folder && { blocks: folder.blocks, bytes: folder.bytes, counters: { ...folder.counters } },
        server: server && {
          blocks: server.blocks,
          resting: server.isResting,
          counters: { ...server.counters },
        },
      };
    },

    async blocks(since) {
      const { catalog, folder, news } = running();
      const memory = [...catalog.blocks()].map(({ key, slot, ready, readers }) => {
        const state = ready ? (readers > 0 ? 'read' : 'ready') : 'coming';
        return { id: slot + 1, key, state } as const;
      });
      return { ...news.news(since, memory, folder?.keys() ?? null), queues: catalog.queues };
    },

    async clear() {
      const { catalog, lower, service } = running();
      const removeUnused = async (): Promise<void> => {
        await lower?.writeRest(catalog);
        catalog.clear();
      };
      await removeUnused();
      for (let waited = 0; catalog.size > 0 && waited < MOST_CLEARING_MS; waited += CLEARING_STEP_MS) {
        await clock.sleep(CLEARING_STEP_MS);
        await removeUnused();
      }
      service.forgetOffers();
    },

    async checkIntegrity() {
      running().catalog.checkIntegrity();
    },

    async shutdown() {
      parts?.transport.close();
      if (parts?.lower) await parts.lower.writeRest(parts.catalog);
      parts?.server?.close();
      parts = null;
      exit();
    },
  };
}
