/** GET /fleet: who is in the fleet, in which state, how loaded, and where each listens. The operator's. */
import type { Hono } from 'hono';
import type { EngineCluster } from '../fleet/cluster.ts';
import { fleetIn } from '../fleet/options.ts';
import { jsonResponse } from './json.ts';

/** `urls`: of engines, in the order of their seats. */
export function mountFleet(app: Hono, cluster: EngineCluster, urls: readonly string[]): void {
  app.get('/fleet', async () => {
    const { seats, rolesets, links } = fleetIn(cluster.settings);
    const { placement = 'pooled', link, mode } = cluster.settings;
    const engines = await Promise.all(
      cluster.engines.map(async (engine, i) => {
        const stats = engine.ended ? null : await engine.inspection.stats().catch(() => null);
        const { role, combined, roleset, engineId, ended, load } = engine;
        return {
          name: seats[i]!.name,
          engine_id: engineId,
          role: combined ? 'both' : role,
          roleset,
          url: urls[i] ?? null,
          state: ended ? 'ended' : 'serving',
          reason: ended?.message ?? null,
          load: {
            requests_in_flight: load.inFlight,
            requests_running: stats?.running ?? 0,
            requests_waiting: (stats?.waiting ?? 0) + (stats?.waitingForRemote ?? 0),
            kv_blocks: stats ? stats.numBlocks - 1 : 0,
            kv_blocks_used: stats?.usedBlocks ?? 0,
            held_requests: stats?.heldRequests ?? 0,
          },
        };
      }),
    );
    return jsonResponse({
      mode,
      mode_of_fleet: placement,
      link: link?.name ?? null,
      links: links.map(({ between, link: own }) => ({ between, link: own.name })),
      rolesets: rolesets.map(({ name, min, max }) => {
        const of = engines.filter(({ roleset }) => roleset === name);
        const serving = (role: string) =>
          of.some((engine) => engine.role === role && engine.state === 'serving');
        return {
          name,
          prompt_tokens: { min, max },
          eligible: serving('both') || (serving('prefill') && serving('decode')),
          engines: of.map((engine) => engine.name),
        };
      }),
      engines,
    });
  });
}
