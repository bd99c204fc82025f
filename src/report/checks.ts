/** What must hold of a report, each as one named check with its verdict: for JUnit, the page and the summary. */
import type { AssertionResult } from '../measure/assertions.ts';
import type { Integrity, Report } from '../measure/report.ts';
import type { AnyReport } from '../measure/report-kinds.ts';

export interface Check {
  group: 'agreement' | 'integrity' | 'assertions';
  name: string;
  passed: boolean;
  /** One sentence: what was found. */
  message: string;
  /** Seconds that the checked work took; null where none belongs to it. */
  seconds: number | null;
}

/** The report's own checks first, then what the user asked for. */
export function checksOf(report: AnyReport, assertions: readonly AssertionResult[]): Check[] {
  return [
    ...runChecks(report),
    ...integrityChecks(report.integrity),
    ...assertions.map(
      ({ text, passed, found }): Check => ({
        group: 'assertions',
        name: text,
        passed,
        message: found,
        seconds: null,
      }),
    ),
  ];
}

function runChecks({ comparison, runs }: Report): Check[] {
  const seconds = runs.reduce((sum, { summary }) => sum + summary.wall_ms, 0) / 1000;
  const compiled = runs.reduce((sum, { summary }) => sum + summary.first_use_compilations, 0);
  const place = comparison?.first_disagreement;
  const where = place
    ? `${place.mode} parts from ${place.reference} at conversation ${place.conversation_id}, turn ${place.turn}, output token ${place.token_index + 1}`
    : null;
  const agreement: Check[] = comparison
    ? [
        {
          group: 'agreement',
          name: 'every mode gives the same tokens',
          passed: comparison.tokens_identical,
          message: comparison.tokens_identical ? `${comparison.compared_tokens} tokens compared` : where!,
          seconds,
        },
        {
          group: 'agreement',
          name: 'every mode gives the same logits, bit for bit',
          passed: comparison.logits_identical,
          message: comparison.logits_identical ? `${comparison.compared_tokens} digests compared` : where!,
          seconds: null,
        },
      ]
    : [];
  return [
    ...agreement,
    {
      group: 'integrity',
      name: 'nothing was compiled while it was timed',
      passed: compiled === 0,
      message: `${compiled} pipelines compiled after the warm-up`,
      seconds: null,
    },
  ];
}

function integrityChecks({ leftover_blocks, problem }: Integrity): Check[] {
  return [
    {
      group: 'integrity',
      name: 'every block is accounted for',
      passed: problem === null,
      message: problem ?? 'on P and on D',
      seconds: null,
    },
    {
      group: 'integrity',
      name: 'no block is left in use',
      passed: leftover_blocks === 0,
      message: `${leftover_blocks} blocks in use once all conversations had ended`,
      seconds: null,
    },
  ];
}
