/** The page's build: a static folder with relative addresses, the recall model and the recordings. */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { defineConfig, type Plugin } from 'vite';

const root = fileURLToPath(new URL('.', import.meta.url));
const project = path.join(root, '..');

/** Headers that SharedArrayBuffer requires. */
const isolation = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
};

/** Static files of the page: address to path. */
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

/** Removes comments and indentation from shaders: a third of their size. Only in the build, not in `npm run demo`. */
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
 * Removes zod's JSON Schema writer, which every schema imports and the page never uses: a tenth of the page's size. Its
 * exports are replaced by functions that say so.
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

/** Removes what --help says of each setting, which the page never shows. */
function withoutHelp(): Plugin {
  const text = /'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?:[^`\\]|\\.)*`/.source;
  return {
    name: 'kvferry-without-help',
    apply: 'build',
    enforce: 'pre',
    transform(code, id) {
      if (!/\/src\/config\/[\w-]+\.ts$/.test(id)) return null;
      return {
        code: code.replace(new RegExp(`(description:\\s*)(?:${text})(?=\\s*[,}])`, 'g'), "$1''"),
        map: null,
      };
    },
  };
}

/** The size of what the page's first view loads, without models, routing policies and charts, which are fetched later. */
const MOST_GZIPPED_BYTES = 250_000;

/** Workers that the first view does not start. */
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
        // Workers that the page starts at once, and what they fetch.
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
  plugins: [staticFiles(), zodWithoutJsonSchema(), withoutHelp(), weighed()],
  server: { headers: isolation, fs: { allow: [project] } },
  worker: { format: 'es', plugins: () => [shortShaders(), zodWithoutJsonSchema(), withoutHelp()] },
  build: {
    ...{ target: 'es2022', outDir: 'dist', emptyOutDir: true, chunkSizeWarningLimit: 1000 },
    // Every browser with WebGPU supports module preloading natively.
    modulePreload: { polyfill: false },
  },
});
