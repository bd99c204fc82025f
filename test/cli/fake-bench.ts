/** `kvferry bench` on fake engines. */
import { main } from '../../src/cli/app.ts';
import type { BenchReport } from '../../src/measure/schemas/bench-report.ts';
import { fakeWorld } from './fake.ts';
import type { FakeTroubles } from './fake-cluster.ts';

/** A function that runs it with `spec` in gen.json. `report` is what it wrote to out.json. */
export const benchOf =
  (spec: object) =>
  async (
    options: readonly string[],
    troubles: FakeTroubles = {},
    files: Readonly<Record<string, string>> = {},
  ) => {
    const world = fakeWorld(troubles, { 'gen.json': JSON.stringify(spec), ...files });
    const code = await main(['bench', ...options], world.deps);
    const json = world.files.get('out.json');
    return { world, code, report: json ? (JSON.parse(json) as BenchReport) : null };
  };
