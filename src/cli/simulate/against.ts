/** Tables that compare a simulation with a measured report. */

import { formatCount, formatError, formatMs, formatPercent, plural } from '../../measure/format.ts';
import type { BenchReport } from '../../measure/schemas/bench-report.ts';
import { parseBenchReport } from '../../measure/schemas/report-kinds.ts';
import type { AgainstReport } from '../../measure/schemas/simulation-report.ts';
import { left, right } from '../../report/document.ts';
import type { CliDeps, Output } from '../deps.ts';
import { printer, renderTable } from '../output/table.ts';

/** Throws ConfigError. */
export const readMeasured = async (file: string, deps: Pick<CliDeps, 'readTextFile'>): Promise<BenchReport> =>
  parseBenchReport(await deps.readTextFile(file), file);

type Figure = AgainstReport['arms'][number]['figures'][number];

export function printAgainst({ source, clients, arms }: AgainstReport, out: Output, color: boolean): void {
  const { print, say, c, style } = printer(out, color);
  for (const arm of arms) {
    print(['']);
    say(`${arm.label} against ${arm.real} of ${source}`, c.bold);
    const columns = [left(''), ...right('real', 'simulated', 'error')];
    print(renderTable(columns, arm.figures.map(figureCells), style));
    const other = otherWork(arm, clients);
    if (other) say(other, c.yellow);
  }
}

/** A figure's name, both values, and the error of the simulated one. */
export const figureCells = ({ name, unit, real, simulated, error }: Figure): string[] => [
  name,
  shown(real, unit),
  shown(simulated, unit),
  error === null ? '-' : formatError(error),
];

/** Tolerance for prompt tokens, as a share: the order of service differs between runs. Beyond it the prompts are not the same. */
const SAME_PROMPTS = 0.1;

/** Why the two served different work, or with other pools; null if requests, prompt tokens (about), clients and pools agree. */
export function otherWork(
  { requests, prompt_tokens, pools }: AgainstReport['arms'][number],
  clients: AgainstReport['clients'],
): string | null {
  const counts = ({ real, simulated }: { real: number; simulated: number }, what: string): string =>
    `${formatCount(real)} ${what} per round in the report, ${formatCount(simulated)} in the simulation`;
  if (requests.real !== requests.simulated)
    return `${counts(requests, 'requests')}: not the same workload, or not all of it.`;
  if (clients.real !== clients.simulated)
    return `The report has ${describeClients(clients.real)}, the simulation ${describeClients(clients.simulated)}: the load differs.`;
  const { real, simulated } = prompt_tokens;
  if (real === null || Math.abs(simulated / Math.max(1, real) - 1) <= SAME_PROMPTS) return otherPools(pools);
  return `${counts({ real, simulated }, 'prompt tokens')}: not the same prompts. Without --tokenizer, bench sends words to a server, and each word may be several tokens.`;
}

/** Hits and pulls depend on how many blocks fit. */
function otherPools(pools: AgainstReport['arms'][number]['pools']): string | null {
  if (!pools) return null;
  const { p_blocks: p, d_blocks: d } = pools;
  if (p.real === null || d.real === null || (p.real === p.simulated && d.real === d.simulated)) return null;
  return (
    `P and D have ${formatCount(p.real)} and ${formatCount(d.real)} KV blocks in the report, ${formatCount(p.simulated)} and ${formatCount(d.simulated)} in the simulation: ` +
    `give --p-blocks ${p.real} --d-blocks ${d.real} to simulate these.`
  );
}

const describeClients = (clients: number): string =>
  clients === 0 ? 'open-loop arrivals' : plural(clients, 'client');

function shown(value: number | null, unit: Figure['unit']): string {
  if (value === null) return '-';
  if (unit === 'ms') return `${formatMs(value)} ms`;
  if (unit === 'share') return formatPercent(value);
  return unit === '/s' ? value.toFixed(2) : formatCount(Math.round(value));
}
