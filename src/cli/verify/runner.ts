/** Runs checks one after the other and keeps every verdict: a check that throws has failed, and the next one runs. */
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
  /** null: this build has none, which fails. */
  provider: CheckProvider | null;
  /** Why the group is not asked for; null when it is. */
  skip: string | null;
}

export interface RunnerHooks {
  now(): number;
  signal: AbortSignal;
  started(check: Check, index: number, total: number): void;
  say(what: string): void;
  ended(verdict: Verdict): void;
}

/** Throws only when the signal aborts. */
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
  for (const { group, provider, skip } of plans) {
    const whole = { group, name: CHECK_GROUPS[group], ms: 0 };
    if (skip !== null) {
      record({ ...whole, status: 'skipped', detail: skip });
      continue;
    }
    if (!provider) {
      record({ ...whole, status: 'failed', detail: 'this build has no such checks: nothing was shown' });
      continue;
    }
    let checks: readonly Check[];
    try {
      checks = await provider(environment);
    } catch (error) {
      record({ ...whole, status: 'failed', detail: messageOf(error) });
      continue;
    }
    if (checks.length === 0) record({ ...whole, status: 'failed', detail: 'there was nothing to check' });
    for (const [index, check] of checks.entries()) {
      hooks.signal.throwIfAborted();
      hooks.started(check, index, checks.length);
      record(await runCheck(check, hooks));
    }
  }
  return verdicts;
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

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
