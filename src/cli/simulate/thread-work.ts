/** The work of a simulation thread: prepares its settings once, then runs jobs. */
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

/** Never aborted: the command ends the thread instead. */
const NEVER = new AbortController().signal;
const quietly = (): void => {};
/** Nothing to refuse: the command has checked the options already. */
const NOTHING: ReadonlySet<never> = new Set();

/** Throws ConfigError. */
export const workOf = <Work extends ThreadWork>(
  work: Work,
  config: RunConfig,
  deps: CliDeps,
): Promise<Does<Work>> => MAKERS[work](config, deps);
