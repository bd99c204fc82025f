/** `kvferry doctor`: available adapters, whether engines start on the chosen one, copy rates, and advice. */
import pc from 'picocolors';
import type { RunConfig } from '../../config/run.ts';
import { KvferryError } from '../../errors.ts';
import { clusterOptions } from '../../fleet/from-config.ts';
import type { ClusterInfo } from '../../fleet/types.ts';
import { type CommandContext, EXIT, type ExitCode } from '../deps.ts';
import { advise, type DoctorFindings, doctorLines } from '../doctor/doctor-output.ts';
import type { CopyRateFinding } from '../doctor/doctor-types.ts';
import type { CommandSpec } from '../options/arguments.ts';
import { textOutput, writeJson } from '../output/json-option.ts';
import { createProgress, type Progress } from '../output/progress.ts';
import { tellStart } from '../start-cluster.ts';

export const doctorSpec: CommandSpec = {
  usage: 'doctor',
  run: doctor,
  description:
    'Show adapters, features, limits, kernels, copy rates and memory, and what to do if something is missing.',
  groups: ['machine', 'fleet', 'general'],
  examples: ['kvferry doctor', 'kvferry doctor --adapter swiftshader'],
};

async function doctor(config: RunConfig, context: CommandContext): Promise<ExitCode> {
  const { deps } = context;
  const progress = createProgress(deps);
  progress.line('probing adapters, each driver in its own process');
  const adapters = await deps.doctor.adapters();
  context.signal.throwIfAborted();
  const engine = await tryEngines(config, progress, context);
  const findings: DoctorFindings = {
    version: deps.version,
    choice: config.adapter,
    model: config.model,
    adapters,
    backend: deps.doctor.backend,
    nvidia: deps.doctor.nvidia(),
    ...engine,
  };
  const advice = advise(findings);
  const out = textOutput(config, deps);
  for (const line of doctorLines(findings, advice, pc.createColors(deps.color))) out.write(`${line}\n`);
  const { error, ...rest } = findings;
  await writeJson({ ...rest, error: error?.message ?? null, advice }, config, deps);
  return findings.info === null ? EXIT.failed : EXIT.good;
}

interface EngineFindings {
  info: ClusterInfo | null;
  copyRates: readonly CopyRateFinding[] | null;
  error: Error | null;
}

/** An engine that does not start is a finding, not a failure of doctor. Throws on invalid settings. */
async function tryEngines(
  config: RunConfig,
  progress: Progress,
  { deps, signal }: CommandContext,
): Promise<EngineFindings> {
  try {
    const architecture = await deps.backend.architecture(config.model);
    const { name, software } = await deps.backend.useAdapter(config.adapter);
    const options = clusterOptions(config, architecture, software);
    await tellStart(options, name, progress, deps);
    const cluster = await deps.backend.startCluster(options);
    try {
      signal.throwIfAborted();
      return { info: cluster.info, copyRates: await deps.doctor.copyRates(cluster), error: null };
    } finally {
      await cluster.close();
    }
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof KvferryError) || error.code === 'config' || error.code === 'model') throw error;
    return { info: null, copyRates: null, error };
  }
}
