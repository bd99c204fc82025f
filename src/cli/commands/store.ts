/** `kvferry store`: lists, verifies or clears a store's folder or server. Starts no engine. */
import type { RunConfig } from '../../config/run.ts';
import { isStoreUrl, withoutPassword, wrongInStoreUrl } from '../../config/store-url.ts';
import { ConfigError } from '../../errors.ts';
import { formatBytes, formatCount, plural } from '../../measure/format.ts';
import { left, right } from '../../report/document.ts';
import { orAborted } from '../../router/or-aborted.ts';
import type { BlockName } from '../../store/block-file.ts';
import { blockIn } from '../../store/folder-names.ts';
import { clearFolder, listFolder, verifyFolder } from '../../store/inspect-folder.ts';
import { clearServer, listServer, verifyServer } from '../../store/inspect-server.ts';
import { blockAt } from '../../store/server-keys.ts';
import { type CliDeps, type CommandContext, EXIT, type ExitCode } from '../deps.ts';
import { warningOfLoss } from '../interrupted.ts';
import type { CommandInput, CommandSpec } from '../options/arguments.ts';
import { WIDTH, wrap } from '../output/format.ts';
import { renderTable, styleOf } from '../output/table.ts';

export const storeSpec: CommandSpec = {
  usage: 'store <what> [place]',
  run: storeCommand,
  description:
    "Inspect a store. PLACE is its folder (what --store-dir names) or the redis:// URL of its server: list its contents (ls), read and check every block (verify), or remove all blocks (clear). On a server, only kvferry's own keys are touched.",
  groups: ['general'],
  examples: [
    'kvferry store ls ./kv',
    'kvferry store verify ./kv --json',
    'kvferry store ls redis://:PASSWORD@cache:6379',
    'kvferry store clear ./kv',
  ],
};

const ACTIONS = ['ls', 'verify', 'clear'] as const;
type Action = (typeof ACTIONS)[number];

/** What is said after an interrupt, by action. */
const ENDED_EARLY: Readonly<Record<Action, string>> = {
  ls: 'No listing: not everything was read.',
  verify: 'No result: not every block was read.',
  clear: 'Not all blocks were removed: run it again to remove the rest.',
};

/** Interval of progress lines while reading a server. */
const REPORT_EVERY_MS = 10_000;
const WANTED = `wanted ${ACTIONS.map((what) => `${what} DIR`).join(', ')}, or a redis://HOST:PORT in place of DIR`;

/** A folder or a server, behind one interface. */
interface Place {
  /** For messages and reports. */
  location: string;
  kind: 'folder' | 'server';
  list(): Promise<readonly Namespace[]>;
  verify(): Promise<{ blocks: number; broken: readonly Broken[] }>;
  clear(): Promise<{ blocks: number; bytes: number }>;
  close(): void;
}

interface Broken {
  block: BlockName;
  why: string;
  entry: object;
}

interface Namespace {
  namespace: string;
  blocks: number;
  bytes: number;
  /** Absent for a server. */
  oldestMs?: number;
  newestMs?: number;
}

async function storeCommand(
  config: RunConfig,
  context: CommandContext,
  { args }: CommandInput,
): Promise<ExitCode> {
  const { deps, signal } = context;
  const [what, where] = args;
  if (what === undefined) throw new ConfigError(`store has no action: ${WANTED}`);
  if (!isAction(what)) throw new ConfigError(`there is no 'store ${what}': ${WANTED}`);
  if (where === undefined) throw new ConfigError(`store ${what} has no folder: ${WANTED}`);
  const place = await placeAt(where, deps, signal);
  try {
    // A folder's files may be many, and it may not answer.
    const looking = orAborted(signal, lookInto(place, what, config, context));
    return await warningOfLoss(looking, context, () => ENDED_EARLY[what]);
  } finally {
    place.close();
  }
}

async function lookInto(
  place: Place,
  what: Action,
  config: RunConfig,
  { deps, signal }: CommandContext,
): Promise<ExitCode> {
  const { location, kind } = place;
  const say = async (figures: object, lines: readonly string[]): Promise<void> => {
    signal.throwIfAborted();
    const json = `${JSON.stringify({ [kind]: location, ...figures }, null, 2)}\n`;
    if (typeof config.json === 'string') await deps.writeTextFile(config.json, json);
    deps.stdout.write(config.json === true ? json : `${lines.join('\n')}\n`);
  };
  if (what === 'ls') {
    const namespaces = await place.list();
    const empty = kind === 'folder' ? 'is an empty store' : 'has no blocks';
    const table = namespaces.length > 0 ? tableOf(namespaces, deps) : [`${location} ${empty}.`];
    await say({ namespaces }, table);
    return EXIT.good;
  }
  if (what === 'clear') {
    const { blocks, bytes } = await place.clear();
    await say({ blocks, bytes }, [`removed ${plural(blocks, 'block')}, ${formatBytes(bytes)}`]);
    return EXIT.good;
  }
  const { blocks, broken } = await place.verify();
  const intact = `${plural(blocks - broken.length, 'block')} of ${formatCount(blocks)} whole`;
  await say({ blocks, broken: broken.map(({ entry }) => entry) }, [
    ...brokenLines(broken, deps),
    ...wrap(
      broken.length === 0
        ? `${intact}.`
        : `${intact}; the others are removed or replaced when a store reads them, or removed by store clear. --json lists their full names.`,
      WIDTH,
    ),
  ]);
  return broken.length === 0 ? EXIT.good : EXIT.failed;
}

function brokenLines(broken: readonly Broken[], deps: CliDeps): string[] {
  if (broken.length === 0) return [];
  const columns = [left('model and adapter'), left('block'), left('what is wrong')];
  const rows = broken.map(({ block, why }) => {
    // A hash, followed by the KV cache group if there are several.
    const [hash = '', ...group] = block.key.split('.');
    return [block.namespace.slice(0, 12), [hash.slice(0, 12), ...group].join('.'), why];
  });
  return renderTable(columns, rows, styleOf(deps.color));
}

function tableOf(namespaces: readonly Namespace[], deps: CliDeps): string[] {
  const day = (ms = 0): string => new Date(ms).toISOString().slice(0, 16).replace('T', ' ');
  const dated = namespaces.every(({ oldestMs }) => oldestMs !== undefined);
  const rows = namespaces.map(({ namespace, blocks, bytes, oldestMs, newestMs }) => [
    namespace.slice(0, 12),
    formatCount(blocks),
    formatBytes(bytes),
    ...(dated ? [day(oldestMs), day(newestMs)] : []),
  ]);
  const dates = dated ? ['oldest (UTC)', 'newest (UTC)'] : [];
  const columns = [left('model and adapter'), ...right('blocks', 'size', ...dates)];
  return renderTable(columns, rows, styleOf(deps.color));
}

async function placeAt(where: string, deps: CliDeps, signal: AbortSignal): Promise<Place> {
  if (isStoreUrl(where)) return serverPlace(where, deps, signal);
  const folder = deps.storeFolder(where);
  return {
    location: where,
    kind: 'folder',
    list: () => listFolder(folder),
    async verify() {
      const { blocks, broken } = await verifyFolder(folder, signal);
      return {
        blocks,
        broken: broken.map((entry) => ({ block: blockIn({ name: entry.file })!, why: entry.why, entry })),
      };
    },
    clear: () => clearFolder(folder, signal),
    close() {},
  };
}

async function serverPlace(url: string, deps: CliDeps, signal: AbortSignal): Promise<Place> {
  const location = withoutPassword(url);
  const wrong = wrongInStoreUrl(url);
  if (wrong !== null) throw new ConfigError(`the URL ${location} ${wrong}: wanted redis://HOST:PORT`);
  const server = await deps.storeServer(url);
  let reportedMs = deps.now();
  const onProgress = (blocks: number): void => {
    if (deps.now() - reportedMs < REPORT_EVERY_MS) return;
    reportedMs = deps.now();
    deps.stderr.write(`${plural(blocks, 'block')} so far\n`);
  };
  const access = { server, sleep: deps.sleep, signal, onProgress };
  return {
    location,
    kind: 'server',
    list: () => listServer(access),
    async verify() {
      const { blocks, broken } = await verifyServer(access);
      return {
        blocks,
        broken: broken.map((entry) => ({ block: blockAt(entry.key)!, why: entry.why, entry })),
      };
    },
    clear: () => clearServer(access),
    close: () => server.drop(),
  };
}

const isAction = (what: string | undefined): what is Action => ACTIONS.includes(what as Action);
