/**
 * Renders a report as one self-contained page: no scripts, no network, and a CSP that allows its style by hash. All report
 * texts are escaped.
 */
import { sha256 } from '@noble/hashes/sha2.js';
import type { Piece, ReportDocument, Section } from '../document.ts';
import { curve } from './curve.ts';
import { distribution } from './distribution.ts';
import { html, Markup, nothing } from './markup.ts';
import { stages, waterfall } from './stages.ts';
import { STYLE } from './style.ts';
import { timeline } from './timeline.ts';
import { facts, figures, table } from './words.ts';

export function renderHtml(document: ReportDocument): string {
  const { command, headline, subtitle, verdicts, sections, footer } = document;
  const page = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'sha256-${styleHash()}'">
<meta name="color-scheme" content="light dark">
<title>${`${command}: ${headline}`}</title>
<style>${new Markup(STYLE)}</style>
</head>
<body>
<main>
<header>
<p class="command">${command}</p>
<h1>${headline}</h1>
<p class="subtitle">${subtitle}</p>
<ul class="verdicts">${verdicts.map(({ tone, text }) => html`<li class="${tone}">${text}</li>`)}</ul>
</header>
${sections.map(section)}
<footer>${footer}</footer>
</main>
</body>
</html>
`;
  return page.text;
}

const section = ({ title, intro, pieces }: Section, index = 0): Markup =>
  html`<section aria-labelledby="s${index}"><h2 id="s${index}">${title}</h2>${intro ? html`<p class="intro">${intro}</p>` : nothing}${pieces.map(piece)}</section>
`;

function piece(piece: Piece): Markup {
  switch (piece.kind) {
    case 'table':
      return table(piece);
    case 'figures':
      return figures(piece);
    case 'facts':
      return facts(piece);
    case 'text':
      return html`<p class="${piece.tone ?? 'plain'}">${piece.text}</p>`;
    case 'command':
      return html`<pre class="scroll" tabindex="0" role="region" aria-label="A command"><code>${piece.text}</code></pre>`;
    case 'distribution':
      return figure(piece.title, distribution(piece), piece.note);
    case 'stages':
      return figure(piece.title, stages(piece), piece.note);
    case 'waterfall':
      return figure(piece.title, waterfall(piece), piece.note);
    case 'curve':
      return figure(piece.title, curve(piece), piece.note);
    case 'timeline':
      return figure(piece.title, timeline(piece), piece.note);
  }
}

const figure = (title: string, drawing: Markup, note: string | undefined): Markup =>
  html`<figure><figcaption>${title}</figcaption>${drawing}${note ? html`<p class="note">${note}</p>` : nothing}</figure>`;

function styleHash(): string {
  const digest = sha256(new TextEncoder().encode(STYLE));
  return btoa(String.fromCharCode(...digest));
}
