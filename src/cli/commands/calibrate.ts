/** `kvferry calibrate`: measures what pulling and prefilling cost, recommends a threshold, and writes a cost profile. */
import type { CostProfile } from '../../config/cost-profile.ts';
import { isUnusual, optionName, type RunConfig, type RunKey } from '../../config/run.ts';
import { ConfigError } from '../../errors.ts';
import { clusterOptions, forMeasuring } from '../../fleet/from-config.ts';
import { countEngines, linksOfPairs } from '../../fleet/options.ts';
import { fleetOf } from '../../fleet/seats.ts';
import type { Cluster, ClusterOptions } from '../../fleet/types.ts';
import { calibrate, calibrationTurns } from '../../lab/calibrate.ts';
import { type ExpectedRegret, expectedRegret } from '../../lab/fit-costs.ts';
import { checkPolicies, checkTurns, type PolicyCheck } from '../../lab/policy-check.ts';
import { checkOffered } from '../../lab/sweep.ts';
import { formatSeconds, plural } from '../../measure/format.ts';
import { parseBenchReport } from '../../measure/schemas/report-kinds.ts';
import { fitReport } from '../../simulate/costs/fit-report.ts';
import { CostMeter, LEAST_ROUNDS, MEASURED_ROUNDS } from '../../simulate/costs/measure.ts';
import { calibrationDocument } from '../calibrate/calibrate-document.ts';
import { calibrationLines } from '../calibrate/calibrate-output.ts';
import { type CommandContext, EXIT, type ExitCode, type Output } from '../deps.ts';
import { warningOfLoss } from '../interrupted.ts';
import type { CommandInput, CommandSpec } from '../options/arguments.ts';
import { refuseUnused, unusedByCalibrate } from '../options/unused-options.ts';
import { commandLines } from '../output/format.ts';
import { textOutput, writeJson } from '../output/json-option.ts';
import { checkFiles, keepInputs } from '../output/outputs.ts';
import { writePages } from '../output/pages.ts';
import { createProgress, type Progress } from '../output/progress.ts';
import { styleOf } from '../output/table.ts';
import { createTimeLeft } from '../output/time-left.ts';
import { printFitted } from '../simulate/fitted.ts';
import { printMeasured } from '../simulate/validate.ts';
import { quote } from '../vllm/shell.ts';

export const calibrateSpec: CommandSpec = {
  usage: 'calibrate [file]',
  run: calibrateCommand,
  description:
    'Measure what pulls and prefills cost for this machine, model and link. Recommend a kv_recompute_threshold, and write the cost profile for --pull-policy cost-aware.',
  groups: [
    'calibration',
    'checking',
    'measuring',
    'machine',
    'fleet',
    'cluster',
    'store',
    'pages',
    'general',
  ],
  defaultNotes: { threshold: '64', rounds: '5; 14 for the steps of --costs-out' },
  examples: [
    'kvferry calibrate costs.json --link 10e6,40ms',
    'kvferry calibrate --link 10e6,40ms --check --html costs.html',
    'kvferry calibrate --costs-out ./here.json --prefill 2 --decode 2',
    'kvferry calibrate --from-report vllm.json --costs-out vllm-costs.json',
    'kvferry run --link 10e6,40ms --pull-policy cost-aware --cost-profile costs.json',
  ],
};

const CHECK_TURNS = 12;
const CHECK_ROUNDS = 5;

/** What `--json` writes. */
interface CalibrationReport {
  profile: CostProfile;
  expected_regret: { threshold: number | null; regret_ms: number; regret_share: number }[];
  check: PolicyCheck | null;
}

async function calibrateCommand(
  config: RunConfig,
  { deps, signal }: CommandContext,
  { args, given, files }: CommandInput,
): Promise<ExitCode> {
  refuseUnused(given, unusedByCalibrate(config));
  const [file] = args;
  const named: Record<string, string> = file === undefined ? {} : { 'the profile': file };
  await checkFiles(config, deps, named);
  await keepInputs(config, deps, files, named);
  if (config.fromReport !== null) return fromReport(config.fromReport, file, config, deps);
  const architecture = await deps.backend.architecture(config.model);
  const adapter = await deps.backend.useAdapter(config.adapter);
  const options = {
    ...forMeasuring(clusterOptions(config, architecture, adapter.software)),
    mode: 'bidirectional' as const,
  };
  checkOffered(options);
  checkLinks(options);
  const progress = createProgress(deps);
  progress.line(`starting ${countEngines(options)} with ${config.model} on ${adapter.name}`);
  const cluster = await deps.backend.startCluster(options);
  try {
    const turns = calibrationTurns(cluster, roundOptions(config));
    let measured = 0;
    const measuring = timed(progress, deps, 'calibrate', turns, (onProgress) =>
      calibrate(cluster, {
        ...roundOptions(config),
        version: deps.version,
        date: deps.today(),
        signal,
        onProgress(done, total, what) {
          measured = done;
          onProgress(done, total, what);
        },
      }),
    );
    const profile = await warningOfLoss(
      measuring,
      { deps, signal },
      () =>
        `No profile: only ${measured} of ${plural(turns, 'turn')} were measured, and the fit needs all of them. Nothing is written. Fewer --rounds take less time.`,
    );
    if (cluster.settings.store && !profile.store)
      progress.line(
        'store costs not measured: the store or the pools have no room for two prompts of whole blocks',
      );
    // Write the profile before the longer steps, so that it is kept if they fail.
    if (file !== undefined) await deps.writeTextFile(file, `${JSON.stringify(profile, null, 2)}\n`);
    const check = config.check
      ? await compare(cluster, profile, config, progress, { deps, signal }).catch((error: unknown) => {
          if (file !== undefined) progress.line(`${file} is written; the check did not finish`);
          throw error;
        })
      : null;
    await cluster.checkIntegrity();
    const { least_tokens, most_tokens } = profile.fit;
    const thresholds = [...new Set([profile.recommended_threshold, config.threshold, 64, 0, null])];
    const regret = expectedRegret(profile, thresholds, least_tokens, most_tokens);
    const tables = textOutput(config, deps);
    tables.write(`${calibrationLines(profile, regret, check, styleOf(deps.color)).join('\n')}\n`);
    if (file !== undefined) {
      tables.write('\n');
      const use = 'run --pull-policy cost-aware --cost-profile';
      // A fleet file's too: the profile is accepted over the same link only.
      const link = profile.link?.name ?? null;
      printUse(file, { use, model: config.model, settings: asMeasured({ ...config, link }) }, tables);
    }
    if (config.costsOut !== null)
      await warningOfLoss(
        simulationCosts(cluster, profile, config.costsOut, config, progress, { deps, signal }),
        { deps, signal },
        () => `${config.costsOut} is not written: the fit needs all rounds.`,
      );
    const report: CalibrationReport = { profile, expected_regret: regret.map(snake), check };
    await writeJson(report, config, deps);
    await writePages(calibrationDocument(profile, regret, check), config, deps);
    return EXIT.good;
  } finally {
    progress.end();
    await cluster.close();
  }
}

/** Fits costs to a report. Starts no engine. */
async function fromReport(
  report: string,
  profile: string | undefined,
  config: RunConfig,
  deps: CommandContext['deps'],
): Promise<ExitCode> {
  if (profile !== undefined)
    throw new ConfigError(
      `--from-report fits costs for simulate, and ${profile} would be a profile of pulls, which a report does not contain: leave it out, and give --costs-out`,
    );
  const read = parseBenchReport(await deps.readTextFile(report), report);
  const isGiven = isUnusual('decode', config) || isUnusual('fleet', config);
  const fit = fitReport(read, report, isGiven ? fleetOf(config) : null);
  printFitted(fit, textOutput(config, deps), deps.color);
  if (config.costsOut !== null) {
    await deps.writeTextFile(config.costsOut, `${JSON.stringify(fit.file, null, 2)}\n`);
    printUse(config.costsOut, { use: 'simulate --costs', model: null }, textOutput(config, deps));
  }
  await writeJson(fit, config, deps);
  return EXIT.good;
}

async function simulationCosts(
  cluster: Cluster,
  { store }: CostProfile,
  file: string,
  config: RunConfig,
  progress: Progress,
  { deps, signal }: CommandContext,
): Promise<void> {
  const rounds = Math.max(LEAST_ROUNDS, config.rounds ?? MEASURED_ROUNDS);
  progress.begin('steps', rounds + 1);
  const meter = new CostMeter(cluster, { seed: config.seed, signal });
  for (let round = 0; round <= rounds; round++) {
    progress.update(round, round === 0 ? 'warming up' : `round ${round}`);
    await meter.round();
  }
  const measured = meter.costs();
  if (store)
    measured.file.store = {
      ...{ load: byBytes(store.load), save: byBytes(store.save) },
      folder: store.folder_read && { read: byBytes(store.folder_read), write: null },
      server: null,
    };
  progress.end();
  await deps.writeTextFile(file, `${JSON.stringify(measured.file, null, 2)}\n`);
  const out = textOutput(config, deps);
  out.write('\n');
  printMeasured(measured, out, deps.color);
  printUse(file, { use: 'simulate --costs', model: measured.file.model }, out);
}

/** Prints that the file was written, and the command that reads it. `model` null: the file is for any model. */
function printUse(
  file: string,
  { use, model, settings = [] }: { use: string; model: string | null; settings?: readonly string[] },
  out: Output,
): void {
  // Without a slash or dot the name would be taken for a built-in cost model.
  const path = /[./\\]/.test(file) ? file : `./${file}`;
  const words = [`kvferry ${use} ${quote(path)}`, ...(model === null ? [] : [`--model ${quote(model)}`])];
  const command = [...words, ...settings].join(' ');
  for (const line of [`wrote ${file}:`, ...commandLines(command)]) out.write(`${line}\n`);
}

/** Settings that a profile depends on: one measured with other values is refused. */
const OF_A_PROFILE = [
  'adapter',
  'weightDtype',
  'kvDtype',
  'link',
  'blockSize',
  'layout',
  'allFullKv',
] as const satisfies readonly RunKey[];

const asMeasured = (config: RunConfig): string[] =>
  OF_A_PROFILE.filter((key) => isUnusual(key, config)).map((key) =>
    config[key] === true ? optionName(key) : `${optionName(key)} ${quote(String(config[key]))}`,
  );

const byBytes = ({ fixed_ms, ms_per_byte }: NonNullable<CostProfile['store']>['load']) => {
  return { fixed_ms, ms_per_byte };
};

/** A profile is of one link, and pulls over several would be fitted as one. Throws ConfigError. */
function checkLinks(options: ClusterOptions): void {
  const links = linksOfPairs(options).map((link) => link?.name ?? 'none');
  if (links.length > 1)
    throw new ConfigError(
      `--fleet has different links between P and D (${links.join('; ')}), and a cost profile is of one: give all pairs the same link`,
    );
}

const roundOptions = ({ rounds, seed }: RunConfig) => ({ seed, ...(rounds === null ? {} : { rounds }) });

const snake = ({ threshold, regretMs, regretShare }: ExpectedRegret) => ({
  threshold,
  regret_ms: regretMs,
  regret_share: regretShare,
});

function compare(
  cluster: Cluster,
  profile: CostProfile,
  config: RunConfig,
  progress: Progress,
  { deps, signal }: CommandContext,
): Promise<PolicyCheck> {
  const sizes = { turns: CHECK_TURNS, rounds: config.rounds ?? CHECK_ROUNDS };
  const { threshold, seed } = config;
  return timed(progress, deps, 'check', checkTurns(sizes), (onProgress) =>
    checkPolicies(cluster, { ...sizes, profile, threshold, seed, signal, onProgress }),
  );
}

/** Runs work under a progress bar with the estimated time left. */
async function timed<T>(
  progress: Progress,
  deps: CommandContext['deps'],
  label: string,
  total: number,
  work: (onProgress: (done: number, total: number, what: string) => void) => Promise<T>,
): Promise<T> {
  const left = createTimeLeft(total, deps.now);
  progress.begin(label, total);
  try {
    const result = await work((done, _, what) => progress.update(done, `${what}, ${left.after(done)}`));
    progress.end();
    progress.line(`${label}: ${plural(total, 'turn')} in ${formatSeconds(left.elapsedMs())}`);
    return result;
  } finally {
    progress.end();
  }
}
