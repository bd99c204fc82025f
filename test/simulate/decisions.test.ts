/** At zero cost, a simulated fleet decides as the policy tests' fleet: the same engines, hits and pulls in each turn. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { OFFLOADING_DEFAULTS, type OffloadingConfig } from '../../src/config/connectors.ts';
import { COMPOSITIONS, type Composition } from '../../src/config/kv-connectors.ts';
import { INGESTIONS } from '../../src/config/store.ts';
import { kvBytesOf } from '../../src/connector/policy/cost-model.ts';
import { createBlockHasher } from '../../src/engine/block-hash.ts';
import { engineCore, seatsOf } from '../../src/fleet/options.ts';
import { LoadReport } from '../../src/host/load-report.ts';
import { directoryFolder } from '../../src/platform/node/store-folder.ts';
import type { StoreFolder } from '../../src/platform/types.ts';
import { ConversationCache } from '../../src/router/conversations.ts';
import { seededDraws } from '../../src/router/policies/definition.ts';
import { makePolicy, reportsNeeded } from '../../src/router/policies/registry.ts';
import { PrefixIndex } from '../../src/router/prefix-index.ts';
import { PromptBuilder } from '../../src/router/prompts.ts';
import { Router } from '../../src/router/router.ts';
import { TurnSpans } from '../../src/router/turn-spans.ts';
import type { TurnResult } from '../../src/router/turn-types.ts';
import { EngineViews } from '../../src/router/views.ts';
import type { SimulatedCluster } from '../../src/simulate/cluster.ts';
import { NAMED_COSTS } from '../../src/simulate/costs/published.ts';
import { Answers } from '../../src/simulate/engines/answers.ts';
import { tokensOnly } from '../../src/simulate/text.ts';
import { HEAD_BYTES } from '../../src/store/block-file.ts';
import { FolderTier } from '../../src/store/folder-tier.ts';
import { LowerTiers } from '../../src/store/lower-tiers.ts';
import { Random } from '../../src/workload/random.ts';
import { settled, TestClock } from '../clock.ts';
import { type Below, Net, PolicyNode, StoreNode } from '../connector/policy-cluster.ts';
import type { Changes } from '../connector/scripted.ts';
import { BLOCK_BYTES, type Fleet, fleetOptions, greedy, simulated, turn } from './simulated.ts';

/** A turn to serve, and the answer that it gets. */
interface Sent {
  conversationId: string;
  promptTokenIds: number[];
  answer: number[];
}

/** A folder on this machine's disk, below the policy tests' store; `quiet` waits for its I/O. */
class RealFolder {
  readonly directory = mkdtempSync(path.join(tmpdir(), 'kvferry-decisions-'));
  tier: FolderTier | null = null;
  #underWay = 0;

  /** `slots`: capacity in blocks. */
  below({ slots, ingestion }: NonNullable<Fleet['folder']>, clock: TestClock): Below {
    return (memory) => {
      const tier = new FolderTier({
        ...{ folder: this.#watched(), namespace: '0'.repeat(64), blockBytes: KV_BYTES, ttlMs: null, clock },
        quotaBytes: slots * (KV_BYTES + HEAD_BYTES),
        onTrouble: (message) => {
          throw new Error(message);
        },
      });
      this.tier = tier;
      return new LowerTiers([{ tier, ingestion }], memory, clock);
    };
  }

  /** Waits for the disk, in no time on the test's clock; true if there was anything to wait for. */
  async quiet(): Promise<boolean> {
    const busy = this.#underWay > 0;
    while (this.#underWay > 0) await settled();
    return busy;
  }

  #watched(): StoreFolder {
    const folder = directoryFolder(this.directory);
    const watch = async <T>(work: Promise<T>): Promise<T> => {
      this.#underWay++;
      return work.finally(() => this.#underWay--);
    };
    return {
      location: folder.location,
      isEmpty: () => watch(folder.isEmpty()),
      list: () => watch(folder.list()),
      read: (name) => watch(folder.read(name)),
      write: (name, bytes) => watch(folder.write(name, bytes)),
      remove: (name) => watch(folder.remove(name)),
    };
  }
}

const realFolders: RealFolder[] = [];
afterEach(() => {
  for (const { directory } of realFolders.splice(0)) rmSync(directory, { recursive: true, force: true });
});

/** Bytes of a block in the policy tests: 16 numbers. */
const KV_BYTES = 128;

/** Serves turns of four conversations, some of which rewrite their history; the same for the same seed. */
async function converse(seed: number, turns: number, serve: (sent: Sent) => Promise<TurnResult>) {
  const random = new Random(seed);
  const ids = (count: number) => Array.from({ length: count }, () => random.int(8, 96));
  const histories = Array.from({ length: 4 }, () => ids(40));
  const shared = ids(64);
  const seen = [];
  for (let i = 0; i < turns; i++) {
    const which = random.int(0, histories.length - 1);
    const history = histories[which]!;
    const kept = random.float() < 0.2 ? history.slice(0, Math.floor(history.length / 2)) : history;
    const start = kept.length < 100 ? shared : [];
    const promptTokenIds = [...start, ...kept, ...ids(random.int(1, 70))];
    const answer = ids(random.int(1, 40));
    const result = await serve({ conversationId: `c${which}`, promptTokenIds, answer });
    const { localHitTokens, pulledTokens, computedTokens } = result.prompt;
    const { prefill = null, decode = null, load = null } = result.routed ?? {};

    seen.push({ prefill, decode, load, localHitTokens, pulledTokens, computedTokens });
    histories[which] = promptTokenIds.length > 900 ? ids(40) : [...promptTokenIds, ...answer];
  }
  return seen;
}

/** The same router with the policy tests' engines, whose KV is checked at every read. */
class PolicyFleet {
  readonly #net = new Net();
  readonly #clock = new TestClock();
  readonly #nodes: PolicyNode[];
  readonly #router: Router;
  readonly #store: StoreNode | null;
  readonly #folder: RealFolder | null;

  constructor(fleet: Fleet) {
    const options = fleetOptions(fleet);
    const { routing, blockSize, weightSeed, mode, handover } = options;
    const hashing = { hasher: createBlockHasher('test'), blockSize };
    const views = new EngineViews(new PrefixIndex(hashing), () => 0);
    this.#nodes = seatsOf(options).map((seat) => {
      const { cache, scheduler, connector, port } = engineCore(options, seat, seat.name, mode);
      const { blockSize, numBlocks, enablePrefixCaching: prefixCaching } = cache;
      const sizes = { blockSize, numBlocks, prefixCaching, ...scheduler };
      const node = new PolicyNode(seat.name, port, sizes, connector!, this.#clock, this.#net);
      node.core.onCacheEvent = (event) =>
        views.cached({ engineId: seat.name, events: [event], atMs: this.#clock.now() });
      const loads = new LoadReport();
      loads.setEnabled(true);
      const step = node.step.bind(node);
      node.step = async () => {
        const outputs = await step();
        loads.add(outputs, this.#clock.now());
        for (const idle of [false, true]) {
          if (idle && node.core.poll()) break;
          const load = loads.take(() => node.core.inspect.load(), this.#clock.now(), idle);
          if (load) views.load(seat.name, load);
        }
        return outputs;
      };
      return node;
    });
    const { storeSlots, folder } = fleet;
    this.#folder = folder ? new RealFolder() : null;
    if (this.#folder) realFolders.push(this.#folder);
    const below = folder ? this.#folder!.below(folder, this.#clock) : null;
    this.#store =
      storeSlots === undefined ? null : new StoreNode(storeSlots, this.#net, this.#nodes, this.#clock, below);
    const choice = routing ?? { name: 'round-robin', parameters: {} };
    const policy = makePolicy(choice, {
      draws: seededDraws(weightSeed),
      blockSize,
      kvBytes: kvBytesOf(blockSize, KV_BYTES),
    });
    this.#router = new Router({
      text: tokensOnly,
      prompts: new PromptBuilder(tokensOnly),
      conversations: new ConversationCache(this.#clock),
      clock: this.#clock,
      routing: () => ({ name: choice.name, policy, views, needs: reportsNeeded(choice) }),
      settings: () => ({ mode, handover, throttled: false }),
      engines: () => this.#nodes,
      onTurn() {},
      onRequest() {},
      newId: (name) => name,
      spans: new TurnSpans(),
    });
  }

  async serve({ conversationId, promptTokenIds, answer }: Sent): Promise<TurnResult> {
    let result: TurnResult | null = null;
    for (const { model } of this.#nodes) model.scripts.get = () => answer;
    const served = (async () => {
      const sampling = greedy(answer.length);
      for await (const { final } of this.#router.serve({ conversationId, promptTokenIds, sampling }))
        result = final ?? result;
    })();
    for (let rounds = 0, quiet = 0; quiet < 3; rounds++) {
      if (rounds > 20_000) throw new Error('the fleet makes no progress');
      let moved = false;
      for (const node of this.#nodes) {
        if (node.core.poll()) {
          await node.step();
          moved = true;
        }
        moved = node.tell() || moved;
      }
      moved = this.#net.deliver() || moved;
      await settled();
      moved = ((await this.#folder?.quiet()) ?? false) || moved;
      quiet = moved ? 0 : quiet + 1;
    }
    await served;
    return result!;
  }

  /** Counters of its store, and of its engines for the store; null without a store. */
  stored() {
    if (!this.#store) return null;
    const { catalog, service } = this.#store;
    const twoHopBlocks = this.#nodes.reduce((sum, { store }) => sum + (store?.counters.twoHopBytes ?? 0), 0);
    const loadedTokens = this.#nodes.reduce((sum, { store }) => sum + (store?.counters.loadedTokens ?? 0), 0);
    return {
      counters: { ...catalog.counters, ...service.counters },
      blocks: catalog.size,
      loadedTokens,
      twoHopBlocks,
      folder: this.#folder && {
        ...{ blocks: this.#folder.tier!.blocks, ...this.#folder.tier!.counters },
        // Blocks of a simulated folder have no bytes.
        ...{ readBytes: 0, writtenBytes: 0 },
      },
    };
  }
}

/** The same for a simulated fleet. */
function storedIn({ store, engines }: SimulatedCluster) {
  if (!store) return null;
  const { counters, blocks, engines: used, tiers } = store.outcome(engines);
  const [folder = null] = tiers;
  return {
    counters,
    blocks,
    loadedTokens: used.loadedTokens,
    twoHopBlocks: used.twoHopBytes / BLOCK_BYTES,
    folder: folder && { blocks: folder.blocks, ...folder.counters },
  };
}

/** Lets what a turn's end started, such as saving its last block, finish before the next turn. No time passes. */
async function nothingUnderWay({ clock }: SimulatedCluster): Promise<void> {
  for (let events = 0; events < 200; events++) await new Promise<void>((resolve) => clock.after(0, resolve));
}

const routings = [
  'round-robin',
  'random',
  'least-request',
  'prefix-cache',
  'session-affinity',
  'power-of-two',
  'llm-d',
  'dynamo',
  'sglang',
  'aibrix-pd',
  'mooncake',
  'least-ttft',
];

const composed = (composition: Composition, changes: Partial<OffloadingConfig> = {}): Changes => ({
  name: 'MultiConnector',
  multi: { composition, names: ['NixlConnector', 'OffloadingConnector'] },
  offloading: { ...OFFLOADING_DEFAULTS, handsOver: false, ...changes },
});

/** P keeps no prefixes, so that the store has something to give. */
const uncached = { numBlocks: 80, enablePrefixCaching: false };

const stores: [string, Fleet][] = [
  [
    'a store alone',
    { storeSlots: 300, connector: { name: 'OffloadingConnector' }, options: { prefill: uncached } },
  ],
  // Room for what P and D save at once, up to 64 blocks each. With less, evictions would depend on which saves first.
  [
    'a small store that hands over',
    { storeSlots: 128, blocks: 80, connector: { name: 'AIBrixPDReuseConnector' } },
  ],
  [
    'a store that also gets generated tokens',
    {
      storeSlots: 300,
      connector: composed('compose', { promptOnly: false }),
      options: { prefill: uncached },
    },
  ],
  ...COMPOSITIONS.map((composition): [string, Fleet] => [
    `a store and NIXL, by ${composition}`,
    {
      storeSlots: 120,
      connector: composed(composition),
      options: { prefill: uncached },
    },
  ]),
  [
    '2 P and 2 D with a store, by prefix-cache',
    {
      ...{ prefill: 2, decode: 2, blocks: 60, storeSlots: 200, connector: composed('compose') },
      options: { routing: { name: 'prefix-cache', parameters: {} } },
    },
  ],
];

/** Memory is far too small; the folder holds more, and is full as well in the end. */
const folders = INGESTIONS.map((ingestion): [string, Fleet] => [
  `a store over a folder that gets ${ingestion}`,
  {
    ...{ storeSlots: 60, folder: { slots: 60, ingestion } },
    connector: composed('compose', { promptOnly: false }),
    options: { prefill: uncached },
  },
]);

describe('a simulated fleet at zero cost', () => {
  const cases: [string, Fleet][] = [
    ['P and D', {}],
    ['P and D, pools that evict', { blocks: 80 }],
    ['P and D, threshold 16', { blocks: 80, connector: { recomputeThreshold: 16 } }],
    ['P and D, nothing pulled back', { options: { mode: 'unidirectional' } }],
    ['P and D, streamed', { options: { handover: 'streamed' } }],
    ...stores,
    ...folders,
    ...routings.map((name): [string, Fleet] => [
      `2 P and 2 D by ${name}`,
      { prefill: 2, decode: 2, options: { routing: { name, parameters: {} } } },
    ]),
  ];
  it.each(cases)("decides as the policy tests' fleet in each turn: %s", async (_name, fleet) => {
    const real = new PolicyFleet(fleet);
    const expectedStores: unknown[] = [];
    const expected = await converse(7, 40, async (sent) => {
      const result = await real.serve(sent);
      expectedStores.push(real.stored());
      return result;
    });
    const answers = new Answers(8, 97);
    // least-ttft learns from the bytes that move. With a store these would change its capacity.
    const blockBytes = fleet.storeSlots === undefined ? KV_BYTES : BLOCK_BYTES;
    const cluster = simulated(fleet, { store: NAMED_COSTS.zero!.store }, { answers, blockBytes });
    const foundStores: unknown[] = [];
    const found = await cluster.run(
      converse(7, 40, async ({ conversationId, promptTokenIds, answer }) => {
        const sampling = { ...greedy(answer.length), forcedTokenIds: answer };
        const result = await turn(cluster, { conversationId, promptTokenIds, sampling });
        await nothingUnderWay(cluster);
        foundStores.push(storedIn(cluster));
        return result;
      }),
    );
    expect(found).toEqual(expected);
    // Hits, evictions, and what the folder has, turn by turn.
    expect(foundStores).toEqual(expectedStores);
    if (fleet.folder) {
      const { read, written, blocks } = real.stored()!.folder!;
      expect(read).toBeGreaterThan(0);
      expect(written).toBeGreaterThan(blocks);
    }
    if (fleet.storeSlots) expect(real.stored()!.loadedTokens).toBeGreaterThan(0);
    if (fleet.storeSlots && fleet.storeSlots < 200)
      expect(real.stored()!.counters.evicted).toBeGreaterThan(0);
    expect(cluster.clock.now()).toBe(0);
    // Some policies keep conversations in place so well that nothing is left to pull.
    const pulls = expected.filter(({ pulledTokens }) => pulledTokens > 0).length;
    if (!fleet.options?.routing && !fleet.storeSlots)
      expect(pulls > 0).toBe(fleet.options?.mode !== 'unidirectional');
  });
});
