/** What a thread that simulates does with its jobs, once it has prepared what its settings say. */
import type { RunConfig } from '../../config/run.ts';
import { simulateTrial } from '../../simulate/plan/trial.ts';
import { simulateSeed } from '../../simulate/run.ts';
import type { CliDeps } from '../deps.ts';
import { preparePlan } from '../plan/trials.ts';
import { prepareSimulation } from './prepared.ts';
import type { ThreadJob, ThreadResult, ThreadWork } from './thread.ts';

type Does<Work extends ThreadWork> = (job: ThreadJob<Work>) => Promise<ThreadResult<Work>>;

const MAKERS: { [Work in ThreadWork]: (config: RunConfig, deps: CliDeps) => Promise<Does<Work>> } = {
  async simulate(config, deps) {
    const { planned, world } = await prepareSimulation(config, deps, NOTHING);
    return ({ arm, seed }) => simulateSeed(planned.arms[arm]!, world(NEVER, quietly), seed);
  },
  async plan(config, deps) {
    const { world } = await preparePlan(config, deps, NOTHING);
    return (trial) => simulateTrial(trial, world(NEVER, quietly));
  },
};

/** Whoever wants no more ends the thread. */
const NEVER = new AbortController().signal;
const quietly = (): void => {};
/** The command has refused what is of no use. */
const NOTHING: ReadonlySet<never> = new Set();

/** Throws ConfigError. */
export const workOf = <Work extends ThreadWork>(
  work: Work,
  config: RunConfig,
  deps: CliDeps,
): Promise<Does<Work>> => MAKERS[work](config, deps);
