/** `kvferry store`: what a store's folder has, whether every block in it is whole, and clearing it. Starts no engine. */
import type { RunConfig } from '../../config/run.ts';
import { ConfigError } from '../../errors.ts';
import { formatBytes } from '../../measure/format.ts';
import { clearFolder, listFolder, verifyFolder } from '../../store/inspect-folder.ts';
import type { Asked, CommandSpec } from '../arguments.ts';
import { type CommandContext, EXIT, type ExitCode } from '../deps.ts';
import { formatCount, plural } from '../format.ts';
import { left, renderTable, right, styleOf } from '../table.ts';

export const storeSpec: CommandSpec = {
  usage: 'store <what> [dir]',
  run: storeCommand,
  description:
    "Look into a store's folder (--store-dir): list what it has (ls DIR), read every block and check it (verify DIR), or remove them all (clear DIR).",
  groups: ['general'],
  examples: ['kvferry store ls ./kv', 'kvferry store verify ./kv --json', 'kvferry store clear ./kv'],
};

const WANTED = 'wanted ls DIR, verify DIR or clear DIR';

async function storeCommand(config: RunConfig, { deps }: CommandContext, { args }: Asked): Promise<ExitCode> {
  const [what, dir] = args;
  if (what !== 'ls' && what !== 'verify' && what !== 'clear')
    throw new ConfigError(`there is no 'store ${what ?? ''}': ${WANTED}`);
  if (dir === undefined) throw new ConfigError(`store ${what} has no folder: ${WANTED}`);
  const folder = deps.storeFolder(dir);
  const say = async (figures: object, lines: readonly string[]): Promise<void> => {
    const json = `${JSON.stringify(figures, null, 2)}\n`;
    if (typeof config.json === 'string') await deps.writeTextFile(config.json, json);
    deps.stdout.write(config.json === true ? json : `${lines.join('\n')}\n`);
  };
  if (what === 'ls') {
    const namespaces = await listFolder(folder);
    const day = (ms: number): string => new Date(ms).toISOString().slice(0, 16).replace('T', ' ');
    const rows = namespaces.map(({ namespace, blocks, bytes, oldestMs, newestMs }) => [
      namespace.slice(0, 12),
      formatCount(blocks),
      formatBytes(bytes),
      day(oldestMs),
      day(newestMs),
    ]);
    const columns = [left('model and adapter'), ...right('blocks', 'size', 'oldest (UTC)', 'newest (UTC)')];
    const table = renderTable(columns, rows, styleOf(deps.color));
    await say({ folder: dir, namespaces }, rows.length > 0 ? table : [`${dir} is a store's, and empty.`]);
    return EXIT.good;
  }
  if (what === 'clear') {
    const { blocks, bytes } = await clearFolder(folder);
    await say({ folder: dir, blocks, bytes }, [`removed ${plural(blocks, 'block')}, ${formatBytes(bytes)}`]);
    return EXIT.good;
  }
  const { blocks, broken } = await verifyFolder(folder);
  const whole = `${plural(blocks - broken.length, 'block')} of ${formatCount(blocks)} whole`;
  await say({ folder: dir, blocks, broken }, [
    ...broken.map(({ file, why }) => `${file}: ${why}`),
    broken.length === 0
      ? `${whole}.`
      : `${whole}; the others are removed when they are met, or by store clear.`,
  ]);
  return broken.length === 0 ? EXIT.good : EXIT.failed;
}
