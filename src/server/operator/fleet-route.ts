/** GET /fleet: the engines with their state, load and URL. POST /fleet/scale: changes how many there are. Admin port only. */
import type { Hono } from 'hono';
import { z } from 'zod';
import { DRAINS } from '../../config/autoscale.ts';
import { statsWithTimeout } from '../../fleet/call-with-timeout.ts';
import type { EngineCluster } from '../../fleet/cluster.ts';
import { fleetIn } from '../../fleet/options.ts';
import type { ScaleReport } from '../../fleet/scale-report.ts';
import { servingRole } from '../../fleet/serving-role.ts';
import type { ThreadEngine } from '../../fleet/thread-engine.ts';
import { systemClock } from '../../platform/clock.ts';
import type { EngineClient } from '../../router/engine-client.ts';
import { orAborted } from '../../router/or-aborted.ts';
import { WAIT_30S } from '../../router/scaling/drain.ts';
import type { EnginePorts } from '../engine-ports.ts';
import { checked } from '../generation/fields.ts';
import type { Admission } from '../http/admission.ts';
import { HttpError } from '../http/http-error.ts';
import { bodyOf, jsonResponse } from '../http/json.ts';
import type { ScalingLog } from './scaling-log.ts';

const engines = () => z.number({ error: 'a whole number of engines' }).int('a whole number of engines');

const scaleBody = z.strictObject({
  prefill: engines().optional(),
  decode: engines().optional(),
  roleset: z.string({ error: "a roleset's name" }).optional(),
  drain: z.enum(DRAINS, { error: `one of ${DRAINS.join(', ')}` }).optional(),
  drain_timeout: z.number({ error: 'seconds, 0 or more' }).min(0, 'seconds, 0 or more').optional(),
});

export interface FleetRoutes {
  cluster: EngineCluster;
  ports: EnginePorts;
  scalings: ScalingLog;
  /** The client that sends requests to an engine. */
  clientOf: (engine: ThreadEngine) => EngineClient;
  /** Of the port. */
  admission: Admission;
}

export function mountFleet(app: Hono, { cluster, ports, scalings, clientOf, admission }: FleetRoutes): void {
  app.get('/fleet', async () => {
    const { rolesets, links } = fleetIn(cluster.settings);
    const { placement = 'pooled', link, mode } = cluster.settings;
    const engines = await Promise.all(
      cluster.engines.map((engine) => engineRow(cluster, engine, ports, clientOf(engine).load.inFlight)),
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
      autoscale: scalings.autoscale,
      events: scalings.events,
    });
  });
  app.post('/fleet/scale', async (c) => {
    const body = await bodyOf(c);
    refuseOtherBodies(body);
    const { prefill, decode, roleset, drain, drain_timeout: seconds } = checked(scaleBody, body);
    const target = {
      ...(prefill === undefined ? {} : { prefill }),
      ...(decode === undefined ? {} : { decode }),
      ...(roleset === undefined ? {} : { roleset }),
    };
    const usual = cluster.settings.drain ?? WAIT_30S;
    const rule = {
      drain: drain ?? usual.drain,
      holdsMs: seconds === undefined ? usual.holdsMs : 1000 * seconds,
    };
    const abort = new AbortController();
    const leave = admission.enter(abort);
    try {
      const report = await orAborted(abort.signal, cluster.scale(target, rule));
      await ports.settled();
      return jsonResponse(scaleJson(report, ports.urls));
    } finally {
      leave();
    }
  });
}

/** `inFlight`: requests that the router has sent there, including those not yet delivered to an engine that hangs. */
async function engineRow(cluster: EngineCluster, engine: ThreadEngine, ports: EnginePorts, inFlight: number) {
  const stats = engine.ended ? null : await statsWithTimeout(engine, systemClock);
  // 0 for an engine that has ended; null (unknown) for one that does not answer.
  const none = engine.ended ? 0 : null;
  const { name, role, combined, roleset, engineId, ended, startMs } = engine;
  return {
    name,
    engine_id: engineId,
    role: servingRole({ role, combined }),
    roleset,
    url: ports.urls[name] ?? null,
    state: cluster.members.isLeaving(engine) ? 'leaving' : ended ? 'ended' : 'serving',
    reason: ended?.message ?? null,
    answers: stats !== null,
    start_ms: Math.round(startMs),
    load: {
      requests_in_flight: inFlight,
      requests_running: stats?.running ?? none,
      requests_waiting: stats ? stats.waiting + stats.waitingForRemote : none,
      kv_blocks: stats ? stats.numBlocks - 1 : none,
      kv_blocks_used: stats?.usedBlocks ?? none,
      held_requests: stats?.heldRequests ?? none,
    },
  };
}

function scaleJson({ joined, left }: ScaleReport, urls: Readonly<Record<string, string>>) {
  return {
    joined: joined.map(({ name, engineId, role, startMs, loadMs, compileMs }) => ({
      ...{ name, engine_id: engineId, role, url: urls[name] ?? null },
      ...{ start_ms: Math.round(startMs), load_ms: Math.round(loadMs), compile_ms: Math.round(compileMs) },
    })),
    left: left.map(({ name, engineId, role, ms, migrated, lost, ended }) => ({
      ...{ name, engine_id: engineId, role, drain_ms: Math.round(ms), migrated, lost, ended },
    })),
  };
}

/** Rejects bodies that are not objects or have unknown fields. checked() reports all other errors. Throws HttpError 400. */
function refuseOtherBodies(body: unknown): void {
  const issue = scaleBody.safeParse(body).error?.issues[0];
  if (issue?.code === 'unrecognized_keys') {
    const [unknown = null] = issue.keys;
    const known = Object.keys(scaleBody.shape).join(', ');
    throw new HttpError(400, `unknown field ${unknown}: wanted some of ${known}`, unknown);
  }
  if (issue?.path.length === 0)
    throw new HttpError(
      400,
      'the body is not an object: wanted one such as {"prefill": 2, "decode": 2}',
      null,
    );
}
