/** Report pages in a real browser: no errors, nothing loaded, nothing wider than the screen, accessible. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { compareWithBaseline } from '../../src/measure/judging/baseline.ts';
import type { AnyReport } from '../../src/measure/schemas/report-kinds.ts';
import { checksOf } from '../../src/report/checks.ts';
import { renderHtml } from '../../src/report/html/page.ts';
import { renderJunit } from '../../src/report/junit.ts';
import { documentOf } from '../../src/report/render.ts';
import { launchBrowser } from '../demo/browser.ts';
import { whileTesting } from '../while-testing.ts';
import { benchReport, runReport } from './reports.ts';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

const browser = whileTesting(() => launchBrowser({ webgpu: false }));

const failing = {
  text: 'runs.bidirectional.summary.a_rather_long_name_of_something > 100000000',
  passed: false,
  found: 'found 12',
};

const bench = () =>
  benchReport({
    rounds: 3,
    requests: 30,
    ttft: (mode, round, i) => (mode === 'bidirectional' ? 40 : 90) + 7 * (i % 9) + round,
  });

const reports: readonly (readonly [string, () => Promise<AnyReport>])[] = [
  ['run', () => runReport()],
  ['bench', async () => bench()],
];

const pageOf = (report: AnyReport): string =>
  renderHtml(
    documentOf(report, checksOf(report, [failing]), compareWithBaseline(report, report, 'before.json')),
  );

/** Accessibility faults that axe rates as serious or critical. */
async function seriousFaults(page: Page): Promise<string[]> {
  await page.evaluate(axe);
  const { violations } = (await page.evaluate('axe.run()')) as {
    violations: { id: string; impact: string; nodes: { html: string }[] }[];
  };
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`);
}

describe.each(reports)('the page of a %s report', (_, make) => {
  test.each([
    [1280, 'light'],
    [1280, 'dark'],
    [390, 'light'],
    [390, 'dark'],
  ] as const)(
    'fits, loads nothing and has no errors or serious accessibility faults at %i px, %s',
    async (width, colorScheme) => {
      const context = await browser().newContext({
        viewport: { width, height: 800 },
        colorScheme,
        bypassCSP: true,
      });
      try {
        const page = await context.newPage();
        const said: string[] = [];
        const asked: string[] = [];
        page.on('console', (message) => said.push(message.text()));
        page.on('pageerror', (error) => said.push(error.message));
        page.on('request', (request) => asked.push(request.url()));
        await page.setContent(pageOf(await make()));
        await page.evaluate("for (const d of document.querySelectorAll('details')) d.open = true");
        expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(width);
        expect(await page.locator('svg:visible').count()).toBeGreaterThan(2);
        expect(await seriousFaults(page)).toEqual([]);
        expect(said).toEqual([]);
        expect(asked.filter((url) => !url.startsWith('about:'))).toEqual([]);
      } finally {
        await context.close();
      }
    },
  );

  test('is styled under its own content security policy', async () => {
    const page = await browser().newPage();
    try {
      await page.setContent(pageOf(await make()));
      expect(await page.evaluate("getComputedStyle(document.querySelector('section')).borderRadius")).toBe(
        '14px',
      );
    } finally {
      await page.close();
    }
  });
});

test('long names in a legend end within their chart on a phone', async () => {
  const names = ['aibrix-pd '.repeat(7), 'short', 'c'.repeat(70)];
  const series = names.map((name) => ({ name, points: [1, 2].map((x) => ({ x, y: x })) }));
  const piece = { kind: 'curve', title: 'C', x: { label: 'x' }, y: { label: 'y' }, series } as const;
  const frame = { command: 'c', headline: 'h', subtitle: 's', verdicts: [], footer: 'f' };
  const page = await browser().newPage({ viewport: { width: 390, height: 800 } });
  try {
    await page.setContent(renderHtml({ ...frame, sections: [{ title: 't', pieces: [piece] }] }));
    const beyond = await page.evaluate(() => {
      const svg = document.querySelector('svg.narrow')!;
      const right = svg.getBoundingClientRect().right;
      const texts = [...svg.querySelectorAll('text')];
      return texts.filter((text) => text.getBoundingClientRect().right > right + 1).map((t) => t.textContent);
    });
    expect(beyond).toEqual([]);
  } finally {
    await page.close();
  }
});

test('a JUnit report is well-formed XML, whatever its texts', async () => {
  const report = await runReport();
  const odd = { text: `<a> & "b" 'c' ]]> \u0000\ud800`, passed: false, found: '<!-- x -->\n&amp;' };
  const xml = renderJunit(checksOf(report, [odd]), {
    suite: 'kvferry run',
    created: report.created,
    properties: [['p', '<"']],
  });
  const page = await browser().newPage();
  try {
    const read = await page.evaluate((text) => {
      const parsed = new DOMParser().parseFromString(text, 'application/xml');
      return {
        errors: parsed.querySelectorAll('parsererror').length,
        cases: parsed.querySelectorAll('testcase').length,
        failure: parsed.querySelector('failure')?.getAttribute('message'),
      };
    }, xml);
    expect(read).toEqual({ errors: 0, cases: 6, failure: '<!-- x -->\n&amp;' });
  } finally {
    await page.close();
  }
});
