/** A report's checks, each with a name and a verdict, for JUnit, HTML and Markdown. */

import { plural } from '../measure/format.ts';
import type { AssertionResult } from '../measure/judging/assertions.ts';
import { type BenchReport, labelIn } from '../measure/schemas/bench-report.ts';
import type { Integrity, Report } from '../measure/schemas/report.ts';
import type { AnyReport } from '../measure/schemas/report-kinds.ts';
import { sumOf } from '../sum.ts';

export interface Check {
  group: 'agreement' | 'integrity' | 'assertions';
  name: string;
  passed: boolean;
  /** The finding, in one sentence. */
  message: string;
  /** Seconds that the checked work took; null if not applicable. */
  seconds: number | null;
}

/** The report's own checks, then the user's assertions. */
export function checksOf(report: AnyReport, assertions: readonly AssertionResult[]): Check[] {
  return [...ownChecks(report), ...assertionChecks(assertions)];
}

export const assertionChecks = (assertions: readonly AssertionResult[]): Check[] =>
  assertions.map(({ text, passed, found }) => ({
    group: 'assertions',
    name: text,
    passed,
    message: found,
    seconds: null,
  }));

/** Whether the report's own checks pass, regardless of assertions. Decides the exit code of the measuring commands. */
export const ownChecksPass = (report: AnyReport): boolean => ownChecks(report).every(({ passed }) => passed);

function ownChecks(report: AnyReport): Check[] {
  switch (report.kind) {
    case 'run':
      return [...runChecks(report), ...integrityChecks(report.integrity)];
    case 'bench':
      return [...benchChecks(report), ...(report.integrity ? integrityChecks(report.integrity) : [])];
    case 'sweep':
      return [
        check(
          'integrity',
          'the sweep finished',
          report.complete,
          report.complete ? 'all points' : 'interrupted',
        ),
      ];
  }
}

function runChecks({ comparison, runs, windows }: Report): Check[] {
  const seconds = sumOf(runs, ({ summary }) => summary.wall_ms) / 1000;
  const compiled = sumOf(runs, ({ summary }) => summary.first_use_compilations);
  const place = comparison?.first_disagreement;
  const where = place
    ? `${place.mode} differs from ${place.reference} at conversation ${place.conversation_id}, turn ${place.turn}, output token ${place.token_index + 1}`
    : null;
  const agreement: Check[] = comparison
    ? [
        {
          group: 'agreement',
          name: 'every mode gives the same tokens',
          passed: comparison.tokens_identical,
          message: comparison.tokens_identical
            ? `${plural(comparison.compared_tokens, 'token')} compared`
            : where!,
          seconds,
        },
        {
          group: 'agreement',
          name: 'every mode gives the same logits, bit for bit',
          passed: comparison.logits_identical,
          message: comparison.logits_identical
            ? `${plural(comparison.compared_tokens, 'digest')} compared`
            : where!,
          seconds: null,
        },
      ]
    : [];
  const windowsAgree = windows
    ? [
        check(
          'agreement',
          'sliding windows give the same as keeping all KV, bit for bit',
          windows.logits_identical,
          `${windows.mode} ran both ways`,
        ),
      ]
    : [];
  return [
    ...agreement,
    ...windowsAgree,
    check(
      'integrity',
      COMPILED,
      compiled === 0,
      `${plural(compiled, 'pipeline')} compiled after the warm-up`,
    ),
  ];
}

function benchChecks({ experiments, complete, incomplete_reason }: BenchReport): Check[] {
  const all = Object.values(experiments);
  const agreement = all.flatMap(({ title, comparison, modes }): Check[] => {
    if (!comparison) return [];
    const place = comparison.first_difference;
    const runtime = sumOf(Object.values(modes), ({ runtime_ms }) => runtime_ms);
    return [
      {
        group: 'agreement',
        name: `${title}: every mode gives the same tokens`,
        passed: comparison.tokens_identical,
        message: place
          ? `${labelIn(modes, place.mode)} differs in round ${place.round}, conversation ${place.conversation_id}, turn ${place.turn}, output token ${place.token_index + 1}`
          : `${plural(comparison.requests, 'request')} compared`,
        seconds: runtime / 1000,
      },
    ];
  });
  const modes = all.flatMap((experiment) => Object.values(experiment.modes));
  const sum = (value: (mode: (typeof modes)[number]) => number): number => sumOf(modes, value);
  const audited = sumOf(all, ({ audit }) => audit?.failed_requests ?? 0);
  const failed = audited + sum(({ failed_requests }) => failed_requests);
  const compiled = sum(({ first_use_compilations }) => first_use_compilations ?? 0);
  // A server does not report it.
  const reported = modes.some(({ first_use_compilations }) => first_use_compilations !== null);
  return [
    ...agreement,
    check('integrity', 'the benchmark finished', complete, incomplete_reason ?? 'all rounds'),
    check(
      'integrity',
      'every request was answered',
      failed === 0 && modes.length > 0,
      modes.length > 0 ? `${plural(failed, 'request')} failed` : 'no request was answered',
    ),
    ...(reported
      ? [
          check(
            'integrity',
            COMPILED,
            compiled === 0,
            `${plural(compiled, 'pipeline')} compiled after the warm-up`,
          ),
        ]
      : []),
  ];
}

export const ACCOUNTED = 'every block is accounted for';
const COMPILED = 'nothing was compiled during timing';

const check = (group: Check['group'], name: string, passed: boolean, message: string): Check => ({
  group,
  name,
  passed,
  message,
  seconds: null,
});

function integrityChecks({ leftover_blocks, problem }: Integrity): Check[] {
  return [
    check('integrity', ACCOUNTED, problem === null, problem ?? 'on P and on D'),
    check(
      'integrity',
      'no block is left in use',
      leftover_blocks === 0,
      `${plural(leftover_blocks, 'block')} in use after all conversations had ended`,
    ),
  ];
}
