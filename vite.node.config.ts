/**
 * What starts by itself, each with all it imports: a start reads few files in place of hundreds. The library stays as it is.
 * An engine's thread and the probe share no file with the others: what is shared lies in many small ones.
 */
import { defineConfig, type EnvironmentOptions } from 'vite';

const built = (name: string, input: Readonly<Record<string, string>>): EnvironmentOptions => ({
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
    rollupOptions: { input, output: { chunkFileNames: `${name}/[name].js` } },
  },
});

const environments = {
  program: built('program', {
    kvferry: 'src/cli/main.ts',
    'store-node': 'workers/store-node.ts',
    'simulate-node': 'workers/simulate-node.ts',
    'text-node': 'workers/text-node.ts',
    'start-child': 'src/cli/bench/start/child.ts',
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
