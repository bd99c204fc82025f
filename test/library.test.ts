import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';

const root = fileURLToPath(new URL('..', import.meta.url));
const run = promisify(execFile);

/** Within the package, where `kvferry` resolves to the exports of `package.json`: the built library and its types. */
let folder: string;
let example: string;
let typed: string;

/** Each value is one that the library accepts, and each type one that its interface names. */
const TYPED = `import type {
  CacheEventBatch, ClusterNotice, DrainRule, EngineStats, LinkSpec, OwnRoutingPolicy, PolicyChange, RoutingChoice,
  RunConfigInput, ScaleTarget, TimingMode,
} from 'kvferry';

export const own: OwnRoutingPolicy<{ most: number }> = {
  name: 'own', needs: ['load'], parameters: { most: 2 },
  create: ({ most }, { draws }) => ({
    route: ({ number }, { prefill, decode }) => ({
      prefill: prefill.find(({ signals }) => (signals?.waiting ?? 0) < most * draws(number)()) ?? prefill[0]!,
      decode: decode[0]!,
    }),
    observe: (event) => void (event.kind === 'ended' && event.outputTokens),
  }),
};

export const settings: RunConfigInput[] = [
  { mode: 'bidirectional', routing: 'llm-d', fleet: { rolesets: [{ prefill: 2, decode: [{ blocks: 64 }] }] } },
  { mode: ['unidirectional', 'bidirectional'], routing: ['llm-d'], context: 64, fleet: null },
];
export interface Used {
  link: LinkSpec; drain: DrainRule; target: ScaleTarget; stats: EngineStats; timing: TimingMode;
  onNotice: (notice: ClusterNotice) => void; onCacheEvent: (batch: CacheEventBatch) => void;
}
const routing: RoutingChoice = { name: 'llm-d', parameters: {} };
export const change: PolicyChange = { routing };
`;
beforeAll(async () => {
  folder = await mkdtemp(path.join(root, 'dist', 'example-'));
  const page = await readFile(path.join(root, 'docs', 'using.md'), 'utf8');
  const [, code] = /## As a library\n\n```ts\n([\s\S]+?)```/.exec(page)!;
  example = path.join(folder, 'example.mts');
  await writeFile(example, code!);
  typed = path.join(folder, 'typed.mts');
  await writeFile(typed, TYPED);
});
afterAll(() => rm(folder, { recursive: true }));

/** `signal`: the test's, which ends its programs if it runs out of time. */
const compile = (signal: AbortSignal, options: readonly string[], files = [example]) =>
  run(
    path.join(root, 'node_modules', '.bin', 'tsc'),
    ['--ignoreConfig', '--target', 'es2022', '--module', 'nodenext', ...options, ...files],
    { signal },
  );

/** Without browser types, which the library's types must not need. */
it("the library's types pass a strict compiler, including those they import", async ({ signal }) => {
  const strict = ['--strict', '--exactOptionalPropertyTypes', '--skipLibCheck', 'false', '--noEmit'];
  const here = ['--lib', 'es2022', '--types', 'node'];
  const told = await compile(signal, [...strict, ...here], [example, typed]).catch((error) => error);
  expect(told.stdout).toBe('');
});

it('the library example in docs/using.md compiles, runs and prints an answer', async ({ signal }) => {
  await compile(signal, ['--noCheck']);
  const { stdout } = await run(process.execPath, [example.replace('.mts', '.mjs')], { signal });
  expect(stdout).toMatch(/\S[\s\S]*\n {"?/);
});

it('starts engines for a program that is not a file, which needs --input-type', async ({ signal }) => {
  const program = `import { createCluster } from 'kvferry';
    const cluster = await createCluster({ model: 'nano' });
    console.log(cluster.mode);
    await cluster.close();`;
  const argv = ['--input-type=module', '--eval', program];
  const { stdout } = await run(process.execPath, argv, { cwd: folder, signal });
  expect(stdout).toBe('bidirectional\n');
});
