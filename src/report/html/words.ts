/** Renders text pieces: tables, facts, key figures. */
import {
  type Cell,
  type Column,
  cellText,
  type FactsPiece,
  type FiguresPiece,
  type TablePiece,
} from '../document.ts';
import { html, type Markup, nothing } from './markup.ts';

export function table({ title, quiet, columns, rows, note, folded }: TablePiece): Markup {
  const body = html`<div class="scroll" tabindex="0" role="region" aria-label="${title}"><table><caption${quiet ? html` class="quiet"` : nothing}><span>${title}</span></caption><thead>${groupRow(columns)}<tr>${columns.map((column) => html`<th scope="col"${side(column)}>${column.head}</th>`)}</tr></thead><tbody>${rows.map((row) => html`<tr>${row.map((cell, i) => tableCell(cell, columns[i]!, i))}</tr>`)}</tbody></table></div>${note ? html`<p class="note">${note}</p>` : nothing}`;
  return folded ? fold(title, body) : body;
}

const fold = (title: string, body: Markup): Markup =>
  html`<details><summary>${title}</summary>${body}</details>`;

const side = ({ align }: Column): Markup => (align === 'left' ? html` class="left"` : nothing);

function groupRow(columns: readonly Column[]): Markup {
  if (columns.every(({ group }) => group === undefined)) return nothing;
  const groups: { label: string; size: number }[] = [];
  for (const { group = '' } of columns) {
    const last = groups.at(-1);
    if (last && last.label === group) last.size++;
    else groups.push({ label: group, size: 1 });
  }
  return html`<tr class="groups">${groups.map(({ label, size }) => (label === '' ? html`<td colspan="${size}"></td>` : html`<th scope="colgroup" colspan="${size}">${label}</th>`))}</tr>`;
}

function tableCell(cell: Cell, column: Column, index: number): Markup {
  const classes = [
    ...(column.align === 'left' ? ['left'] : []),
    ...(typeof cell === 'object' && cell.tone && cell.tone !== 'plain' ? [cell.tone] : []),
    ...(typeof cell === 'object' && cell.strong ? ['strong'] : []),
  ];
  const attribute = classes.length > 0 ? html` class="${classes.join(' ')}"` : nothing;
  return index === 0
    ? html`<th scope="row"${attribute}>${cellText(cell)}</th>`
    : html`<td${attribute}>${cellText(cell)}</td>`;
}

export const figures = ({ figures }: FiguresPiece): Markup =>
  html`<ul class="figures">${figures.map(({ label, value, note, tone }) => html`<li><span class="label">${label}</span><span class="value ${tone ?? 'plain'}">${value}</span><span class="muted">${note}</span></li>`)}</ul>`;

export function facts({ title, facts, folded }: FactsPiece): Markup {
  const body = html`<dl>${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
  return folded ? fold(title, body) : html`<h3>${title}</h3>${body}`;
}
