/**
 * What starts by itself, each with all it imports: a start reads few files in place of hundreds. The library stays as it is.
 * An engine's thread and the probe share no file with the others: what is shared lies in many small ones.
 */
import path from 'node:path';
import { defineConfig, type EnvironmentOptions, normalizePath, type Rolldown } from 'vite';

/** rolldown's ChunkingContext. */
interface Modules {
  getModuleInfo(id: string): Rolldown.ModuleInfo | null;
}

interface Together {
  name: string;
  /** What imports them. */
  by: readonly string[];
}

/** Modules that some load before they do anything: in one file, unless an earlier group has them. */
function groupOf({ name, by }: Together) {
  let members: Set<string> | null = null;
  return {
    debugName: name,
    name(id: string, modules: Modules): string | null {
      members ??= importedBy(by, modules);
      return members.has(id) ? name : null;
    },
  };
}

function importedBy(files: readonly string[], modules: Modules): Set<string> {
  const found = new Set(files.map((file) => normalizePath(path.join(import.meta.dirname, file))));
  // Those that are added are walked through as well.
  for (const id of found)
    for (const imported of modules.getModuleInfo(id)?.importedIds ?? []) found.add(imported);
  return found;
}

const built = (
  name: string,
  input: Readonly<Record<string, string>>,
  together: readonly Together[] = [],
): EnvironmentOptions => ({
  consumer: 'server',
  // Dawn is a native addon.
  resolve: { noExternal: true, external: ['webgpu'] },
  build: {
    target: 'es2022',
    outDir: 'dist/bundle',
    emptyOutDir: name === 'program',
    sourcemap: true,
    // Of the packages whose code is in it.
    license: { fileName: `licenses-${name}.md` },
    rollupOptions: {
      input,
      output: {
        chunkFileNames: `${name}/[name].js`,
        codeSplitting: { groups: together.map(groupOf) },
      },
    },
  },
});

const environments = {
  program: built('program', { kvferry: 'src/cli/main.ts', 'start-child': 'src/cli/bench/start/child.ts' }, [
    // Without a group, what both share would come with all of the next one, and threads would start only after it.
    { name: 'ahead', by: ['src/cli/program.ts'] },
    { name: 'start', by: ['src/cli/app.ts', 'src/cli/node/node-deps.ts'] },
    { name: 'engines', by: ['src/cli/commands/run.ts'] },
  ]),
  threads: built('threads', {
    'store-node': 'workers/store-node.ts',
    'simulate-node': 'workers/simulate-node.ts',
    'text-node': 'workers/text-node.ts',
  }),
  engine: built('engine', { 'engine-node': 'workers/engine-node.ts' }),
  probe: built('probe', { 'probe-child': 'src/platform/node/probe-child.ts' }),
};

export default defineConfig({
  publicDir: false,
  environments,
  builder: {
    async buildApp(builder) {
      for (const name of Object.keys(environments)) await builder.build(builder.environments[name]!);
    },
  },
});
