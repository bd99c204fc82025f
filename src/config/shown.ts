/** Values from outside, as error messages show them. */

const MOST_CHARACTERS = 60;

/** As JSON, cut short; 'missing' for undefined. */
export const shownJson = (value: unknown): string => cutShort(jsonOf(value));

/** At most MOST_CHARACTERS of it. */
export const cutShort = (text: string): string =>
  text.length <= MOST_CHARACTERS ? text : `${text.slice(0, MOST_CHARACTERS - 3)}...`;

function jsonOf(value: unknown): string {
  if (value === undefined) return 'missing';
  // JSON.parse reads 1e999 as Infinity, which JSON.stringify would write as null.
  if (typeof value === 'number') return String(value);
  try {
    return JSON.stringify(value) ?? String(value);
  } catch (error) {
    // JSON.parse takes deeper nesting than JSON.stringify.
    if (error instanceof RangeError) return 'nested very deep';
    throw error;
  }
}
