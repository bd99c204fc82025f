/** Writes a report's document as HTML and Markdown. The renderers are loaded on demand. */
import type { RunConfig } from '../../config/run.ts';
import type { ReportDocument } from '../../report/document.ts';
import type { CliDeps } from '../deps.ts';

export async function writePages(
  document: ReportDocument,
  { html, markdown }: Pick<RunConfig, 'html' | 'markdown'>,
  deps: Pick<CliDeps, 'writeTextFile'>,
): Promise<void> {
  if (html !== null) {
    const { renderHtml } = await import('../../report/html/page.ts');
    await deps.writeTextFile(html, renderHtml(document));
  }
  if (markdown !== null) {
    const { renderMarkdown } = await import('../../report/markdown.ts');
    await deps.writeTextFile(markdown, renderMarkdown(document));
  }
}
