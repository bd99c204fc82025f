/** What starts by itself, each with all it imports: a start reads few files in place of hundreds. The library stays as it is. */
import { defineConfig } from 'vite';

export default defineConfig({
  publicDir: false,
  // Dawn is a native addon.
  ssr: { noExternal: true, external: ['webgpu'] },
  build: {
    ssr: true,
    target: 'es2022',
    outDir: 'dist/bundle',
    sourcemap: true,
    // Of the packages whose code is in it.
    license: { fileName: 'licenses.md' },
    rollupOptions: {
      input: {
        kvferry: 'src/cli/main.ts',
        'engine-node': 'workers/engine-node.ts',
        'store-node': 'workers/store-node.ts',
        'simulate-node': 'workers/simulate-node.ts',
        'text-node': 'workers/text-node.ts',
        'probe-child': 'src/platform/node/probe-child.ts',
        'start-child': 'src/cli/bench/start/child.ts',
      },
      output: { chunkFileNames: 'parts/[name].js' },
    },
  },
});
