import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('..', import.meta.url));
const pages = [
  ...['README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'models/recall/README.md'],
  ...readdirSync(path.join(root, 'docs'))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
];

const textOf = (page: string): string => readFileSync(path.join(root, page), 'utf8');
/** Without what stands between fences, or is indented as code. */
const proseOf = (page: string): string[] =>
  textOf(page)
    .replaceAll(/^```[\s\S]*?^```/gm, '')
    .split('\n')
    .filter((line) => !line.startsWith('    '));

/** As GitHub makes them of headings. */
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

/** A bar within code is a bar of the table all the same, unless it is escaped. */
const cellsOf = (row: string): number => row.replaceAll('\\|', '').split('|').length;

describe.each(pages)('%s', (page) => {
  it('has tables of whole rows, as many cells in each as in its head', () => {
    const lines = proseOf(page);
    for (const [i, line] of lines.entries()) {
      if (!line.startsWith('|')) continue;
      expect(line).toMatch(/\|$/);
      if (lines[i - 1]?.startsWith('|')) expect(cellsOf(line), line).toBe(cellsOf(lines[i - 1]!));
      else expect(lines[i + 1], `below ${line}`).toMatch(/^[|: -]+$/);
    }
  });

  it('links to what is there', () => {
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
