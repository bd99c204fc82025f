/** The fault schedules of real engines on a virtual clock: answers stay right, and nothing is left over. */
import { describe, expect, it } from 'vitest';
import type { EngineRequest } from '../../src/engine/types.ts';
import { FAULTS, type FaultKind } from '../../src/faults/schedule.ts';
import { changed } from '../../src/fleet/options.ts';
import type { ClusterOptions, PolicyChange } from '../../src/fleet/types.ts';
import type { EngineStats } from '../../src/host/engine-report.ts';
import { type EpisodeDeps, runEpisode, type StormyCluster } from '../../src/lab/faults/episode.ts';
import type { Script } from '../../src/lab/faults/script.ts';
import type { Callers } from '../../src/lab/faults/storm.ts';
import type { GenerateRequest } from '../../src/router/turn-types.ts';
import type { SimulatedCluster } from '../../src/simulate/cluster.ts';
import { Answers } from '../../src/simulate/engines/answers.ts';
import { StormyLoad } from '../../src/simulate/load/stormy-load.ts';
import { Random } from '../../src/workload/random.ts';
import { fleetOptions, greedy, simulated, turn } from './simulated.ts';

const KINDS = Object.keys(FAULTS) as FaultKind[];
const POOL = 96;
const LEASE_MS = 2000;
const answers = new Answers(8, 97);

/** Conversations with their answers, which no fault may change. */
function scripts(): Script[] {
  const random = new Random(5);
  const fresh = (from: number, to: number) =>
    Array.from({ length: random.int(from, to) }, () => random.int(8, 96));
  return Array.from({ length: 6 }, () => {
    let history: number[] = [];
    return Array.from({ length: 3 }, (_, i) => {
      const promptTokenIds = [...history, ...(i === 0 ? fresh(20, 40) : fresh(5, 30))];
      const sampling = { maxTokens: 12, temperature: 0, seed: 0, ignoreEos: true as const };
      const tokens = [...answers.of({ promptTokenIds, sampling } as unknown as EngineRequest, 512)];
      history = [...promptTokenIds, ...tokens];
      return { promptTokenIds, sampling, answer: tokens.map((id) => `${id}:`) };
    });
  });
}

/** `count`: of P and of D. */
const optionsWith = (count: number): ClusterOptions =>
  fleetOptions({
    ...{ prefill: count, decode: count, blocks: POOL, connector: { leaseMs: LEASE_MS } },
    options: { maxNumBatchedTokens: 64, maxNumSeqs: 8, maxModelLen: 512, checksum: true, silenceMs: 2000 },
  });
const options = optionsWith(1);

/** A simulated cluster with the interface that an episode needs; `configured` gets the settings that it asks for. */
function stormy(cluster: SimulatedCluster, configured: (change: PolicyChange) => void): StormyCluster {
  const statsOf = ({ engineId, core }: SimulatedCluster['engines'][number]): EngineStats =>
    ({ engineId, ...core.inspect.stats(), memory: { gpu: 0, shared: 0 } }) as unknown as EngineStats;
  return {
    engines: [],
    settings: options,
    configure: async (change) => configured(change),
    generate: (request) => cluster.generate(request),
    endConversation: (id) => cluster.endConversation(id),
    stats: async () => cluster.fleet.present.filter(({ ended }) => !ended).map(statsOf),
    checkIntegrity: async () => {
      for (const { ended, core } of cluster.fleet.present) if (!ended) core.inspect.checkIntegrity();
    },
  };
}

const scripted = scripts();

function depsOf(cluster: SimulatedCluster, configured: (change: PolicyChange) => void): EpisodeDeps {
  return {
    cluster: stormy(cluster, configured),
    storm: cluster.storm!,
    scripts: scripted,
    clock: cluster.clock,
    kinds: KINDS,
    picks: null,
    patienceMs: 120_000,
    drainMs: 16_000,
    signal: new AbortController().signal,
  };
}

const costs = {
  stepMs: ({ prefillTokens, decodes }: { prefillTokens: number; decodes: number }) =>
    3 + 0.2 * prefillTokens + decodes,
  readMs: (bytes: number) => 1 + bytes / 1e6,
  ...{ submitMs: 0.3, messageMs: 0.2, replyMs: 0.1, startMs: 500 },
};

async function episode(seed: number) {
  // An episode draws its settings when it begins, so the first run only asks for them.
  let wanted: PolicyChange = {};
  const asked = simulated({}, costs, { faults: true });
  await asked.run(
    runEpisode(
      seed,
      depsOf(asked, (change) => {
        wanted = change;
        throw new Error('enough');
      }),
    ),
  );
  // An engine can be scaled down only where there is another of its role.
  const fleet = optionsWith(1 + (seed % 2));
  const made = { options: changed(fleet, fleet, wanted), answers };
  const cluster = simulated({}, costs, { ...made, faults: true, check: seed % 10 === 0 });
  const result = await cluster.run(
    runEpisode(
      seed,
      depsOf(cluster, () => {}),
    ),
  );
  return { ...result, endMs: cluster.clock.now() };
}

describe('a storm of faults', () => {
  it('leaves every answer right and no blocks or requests behind, with every kind of fault', async () => {
    const happened = new Map<FaultKind, number>();
    const turns = { right: 0, error: 0, left: 0 };
    for (let seed = 0; seed < 120; seed++) {
      const { found, faults, turns: these } = await episode(seed);
      expect(found, `seed ${seed}: ${faults.map(({ fault }) => fault.kind)}`).toEqual([]);
      for (const { fault } of faults) happened.set(fault.kind, (happened.get(fault.kind) ?? 0) + 1);
      for (const outcome of ['right', 'error', 'left'] as const) turns[outcome] += these[outcome];
    }
    expect([...happened.keys()].sort()).toEqual(KINDS.toSorted());
    for (const count of Object.values(turns)) expect(count).toBeGreaterThan(20);
  });

  it('is the same for the same seed', async () => {
    expect(await episode(7)).toEqual(await episode(7));
  });
});

describe('a READ whose message', () => {
  const SILENCE = 20_000;
  /** Serves a conversation of two turns, whose second one's pull the fault meets; returns that turn's latency, ms. */
  async function met(kind: FaultKind, meanwhile = async (_: SimulatedCluster) => {}): Promise<number> {
    const sizes = { options: { silenceMs: SILENCE, checksum: true }, connector: { recomputeThreshold: 0 } };
    const cluster = simulated(sizes, costs, { faults: true });
    const fault = { kind, target: 'prefill', at: { stage: 'pulling', count: 1 } } as const;
    let times = 0;
    cluster.storm!.begin([fault], { leave() {}, fill() {} }, () => {
      times++;
      void meanwhile(cluster);
    });
    const promptTokenIds = Array.from({ length: 100 }, (_, i) => 8 + i);
    const serve = async (): Promise<number> => {
      const request = { conversationId: 'a', sampling: greedy(40), failover: true };
      for await (const { tokenId } of cluster.generate({ ...request, promptTokenIds: [...promptTokenIds] }))
        promptTokenIds.push(tokenId);
      promptTokenIds.push(9, 10, 11);
      return (await turn(cluster, { ...request, promptTokenIds })).latencyMs;
    };
    const latency = await cluster.run(serve());
    expect(times).toBe(1);
    return latency;
  }

  it('is lost is sent again after a silence', async () => {
    expect(await met('lose')).toBeGreaterThan(SILENCE);
  });

  it('cannot be read is sent again at once', async () => {
    expect(await met('truncate')).toBeLessThan(SILENCE);
  });

  it('is lost waits no longer once its holder has ended', async () => {
    const kill = async (cluster: SimulatedCluster): Promise<void> => {
      await cluster.clock.sleep(100);
      await cluster.fleet.engine('decode').shutdown();
    };
    expect(await met('lose', kill)).toBeLessThan(SILENCE);
  });
});

it('faults that make clients leave at the same moment pick a different client each', async () => {
  let callers: Callers | null = null;
  const fleet = { replaceTheDead() {} };
  const storm = {
    begin(_schedule: unknown, given: Callers) {
      callers = given;
    },
  };
  const signals: AbortSignal[] = [];
  const generate = async function* ({ signal }: GenerateRequest) {
    signals.push(signal!);
    yield await new Promise<never>((_, reject) => {
      signal!.addEventListener('abort', () => reject(signal!.reason));
    });
  };
  const cluster = { clock: null, fleet, storm, generate } as unknown as SimulatedCluster;
  const load = new StormyLoad(cluster, { faults: 1, span: 1 }, 0);
  const asked = ['a', 'b'].map((conversationId) => load.generate({ conversationId, sampling: {} }).next());
  const left = Promise.allSettled(asked);
  for (const _turn of asked) callers!.leave(false);
  expect(signals.map(({ aborted }) => aborted)).toEqual([true, true]);
  expect((await left).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
});
