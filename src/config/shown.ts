/** Values from outside, as error messages show them. */

/** As JSON, cut to at most `most` characters; 'missing' for undefined. */
export function shownJson(value: unknown, most = 60): string {
  const text = jsonOf(value);
  return text.length <= most ? text : `${text.slice(0, most - 3)}...`;
}

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
