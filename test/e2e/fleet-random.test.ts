/** Random fleets of real engines: any fleet, placement, handover and routing gives the tokens and logits of one engine. */
import { expect, it } from 'vitest';
import { PLACEMENTS } from '../../src/config/fleet-schema.ts';
import { MODES } from '../../src/config/modes.ts';
import { ROUTING_NAMES } from '../../src/config/routing.ts';
import { HANDOVERS, parseRunConfig } from '../../src/config/run.ts';
import type { EngineCluster } from '../../src/fleet/cluster.ts';
import { clusterOptions } from '../../src/fleet/from-config.ts';
import { finalIntegrity } from '../../src/lab/integrity.ts';
import { presetArchitecture } from '../../src/model/architecture/presets.ts';
import { chain } from '../engine/fakes.ts';
import { converse, fingerprint, withCluster } from './cluster-fixture.ts';

const FLEETS = 4;
/** Settings that each fleet serves, one after another. */
const SETTINGS = 5;
const TURNS = 3;
const seeds = [1, 2, 3];

const talk = async (cluster: EngineCluster, temperature: number): Promise<string[]> =>
  (
    await Promise.all(seeds.map((seed) => converse(cluster, `c${seed}`, TURNS, { seed, temperature })))
  ).flatMap(fingerprint);

it('random fleets under every routing policy give the tokens and logits of one engine, and hold nothing at the end', async () => {
  let state = 20261122;
  const pick = <T>(choices: readonly T[]): T => {
    state = chain(state, choices.length);
    return choices[state % choices.length]!;
  };
  const alone = new Map<number, string[]>();
  await withCluster({ mode: 'monolithic' }, async (cluster) => {
    for (const temperature of [0, 1]) alone.set(temperature, await talk(cluster, temperature));
  });
  const served = new Set<string>();
  const names = [...ROUTING_NAMES];
  for (let i = 0; i < FLEETS; i++) {
    const engines = () =>
      Array.from({ length: pick([1, 2]) }, () => ({ prefixCaching: pick([true, false]) }));
    const rolesets = Array.from({ length: pick([1, 2]) }, () => ({ prefill: engines(), decode: engines() }));
    const more = pick([true, false]) ? [{ both: 1 }] : [];
    const fleet = { rolesets: [...rolesets, ...more] };
    // Every policy is used by some fleet.
    const routing = names.splice(0, Math.ceil(names.length / (FLEETS - i)));
    const config = parseRunConfig({
      ...{ model: 'nano', fleet, modeOfFleet: pick(PLACEMENTS), handover: pick(HANDOVERS) },
      routing: routing.join(','),
    });
    const options = clusterOptions(config, presetArchitecture('nano'), true);
    const { fleet: seats, placement, handover } = options;
    await withCluster({ fleet: seats!, placement: placement!, handover }, async (cluster) => {
      for (let k = 0; k < SETTINGS; k++) {
        const name = routing[k % routing.length]!;
        const mode = k === 0 ? 'bidirectional' : pick(MODES);
        const temperature = pick([0, 1]);
        await cluster.configure({ mode, routing: { name, parameters: {} } });
        const what = JSON.stringify({ fleet, placement, handover, mode, name, temperature });
        expect(await talk(cluster, temperature), what).toEqual(alone.get(temperature));
        served.add(name);
      }
      expect(await finalIntegrity(cluster)).toEqual({ ok: true, leftover_blocks: 0, problem: null });
    });
  }
  expect([...served].sort()).toEqual([...ROUTING_NAMES].sort());
});
