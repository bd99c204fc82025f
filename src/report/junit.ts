/** Renders checks as JUnit XML, in the dialect that CI systems read. */

import { sumOf } from '../sum.ts';
import type { Check } from './checks.ts';

export interface JunitOptions {
  /** e.g. 'kvferry run'. */
  suite: string;
  /** ISO 8601. */
  created: string;
  properties: readonly (readonly [name: string, value: string])[];
}

/** A check of any group. */
export type JunitCase = Omit<Check, 'group'> & { group: string; skipped?: boolean };

export function renderJunit(
  checks: readonly JunitCase[],
  { suite, created, properties }: JunitOptions,
): string {
  const groups = [...new Set(checks.map(({ group }) => group))];
  const failed = (list: readonly JunitCase[]): number => list.filter(({ passed }) => !passed).length;
  const lines = groups.flatMap((group) => {
    const cases = checks.filter((check) => check.group === group);
    const time = sumOf(cases, ({ seconds }) => seconds ?? 0);
    return [
      `  <testsuite name=${quoted(`${suite}: ${group}`)} tests="${cases.length}" failures="${failed(cases)}" errors="0" skipped="${cases.filter(({ skipped }) => skipped).length}" time="${time.toFixed(3)}" timestamp=${quoted(created.slice(0, 19))}>`,
      '    <properties>',
      ...properties.map(([name, value]) => `      <property name=${quoted(name)} value=${quoted(value)}/>`),
      '    </properties>',
      ...cases.map((check) => testCase(check, `${suite.replaceAll(' ', '.')}.${group}`)),
      '  </testsuite>',
    ];
  });
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuites name=${quoted(suite)} tests="${checks.length}" failures="${failed(checks)}" errors="0">`,
    ...lines,
    '</testsuites>',
    '',
  ].join('\n');
}

function testCase({ name, passed, skipped, message, seconds }: JunitCase, className: string): string {
  const open = `    <testcase classname=${quoted(className)} name=${quoted(name)} time="${(seconds ?? 0).toFixed(3)}"`;
  if (skipped) return `${open}>\n      <skipped message=${quoted(message)}/>\n    </testcase>`;
  if (passed) return `${open}/>`;
  return `${open}>\n      <failure message=${quoted(message)} type="failed">${escapeXml(`${name}: ${message}`)}</failure>\n    </testcase>`;
}

const quoted = (text: string): string => `"${escapeXml(text).replaceAll('\n', '&#10;')}"`;

/** Also drops what XML 1.0 cannot hold: most control characters, and halves of surrogate pairs. */
const escapeXml = (text: string): string =>
  text
    .replace(/[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, '\ufffd')
    .replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
