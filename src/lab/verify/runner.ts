/** Runs checks one after the other and records every verdict. A check that throws has failed; the next one still runs. */
import { ConfigError, ModelError, messageOf } from '../../errors.ts';
import {
  CHECK_GROUPS,
  type Check,
  type CheckEnvironment,
  type CheckGroup,
  type CheckProvider,
} from './types.ts';

export interface Verdict {
  group: CheckGroup;
  name: string;
  status: 'passed' | 'failed' | 'skipped';
  detail: string;
  ms: number;
}

export interface GroupPlan {
  group: CheckGroup;
  provider: CheckProvider;
  /** Why the group is skipped; null: it runs. */
  skip: string | null;
}

export interface RunnerHooks {
  now(): number;
  signal: AbortSignal;
  started(check: Check, index: number, total: number): void;
  say(what: string): void;
  ended(verdict: Verdict): void;
}

/** Throws ConfigError or ModelError, before any check runs, if the user must fix something; and the signal's reason. */
export async function runChecks(
  plans: readonly GroupPlan[],
  environment: CheckEnvironment,
  hooks: RunnerHooks,
): Promise<Verdict[]> {
  const verdicts: Verdict[] = [];
  const record = (verdict: Verdict): void => {
    verdicts.push(verdict);
    hooks.ended(verdict);
  };
  const groups: (readonly Check[] | Verdict)[] = [];
  for (const plan of plans) groups.push(await gather(plan, environment));
  for (const checks of groups) {
    if ('status' in checks) {
      record(checks);
      continue;
    }
    for (const [index, check] of checks.entries()) {
      hooks.signal.throwIfAborted();
      hooks.started(check, index, checks.length);
      record(await runCheck(check, hooks));
    }
  }
  return verdicts;
}

/** A group's checks, or the verdict on a group that has none. */
async function gather(
  { group, provider, skip }: GroupPlan,
  environment: CheckEnvironment,
): Promise<readonly Check[] | Verdict> {
  const groupCheck = { group, name: CHECK_GROUPS[group], ms: 0 };
  if (skip !== null) return { ...groupCheck, status: 'skipped', detail: skip };
  try {
    const checks = await provider(environment);
    // Unchecked does not mean correct.
    return checks.length > 0
      ? checks
      : { ...groupCheck, status: 'failed', detail: 'there was nothing to check' };
  } catch (error) {
    if (error instanceof ConfigError || error instanceof ModelError) throw error;
    return { ...groupCheck, status: 'failed', detail: messageOf(error) };
  }
}

async function runCheck(check: Check, hooks: RunnerHooks): Promise<Verdict> {
  const begun = hooks.now();
  const verdict = (status: Verdict['status'], detail: string): Verdict => ({
    group: check.group,
    name: check.name,
    status,
    detail,
    ms: hooks.now() - begun,
  });
  try {
    const { ok, detail } = await check.run(hooks.say, hooks.signal);
    return verdict(ok ? 'passed' : 'failed', detail);
  } catch (error) {
    hooks.signal.throwIfAborted();
    return verdict('failed', messageOf(error));
  }
}
