import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { ROUTING_NAMES } from '../src/config/routing.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const pages = [
  ...['README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'models/recall/README.md'],
  ...readdirSync(path.join(root, 'docs'))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
];

const textOf = (page: string): string => readFileSync(path.join(root, page), 'utf8');
/** The lines of a page without fenced and indented code. */
const proseOf = (page: string): string[] =>
  textOf(page)
    .replaceAll(/^```[\s\S]*?^```/gm, '')
    .split('\n')
    .filter((line) => !line.startsWith('    '));

/** The anchors that GitHub derives from headings. */
const anchorsOf = (page: string): string[] =>
  proseOf(page)
    .filter((line) => /^#+ /.test(line))
    .map((line) =>
      line
        .replace(/^#+ /, '')
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
        .replaceAll(' ', '-'),
    );

/** A bar within code separates cells too, unless it is escaped. */
const cellsOf = (row: string): number => row.replaceAll('\\|', '').split('|').length;

describe.each(pages)('%s', (page) => {
  it("has as many cells in every table row as in the table's head", () => {
    const lines = proseOf(page);
    for (const [i, line] of lines.entries()) {
      if (!line.startsWith('|')) continue;
      expect(line).toMatch(/\|$/);
      if (lines[i - 1]?.startsWith('|')) expect(cellsOf(line), line).toBe(cellsOf(lines[i - 1]!));
      else expect(lines[i + 1], `below ${line}`).toMatch(/^[|: -]+$/);
    }
  });

  it('has no broken links', () => {
    for (const [, link] of proseOf(page)
      .join('\n')
      .matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:/.test(link!)) continue;
      const [file, anchor] = link!.split('#');
      const target = file ? path.join(path.dirname(page), file) : page;
      expect(existsSync(path.join(root, target)), `${link} on ${page}`).toBe(true);
      if (anchor && target.endsWith('.md')) expect(anchorsOf(target), `${link} on ${page}`).toContain(anchor);
    }
  });
});

it.each(ROUTING_NAMES)('docs/fleet.md has a row for the routing policy %s', (name) => {
  expect(textOf('docs/fleet.md')).toContain(`\n| \`${name}\` |`);
});

const libraryErrors = new Set(textOf('src/index.ts').match(/\b[A-Z]\w+Error\b/g));

it.each([...libraryErrors])('docs/using.md names %s of the library', (name) => {
  expect(textOf('docs/using.md')).toContain(`\`${name}\``);
});
