/** `kvferry calibrate`: what pulling and prefilling cost here, the threshold that follows, and a profile for the cost-aware policy. */
import type { CostProfile } from '../../config/cost-profile.ts';
import type { RunConfig } from '../../config/run.ts';
import { clusterOptions } from '../../fleet/from-config.ts';
import type { Cluster } from '../../fleet/types.ts';
import { calibrate, calibrationTurns } from '../../lab/calibrate.ts';
import { type ExpectedRegret, expectedRegret } from '../../lab/fit-costs.ts';
import { checkPolicies, checkTurns, type PolicyCheck } from '../../lab/policy-check.ts';
import type { Asked, CommandSpec } from '../arguments.ts';
import { calibrationDocument } from '../calibrate-document.ts';
import { calibrationLines } from '../calibrate-output.ts';
import { type CommandContext, EXIT, type ExitCode } from '../deps.ts';
import { formatSeconds, plural } from '../format.ts';
import { textOutput, writeJson } from '../json-option.ts';
import { checkFiles, writePages } from '../outputs.ts';
import { createProgress, type Progress } from '../progress.ts';
import { styleOf } from '../table.ts';
import { createTimeLeft } from '../time-left.ts';

export const calibrateSpec: CommandSpec = {
  usage: 'calibrate [file]',
  run: calibrateCommand,
  description:
    'Measure what a pull and what a prefill cost on this machine, model and link; recommend a kv_recompute_threshold; write the profile that --pull-policy cost-aware reads.',
  groups: ['calibration', 'measuring', 'machine', 'cluster', 'store', 'pages', 'general'],
  // Not what the shipped conversation is run with.
  defaults: () => ({ threshold: 64 }),
  examples: [
    'kvferry calibrate costs.json --link 10e6,40ms',
    'kvferry calibrate --link 10e6,40ms --check --html costs.html',
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
  { args }: Asked,
): Promise<ExitCode> {
  const [file] = args;
  if (file !== undefined) await deps.checkWritable(file);
  await checkFiles(config, deps);
  const architecture = await deps.backend.architecture(config.model);
  const adapter = await deps.backend.useAdapter(config.adapter);
  const options = {
    ...clusterOptions(config, architecture, adapter.software),
    mode: 'bidirectional' as const,
  };
  const progress = createProgress(deps);
  progress.line(`starting P and D with ${config.model} on ${adapter.name}`);
  const cluster = await deps.backend.startCluster(options);
  try {
    const profile = await timed(
      progress,
      deps,
      'calibrate',
      calibrationTurns(cluster, given(config)),
      (onProgress) =>
        calibrate(cluster, {
          ...given(config),
          version: deps.version,
          date: deps.today(),
          signal,
          onProgress,
        }),
    );
    const check = config.check ? await compare(cluster, profile, config, progress, { deps, signal }) : null;
    await cluster.checkIntegrity();
    const { least_tokens, most_tokens } = profile.fit;
    const thresholds = [...new Set([profile.recommended_threshold, 64, 0, null])];
    const regret = expectedRegret(profile, thresholds, least_tokens, most_tokens);
    const tables = textOutput(config, deps);
    tables.write(`${calibrationLines(profile, regret, check, styleOf(deps.color)).join('\n')}\n`);
    if (file !== undefined) {
      await deps.writeTextFile(file, `${JSON.stringify(profile, null, 2)}\n`);
      tables.write(`\nwrote ${file}: kvferry run --pull-policy cost-aware --cost-profile ${file}\n`);
    }
    const report: CalibrationReport = { profile, expected_regret: regret.map(snake), check };
    await writeJson(report, config, deps);
    await writePages(calibrationDocument(profile, regret, check), config, deps);
    return EXIT.good;
  } finally {
    progress.end();
    await cluster.close();
  }
}

const given = ({ rounds, seed }: RunConfig) => ({ seed, ...(rounds === null ? {} : { rounds }) });

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

/** A stretch of work under a bar that says how long the rest will take. */
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
