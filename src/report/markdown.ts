/**
 * Renders a report as GitHub-flavoured Markdown, for example for a CI step's summary. Charts become tables; long tables
 * are folded.
 */
import { formatChangeMs, formatMs } from '../measure/format.ts';
import { quantile } from '../measure/statistics.ts';
import { sum } from '../sum.ts';
import {
  type Cell,
  type CurvePiece,
  cellText,
  type DistributionPiece,
  evenly,
  type Piece,
  type ReportDocument,
  type StagesPiece,
  type TablePiece,
  type WaterfallPiece,
} from './document.ts';

export function renderMarkdown({
  command,
  headline,
  subtitle,
  verdicts,
  sections,
  footer,
}: ReportDocument): string {
  const marks = { good: '✅', bad: '❌', plain: 'ℹ️' } as const;
  const lines = [
    `## ${escapeText(`${command}: ${headline}`)}`,
    '',
    escapeText(subtitle),
    '',
    ...verdicts.map(({ tone, text }) => `- ${marks[tone]} ${escapeText(text)}`),
    '',
    ...sections.flatMap(({ title, intro, pieces }) => [
      `### ${escapeText(title)}`,
      '',
      ...(intro ? [escapeText(intro), ''] : []),
      ...pieces.flatMap((piece) => [...renderPiece(piece), '']),
    ]),
    `<sub>${escapeText(footer)}</sub>`,
    '',
  ];
  return lines.join('\n');
}

function renderPiece(piece: Piece): string[] {
  switch (piece.kind) {
    case 'table':
      return table(piece);
    case 'text':
      return [escapeText(piece.text)];
    case 'command':
      return ['```', piece.text, '```'];
    case 'figures':
      return rows(
        ['', '', ''],
        piece.figures.map(({ label, value, note }) => [label, { text: value, strong: true }, note]),
        [true, false, true],
      );
    case 'facts':
      return fold(
        piece.title,
        rows(
          ['', ''],
          piece.facts.map(([name, value]) => [name, value]),
          [true, true],
        ),
      );
    case 'distribution':
      return distribution(piece);
    case 'stages':
      return stages(piece);
    case 'waterfall':
      return waterfall(piece);
    case 'curve':
      return curve(piece);
    case 'timeline':
      return [
        `*${escapeText(piece.title)}: ${formatMs(piece.endMs)} ms; see the HTML report for the drawing.*`,
      ];
  }
}

function table({ title, quiet, columns, rows: cells, note, folded }: TablePiece): string[] {
  const heads = columns.map(({ head, group }) => (group ? `${group}: ${head}` : head));
  const lines = [
    ...rows(
      heads,
      cells,
      columns.map(({ align }) => align === 'left'),
    ),
    ...(note ? ['', escapeText(note)] : []),
  ];
  return folded ? fold(title, lines) : [...(quiet ? [] : [`**${escapeText(title)}**`, '']), ...lines];
}

const fold = (title: string, lines: readonly string[]): string[] => [
  `<details><summary>${escapeText(title)}</summary>`,
  '',
  ...lines,
  '',
  '</details>',
];

/** `left`: which columns are left-aligned. */
function rows(
  heads: readonly string[],
  cells: readonly (readonly Cell[])[],
  left: readonly boolean[],
): string[] {
  const line = (texts: readonly string[]): string => `| ${texts.join(' | ')} |`;
  const shown = (cell: Cell): string => {
    const text = escapeText(cellText(cell));
    return typeof cell === 'object' && cell.strong && text !== '' ? `**${text}**` : text;
  };
  return [
    line(heads.map(escapeText)),
    line(left.map((isLeft) => (isLeft ? ':-' : '-:'))),
    ...cells.map((row) => line(row.map(shown))),
  ];
}

const QUANTILES = [
  ['min', 0],
  ['25%', 0.25],
  ['median', 0.5],
  ['75%', 0.75],
  ['90%', 0.9],
  ['max', 1],
] as const;

function distribution({ title, unit, series }: DistributionPiece): string[] {
  const drawn = series.filter(({ values }) => values.length > 0);
  return [
    `**${escapeText(title)}** (${escapeText(unit)})`,
    '',
    ...rows(
      ['', 'samples', ...QUANTILES.map(([name]) => name)],
      drawn.map(({ name, values }) => [
        name,
        String(values.length),
        ...QUANTILES.map(([, q]) => formatMs(quantile(values, q))),
      ]),
      [true, ...QUANTILES.map(() => false), false],
    ),
  ];
}

function stages({ title, unit, parts, bars }: StagesPiece): string[] {
  const used = parts.filter(({ key }) => bars.some(({ values }) => (values[key] ?? 0) >= 0.005));
  return [
    `**${escapeText(title)}** (${escapeText(unit)})`,
    '',
    ...rows(
      ['', ...used.map(({ label }) => label), 'sum'],
      bars.map(({ name, values }) => [
        name,
        ...used.map(({ key }) => formatMs(values[key] ?? null)),
        { text: formatMs(sum(Object.values(values))), strong: true },
      ]),
      [true, ...used.map(() => false), false],
    ),
  ];
}

function waterfall({ title, unit, from, to, steps }: WaterfallPiece): string[] {
  return [
    `**${escapeText(title)}** (${escapeText(unit)})`,
    '',
    ...rows(
      ['', ''],
      [
        [
          { text: from.name, strong: true },
          { text: formatMs(from.value), strong: true },
        ],
        ...steps.map(({ label, change }) => [label, formatChangeMs(change)]),
        [
          { text: to.name, strong: true },
          { text: formatMs(to.value), strong: true },
        ],
      ],
      [true, false],
    ),
  ];
}

const MOST_POINTS = 24;

function curve({ title, x, y, series, marks = [] }: CurvePiece): string[] {
  const places = [...new Set(series.flatMap(({ points }) => points.map((point) => point.x)))].toSorted(
    (a, b) => a - b,
  );
  const lines = rows(
    [x.label, ...series.map(({ name }) => name)],
    evenly(places, MOST_POINTS).map((place) => [
      String(place),
      // A step has two points at one x: use the later value.
      ...series.map(({ points }) => formatMs(points.findLast((point) => point.x === place)?.y ?? null)),
    ]),
    [false, ...series.map(() => false)],
  );
  return [...fold(`${title} (${y.label})`, lines), ...marks.map(({ label }) => `\n${escapeText(label)}`)];
}

/** Escapes Markdown and HTML syntax, and joins lines so that a cell stays on one line. */
const escapeText = (text: string): string =>
  text
    .replace(/\s+/g, ' ')
    .replace(/[\\`*_[\]|#~@]/g, (character) => `\\${character}`)
    // Last: a number sign escaped within an entity would end it.
    .replace(/[&<>]/g, (character) => `&#${character.charCodeAt(0)};`);
