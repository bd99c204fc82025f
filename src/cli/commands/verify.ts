/** `kvferry verify`: checks on this adapter that kernels, transfers and modes are correct, and that damage is detected. */
import pc from 'picocolors';
import type { RunConfig } from '../../config/run.ts';
import { ConfigError } from '../../errors.ts';
import { modeChecks } from '../../lab/verify/modes.ts';
import { negativeControls } from '../../lab/verify/negative.ts';
import { runChecks, type Verdict } from '../../lab/verify/runner.ts';
import { CHECK_GROUPS, type CheckGroup } from '../../lab/verify/types.ts';
import { formatSeconds, plural } from '../../measure/format.ts';
import type { VerifyReport } from '../../measure/schemas/verify-report.ts';
import { type CommandContext, EXIT, type ExitCode } from '../deps.ts';
import { warningOfLoss } from '../interrupted.ts';
import type { CommandInput, CommandSpec } from '../options/arguments.ts';
import { refuseUnused, unusedByVerify } from '../options/unused-options.ts';
import { WIDTH, wrap } from '../output/format.ts';
import { textOutput, writeJson } from '../output/json-option.ts';
import { checkFiles } from '../output/outputs.ts';
import { writePages } from '../output/pages.ts';
import { createProgress } from '../output/progress.ts';
import { verifyFaults } from '../verify/fault-run.ts';
import { totalOf, verifyDocument, verifyJunit } from '../verify/verify-document.ts';

export const verifySpec: CommandSpec = {
  usage: 'verify',
  run: verify,
  description:
    'Check kernels, transfers and modes against each other and against a reference implementation, and check that damaged KV is detected.',
  groups: ['verify', 'faults', 'machine', 'pages', 'junit', 'general'],
  examples: [
    'kvferry verify',
    'kvferry verify --model nano --seed 7 --markdown verify.md --junit verify.xml',
    'kvferry verify --fixture ./my-fixture',
    'kvferry verify --faults 1000 --seed 7',
    'kvferry verify --faults 1000 --fault-pairs 2',
  ],
};

async function verify(
  config: RunConfig,
  { deps, signal }: CommandContext,
  { given }: CommandInput,
): Promise<ExitCode> {
  refuseUnused(given, unusedByVerify(config));
  if (config.faults !== null) return verifyFaults(config, config.faults, { deps, signal });
  if (config.faultPicks !== null)
    throw new ConfigError('--fault-picks is given without --faults: give both, or neither');
  await checkFiles(config, deps);
  const adapter = await deps.backend.useAdapter(config.adapter);
  const progress = createProgress(deps);
  progress.line(`verifying ${config.model} on ${adapter.name}`);
  const { kernels, pulledBlocks, fixture } = deps.verify;
  const plans = [
    { group: 'a', provider: kernels, skip: null },
    { group: 'b', provider: modeChecks, skip: null },
    { group: 'c', provider: pulledBlocks, skip: null },
    { group: 'd', provider: negativeControls, skip: null },
    {
      group: 'e',
      provider: fixture,
      skip: config.fixture === null ? 'give --fixture DIR to check one' : null,
    },
  ] as const;
  let verdicts: Verdict[];
  let done = 0;
  const ended: Verdict[] = [];
  const lost = (): string => {
    const broken = ended.filter(({ status }) => status === 'failed').map(({ name }) => name);
    return `No verdict: ${plural(ended.length, 'check')} finished before the interrupt. ${broken.length === 0 ? 'None of them failed' : `FAILED: ${broken.join('; ')}`}.`;
  };
  try {
    const checking = runChecks(
      plans,
      { config, backend: deps.backend, software: adapter.software },
      {
        now: deps.now,
        signal,
        started(check, index, total) {
          if (index === 0) {
            done = 0;
            progress.begin(`(${check.group})`, total);
          }
        },
        say: (what) => progress.update(done, what),
        ended(verdict) {
          done++;
          ended.push(verdict);
          progress.update(done, verdict.name);
        },
      },
    );
    verdicts = await warningOfLoss(checking, { deps, signal }, lost);
  } finally {
    progress.end();
  }
  const failed = verdicts.filter(({ status }) => status === 'failed').length;
  const out = textOutput(config, deps);
  for (const line of lines(verdicts, deps.color)) out.write(`${line}\n`);
  const report: VerifyReport = {
    kvferry: deps.version,
    kind: 'verify',
    schema_version: 1,
    adapter: adapter.name,
    model: config.model,
    ok: failed === 0,
    checks: verdicts,
  };
  await writeJson(report, config, deps);
  const about = { kvferry: deps.version, created: deps.today(), adapter: adapter.name, model: config.model };
  await writePages(verifyDocument(verdicts, about), config, deps);
  if (config.junit !== null) await deps.writeTextFile(config.junit, verifyJunit(verdicts, about));
  return failed === 0 ? EXIT.good : EXIT.failed;
}

function lines(verdicts: readonly Verdict[], color: boolean): string[] {
  const c = pc.createColors(color);
  const marks = { passed: c.green('ok    '), failed: c.red('FAILED'), skipped: c.yellow('skip  ') };
  const out: string[] = [];
  for (const group of Object.keys(CHECK_GROUPS) as CheckGroup[]) {
    const members = verdicts.filter((verdict) => verdict.group === group);
    if (members.length === 0) continue;
    out.push('', c.bold(`(${group}) ${CHECK_GROUPS[group]}`));
    for (const { status, name, detail, ms } of members) {
      const title = name === CHECK_GROUPS[group] ? '' : `${name} (${formatSeconds(ms)})`;
      const [first, ...rest] = wrap(title || detail, WIDTH - 8);
      out.push(`${marks[status]}  ${first}`, ...rest.map((line) => `        ${line}`));
      if (title) out.push(...wrap(detail, WIDTH - 8).map((line) => c.dim(`        ${line}`)));
    }
  }
  const count = (status: Verdict['status']): number =>
    verdicts.filter((verdict) => verdict.status === status).length;
  const total = totalOf(verdicts);
  return [...out, '', count('failed') === 0 ? c.green(total) : c.red(total)];
}
