/** axe-core in a page: what it calls serious or critical, as sentences. */
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
 * Of what is no fault only a place is told, and nothing is fetched: a page with a lesson takes half the time. The first words
 * that were said, those that are lit, and the first rows of a drawing's table stand for the others, which are as they are:
 * there are hundreds.
 */
const RUN = `axe.run(
  { exclude: ['.word ~ .word ~ .word:not([data-lit=true])', '.as-table-body tr ~ tr ~ tr ~ tr'] },
  { resultTypes: ['violations'], preload: false },
).then((result) => result.violations)`;

/** On its way a colour may have too little contrast; where it stays is what counts. */
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
