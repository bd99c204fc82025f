/** Results of `kvferry verify` as a document for --html and --markdown, and as test cases for --junit. */
import type { Verdict } from '../../lab/verify/runner.ts';
import { CHECK_GROUPS, type CheckGroup } from '../../lab/verify/types.ts';
import { formatSeconds, plural } from '../../measure/format.ts';
import { left, type ReportDocument, type Tone } from '../../report/document.ts';
import { renderJunit } from '../../report/junit.ts';

export interface VerifyAbout {
  kvferry: string;
  /** ISO 8601. */
  created: string;
  adapter: string;
  model: string;
}

const MARKS: Record<Verdict['status'], { text: string; tone: Tone }> = {
  passed: { text: '✓ passed', tone: 'good' },
  failed: { text: '✗ failed', tone: 'bad' },
  skipped: { text: 'skipped', tone: 'plain' },
};

const count = (verdicts: readonly Verdict[], wanted: Verdict['status']): number =>
  verdicts.filter(({ status }) => status === wanted).length;

export const totalOf = (verdicts: readonly Verdict[]): string =>
  `${plural(count(verdicts, 'passed'), 'check')} passed, ${count(verdicts, 'failed')} failed, ${count(verdicts, 'skipped')} skipped`;

export function verifyDocument(verdicts: readonly Verdict[], about: VerifyAbout): ReportDocument {
  const { kvferry, created, adapter, model } = about;
  const groups = (Object.keys(CHECK_GROUPS) as CheckGroup[]).filter((group) =>
    verdicts.some((verdict) => verdict.group === group),
  );
  return {
    command: 'kvferry verify',
    headline: totalOf(verdicts),
    subtitle: `${model} on ${adapter}: kernels, transfers and modes checked against a reference implementation and against each other.`,
    verdicts: verdicts
      .filter(({ status }) => status === 'failed')
      .map(({ name }) => ({ tone: 'bad', text: `failed: ${name}` })),
    sections: groups.map((group) => ({
      title: `(${group}) ${CHECK_GROUPS[group]}`,
      pieces: [
        {
          kind: 'table',
          title: CHECK_GROUPS[group],
          quiet: true,
          columns: [left('check'), left('verdict'), { head: 'time' }, left('found')],
          rows: verdicts
            .filter((verdict) => verdict.group === group)
            .map(({ name, detail, ms, status }) => [
              name,
              { ...MARKS[status], strong: status === 'failed' },
              status === 'skipped' ? '' : formatSeconds(ms),
              detail,
            ]),
        },
      ],
    })),
    footer: `kvferry ${kvferry} verify, ${created.slice(0, 19).replace('T', ' ')} UTC.`,
  };
}

export function verifyJunit(verdicts: readonly Verdict[], about: VerifyAbout): string {
  const cases = verdicts.map(({ group, name, status, detail, ms }) => ({
    group: CHECK_GROUPS[group],
    name,
    passed: status !== 'failed',
    skipped: status === 'skipped',
    message: detail,
    seconds: ms / 1000,
  }));
  return renderJunit(cases, {
    suite: 'kvferry verify',
    created: about.created,
    properties: [
      ['kvferry', about.kvferry],
      ['adapter', about.adapter],
      ['model', about.model],
    ],
  });
}
