/** Runs axe-core in a page and returns serious and critical violations as sentences. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Page } from 'playwright-core';

const source = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

interface Violation {
  id: string;
  impact: string;
  help: string;
  nodes: { html: string; failureSummary: string }[];
}

/**
 * Passing checks are not listed in detail and nothing is preloaded, which halves the time for a page with a lesson. The
 * first words of the chat, lit words and the first rows of each table stand for the hundreds of others like them.
 */
const RUN = `axe.run(
  { exclude: ['.word ~ .word ~ .word:not([data-lit=true])', '.as-table-body tr ~ tr ~ tr ~ tr'] },
  { resultTypes: ['violations'], preload: false },
).then((result) => result.violations)`;

/** Waits for colour transitions: contrast counts only when they have ended. */
const UNTIL_COLOURS_STAY = `Promise.allSettled(
  document.getAnimations().flatMap((one) => (one instanceof CSSTransition ? [one.finished] : [])),
)`;

export async function seriousFaults(page: Page): Promise<string[]> {
  await page.evaluate(source);
  await page.evaluate(`${UNTIL_COLOURS_STAY}.then(() => {})`);
  const violations = (await page.evaluate(RUN)) as Violation[];
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, help, nodes }) =>
      nodes
        .slice(0, 3)
        .map(
          (node) =>
            `${id}: ${help}: ${node.html.slice(0, 160)} (${node.failureSummary.split('\n').at(-1)?.trim()})`,
        ),
    );
}
