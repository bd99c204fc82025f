/** An HTML template tag that escapes its values; only Markup is inserted unescaped. */

export class Markup {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

type Value = string | number | Markup | null | readonly Markup[];

/** Template tag: `` html`<td>${text}</td>` ``. null renders as nothing. */
export function html(strings: TemplateStringsArray, ...values: readonly Value[]): Markup {
  return new Markup(strings.map((text, i) => (i === 0 ? text : rendered(values[i - 1]!) + text)).join(''));
}

function rendered(value: Value): string {
  if (value === null) return '';
  if (value instanceof Markup) return value.text;
  if (typeof value === 'number') return String(Math.round(value * 100) / 100);
  if (typeof value === 'string') return escapeHtml(value);
  return value.map(({ text }) => text).join('');
}

export const nothing = new Markup('');

/** Escapes for text and quoted attributes. Replaces control characters, which HTML cannot contain. */
const escapeHtml = (text: string): string =>
  text
    .replace(/(?![\t\n\r])\p{Cc}|\p{Cs}/gu, '\ufffd')
    .replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
