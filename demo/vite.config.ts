/** The page's build: one static folder with relative addresses, the recall model and a recording beside it. */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { defineConfig, type Plugin } from 'vite';

const root = fileURLToPath(new URL('.', import.meta.url));
const project = path.join(root, '..');

/** What SharedArrayBuffer needs. */
const isolation = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
};

/** Files that lie beside the page as they are: address to path. */
const models = readdirSync(path.join(project, 'models/recall')).filter(
  (name) => /\.(json|safetensors|jinja)$/.test(name) && !/^(expected|recall)\.json$/.test(name),
);
const statics = new Map<string, string>([
  ...models.map((name) => [`models/recall/${name}`, path.join(project, 'models/recall', name)] as const),
  ...readdirSync(path.join(root, 'recordings'))
    .filter((name) => /^(shipped|lesson-\d+)\.json$/.test(name))
    .map((name): [string, string] => [`recordings/${name}`, path.join(root, 'recordings', name)]),
]);

function staticFiles(): Plugin {
  return {
    name: 'kvferry-static-files',
    configureServer(server) {
      server.middlewares.use((request, response, next) => {
        const file = statics.get((request.url ?? '').replace(/^\//, '').replace(/\?.*$/, ''));
        if (file === undefined) return next();
        response.setHeader(
          'Content-Type',
          file.endsWith('.json') ? 'application/json' : 'application/octet-stream',
        );
        response.end(readFileSync(file));
      });
    },
    generateBundle() {
      for (const [fileName, file] of statics) {
        this.emitFile({ type: 'asset', fileName, source: readFileSync(file) });
      }
    },
  };
}

/** Shaders without comments and indentation: a third of their weight. Only the build; `npm run demo` has them as they are. */
function shortShaders(): Plugin {
  return {
    name: 'kvferry-short-shaders',
    apply: 'build',
    transform(code, id) {
      if (!id.endsWith('.wgsl?raw')) return null;
      const text = JSON.parse(code.replace(/^export default /, '').replace(/;?\s*$/, '')) as string;
      const lines = text.split('\n').map((line) => line.replace(/\/\/.*$/, '').trim());
      const short = lines
        .filter((line) => line !== '')
        .join('\n')
        .replace(/\s*([{}();,:=+<>])\s*/g, '$1');
      return { code: `export default ${JSON.stringify(short)}`, map: null };
    },
  };
}

/**
 * zod without its writer of JSON Schemas, which every schema drags along and nothing on the page asks for: a tenth of the
 * page's weight. What it exports gives functions that say so.
 */
function zodWithoutJsonSchema(): Plugin {
  return {
    name: 'kvferry-zod-without-json-schema',
    apply: 'build',
    transform(code, id) {
      if (!/zod\/v4\/core\/(to-json-schema|json-schema-processors)\.js$/.test(id)) return null;
      const names = [...code.matchAll(/^export (?:const|function|class) (\w+)/gm)].map((match) => match[1]);
      const none = "const none = () => () => { throw new Error('this page has no JSON Schemas'); };";
      return { code: [none, ...names.map((name) => `export const ${name} = none;`)].join('\n'), map: null };
    },
  };
}

/** The page's own weight: what its first view loads, before any model; policies and the chart come when they are wanted. */
const MOST_GZIPPED_BYTES = 250_000;

/** Workers that no first view starts. */
const LATER = /store-browser-/;

function weighed(): Plugin {
  return {
    name: 'kvferry-weight',
    writeBundle(_, bundle) {
      const first = new Set<string>();
      const take = (fileName: string): void => {
        const file = bundle[fileName];
        if (!file || first.has(fileName)) return;
        first.add(fileName);
        if (file.type === 'chunk') {
          for (const imported of file.imports) take(imported);
          for (const style of file.viteMetadata?.importedCss ?? []) first.add(style);
        }
        // Threads that it starts by itself, and what they fetch.
        const code = file.type === 'chunk' ? file.code : String(file.source);
        for (const { fileName: other, type } of Object.values(bundle))
          if (
            type === 'asset' &&
            /\.js$/.test(other) &&
            !LATER.test(other) &&
            code.includes(path.basename(other))
          )
            take(other);
      };
      for (const file of Object.values(bundle))
        if (file.type === 'chunk' && file.isEntry) take(file.fileName);
      const bytes = Object.values(bundle)
        // The rest is fetched later, if at all.
        .filter(({ fileName }) => first.has(fileName))
        .map((file) => gzipSync(file.type === 'chunk' ? file.code : file.source).byteLength)
        .reduce((sum, size) => sum + size, 0);
      const message = `JavaScript and CSS: ${bytes} bytes gzipped, of at most ${MOST_GZIPPED_BYTES}`;
      if (bytes > MOST_GZIPPED_BYTES) this.error(message);
      this.info(message);
    },
  };
}

export default defineConfig({
  root,
  base: './',
  define: { SHIPPED_FILES: JSON.stringify(models) },
  plugins: [staticFiles(), zodWithoutJsonSchema(), weighed()],
  server: { headers: isolation, fs: { allow: [project] } },
  worker: { format: 'es', plugins: () => [shortShaders(), zodWithoutJsonSchema()] },
  build: {
    ...{ target: 'es2022', outDir: 'dist', emptyOutDir: true, chunkSizeWarningLimit: 1000 },
    // Every browser with WebGPU preloads modules by itself.
    modulePreload: { polyfill: false },
  },
});
