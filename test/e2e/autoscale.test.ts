/** An autoscaling rule on real engines: it scales up under load and down when idle, and tokens stay those of one engine. */
import { expect, it } from 'vitest';
import { startAutoscaler } from '../../src/fleet/autoscaled.ts';
import { finalIntegrity } from '../../src/lab/integrity.ts';
import type { AutoscaleDecision } from '../../src/router/autoscale/loop.ts';
import { converse, fingerprint, withCluster } from './cluster-fixture.ts';

const ids = ['a', 'b', 'c', 'd', 'e', 'f'];

it('k8s-hpa on requests in flight scales up under load and back to the minimum when idle, losing nothing', async () => {
  const talk = async (cluster: Parameters<typeof converse>[0]) =>
    (await Promise.all(ids.map((id, i) => converse(cluster, id, 8, { seed: i + 1 })))).flat();
  const alone = fingerprint(await withCluster({ mode: 'monolithic' }, talk));
  await withCluster({ drain: { drain: 'migrate', holdsMs: 2000 } }, async (cluster) => {
    const decisions: AutoscaleDecision[] = [];
    const failures: string[] = [];
    let most = 0;
    let idle: (decision: AutoscaleDecision) => void = () => {};
    const role = { metric: 'in-flight', target: 1, scaleDownStabilizationSeconds: 0 };
    const bounds = { prefill: { min: 1, max: 1 }, decode: { min: 1, max: 2 } };
    const stop = startAutoscaler(
      cluster,
      { name: 'k8s-hpa', parameters: { prefill: role, decode: role }, intervalMs: 50, bounds },
      {
        decided: (decision) => {
          decisions.push(decision);
          idle(decision);
        },
        failed: (message) => void failures.push(message),
      },
    );
    cluster.onNotice(() => {
      most = Math.max(most, cluster.info.engines.length);
    });
    expect(fingerprint(await talk(cluster))).toEqual(alone);
    // D may still join or leave when the last turn ends: stop at a decision that finds one D and leaves it at that.
    await new Promise<void>((resolve) => {
      idle = ({ target, roles }) => {
        if (most < 3 || target !== null || roles.decode.engines > 1 || cluster.members.changing) return;
        stop();
        resolve();
      };
    });
    expect(failures).toEqual([]);
    expect(most).toBe(3);
    expect(cluster.info.engines.map(({ role }) => role)).toEqual(['prefill', 'decode']);
    const up = decisions.find(({ target }) => target?.decode === 2)!;
    expect(up.roles.decode).toMatchObject({ engines: 1, metric: 'in flight', want: 2 });
    expect(await finalIntegrity(cluster)).toEqual({ ok: true, leftover_blocks: 0, problem: null });
  });
});
