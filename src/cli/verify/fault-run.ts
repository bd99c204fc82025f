/** `kvferry verify --faults N`: a table of faults and outcomes, and for each violation the command that repeats it. */
import pc from 'picocolors';
import { optionName, type RunConfig } from '../../config/run.ts';
import { ConfigError } from '../../errors.ts';
import { FAULT_KINDS, FAULTS } from '../../faults/schedule.ts';
import { clusterOptions } from '../../fleet/from-config.ts';
import { DRAIN_MS, runFaults } from '../../lab/faults/run.ts';
import type { FaultReport, Violation } from '../../lab/faults/types.ts';
import { formatSeconds, plural } from '../../measure/format.ts';
import type { FaultsReport } from '../../measure/schemas/verify-report.ts';
import { left } from '../../report/document.ts';
import { type CommandContext, EXIT, type ExitCode } from '../deps.ts';
import { warningOfLoss } from '../interrupted.ts';
import { commandLines, WIDTH, wrap } from '../output/format.ts';
import { textOutput, writeJson } from '../output/json-option.ts';
import { createProgress } from '../output/progress.ts';
import { renderTable, styleOf } from '../output/table.ts';

/** A lost message is retried twice, each time after a silence; the rest is slack for a busy machine. */
const PATIENCE_MS = 120_000;

const OF_THE_CHECKS = ['fixture', 'html', 'markdown', 'junit'] as const;

export async function verifyFaults(
  config: RunConfig,
  faults: number,
  { deps, signal }: CommandContext,
): Promise<ExitCode> {
  const given = OF_THE_CHECKS.find((key) => config[key] !== null);
  if (given !== undefined) {
    throw new ConfigError(
      `${optionName(given)} applies to the checks, and --faults runs none of them: leave one of the two out, or use --json`,
    );
  }
  const { backend, now } = deps;
  const adapter = await backend.useAdapter(config.adapter);
  const progress = createProgress(deps);
  progress.line(`at least ${plural(faults, 'fault')} on ${adapter.name}, seed ${config.seed}`);
  const begunMs = now();
  progress.begin('faults', faults);
  let report: FaultReport;
  const totals = { faults: 0, episodes: 0, violations: [] as readonly Violation[] };
  try {
    const breaking = runFaults({
      faults,
      seed: config.seed,
      kinds: FAULT_KINDS,
      pairs: config.faultPairs,
      picks: config.faultPicks,
      patienceMs: PATIENCE_MS,
      drainMs: DRAIN_MS,
      clock: { now, sleep: (ms, stop) => deps.sleep(ms, stop) },
      signal,
      cluster: clusterOptions(config, await backend.architecture('nano'), adapter.software),
      start: (options, hooks) => backend.startCluster(options, hooks),
      onEpisode(happened, episodes, violations) {
        // An interrupted episode does not count.
        if (!signal.aborted)
          Object.assign(totals, { faults: happened, episodes, violations: [...violations] });
        progress.update(
          Math.min(happened, faults),
          `${plural(episodes, 'episode')}, ${violations.length} broken`,
        );
      },
    });
    report = await warningOfLoss(breaking, { deps, signal }, () => {
      const said = `${plural(totals.faults, 'fault')} in ${plural(totals.episodes, 'episode')}`;
      return `No verdict: ${said} had finished, with ${plural(totals.violations.length, 'rule')} broken.`;
    });
  } catch (error) {
    // Print the violations found so far.
    for (const violation of totals.violations)
      for (const line of broken(violation, config.adapter, config.faultPairs)) deps.stderr.write(`${line}\n`);
    throw error;
  } finally {
    progress.end();
  }
  const seconds = formatSeconds(now() - begunMs);
  const out = textOutput(config, deps);
  for (const line of faultLines(report, config.adapter, seconds, deps.color)) out.write(`${line}\n`);
  await writeJson(faultJson(report, deps.version, adapter.name), config, deps);
  return report.ok ? EXIT.good : EXIT.failed;
}

/** What --json writes, with names as in all reports. */
export function faultJson(report: FaultReport, version: string, adapter: string): FaultsReport {
  const { enginesReplaced, violations, tallies, ...rest } = report;
  return {
    kvferry: version,
    kind: 'verify-faults',
    schema_version: 1,
    adapter,
    ...rest,
    tallies: [...tallies],
    violations: violations.map(({ picks, faults, ...violation }) => ({
      ...violation,
      picks: picks && [...picks],
      faults: [...faults],
    })),
    engines_replaced: enginesReplaced,
  };
}

/** `adapter`: as the user gave it; `seconds`: the formatted duration. */
export function faultLines(report: FaultReport, adapter: string, seconds: string, color: boolean): string[] {
  const c = pc.createColors(color);
  const { pairs, turns, errors, episodes, enginesReplaced, violations } = report;
  const columns = [
    left('fault'),
    { head: 'times' },
    ...['right', 'error', 'left'].map((head) => ({ head, group: 'affected turns' })),
    { head: 'broken' },
  ];
  const rows = report.tallies.map(({ kind, times, turns: met, violations: broken }) =>
    [FAULTS[kind], times, met.right, met.error, met.left, broken].map(String),
  );
  const codes = Object.entries(errors).map(([code, count]) => `${count} ${code}`);
  const summary = [
    `${plural(report.faults, 'fault')} in ${plural(episodes, 'episode')}, ${seconds}; ${plural(enginesReplaced, 'engine')} replaced.`,
    `Turns: ${turns.right} with the same tokens and logits as one engine alone, ${turns.left} abandoned by their clients,`,
    `${turns.error} ended by an error${codes.length > 0 ? ` (${codes.join(', ')})` : ''}.`,
  ].join(' ');
  const verdict =
    violations.length === 0
      ? c.green('No wrong token; nothing held, parked or hanging afterwards; memory as before.')
      : c.red(`${plural(violations.length, 'rule')} broken:`);
  return [
    ...renderTable(columns, rows, styleOf(color)),
    '',
    ...wrap(summary, WIDTH),
    verdict,
    ...violations.flatMap((violation) => broken(violation, adapter, pairs)),
  ];
}

function broken({ kind, detail, seed, picks, faults }: Violation, adapter: string, pairs: number): string[] {
  const only = picks ? ` --fault-picks ${picks.join(',')}` : '';
  const several = pairs > 1 ? ` --fault-pairs ${pairs}` : '';
  return [
    '',
    ...wrap(`${kind}: ${detail}`, WIDTH),
    ...faults.map((fault) => `  ${fault}`),
    // Faults happen at the same points of the work, but threads may interleave differently.
    ...commandLines(
      `kvferry verify --faults 1 --seed ${seed}${several}${only}${adapter === 'auto' ? '' : ` --adapter ${adapter}`}`,
    ),
  ];
}
