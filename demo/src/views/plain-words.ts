/** What engines say, for readers who know a P and a D, and no ids. No DOM. */

const ENGINE = /\b(prefill|decode)-(\d+)(?:\.\d+)?\b/g;
/** 'chat-1#2.33-d-' and 32 hex digits: a request; without what follows the turn's number, a turn. */
const REQUEST = /'?\b[\w-]+#(\d+)\.\d+(?:-(?:p|d|again\d+))*(?:-[0-9a-f]{32})?'?/g;

/** Why nothing was pulled: what is meant, and in brackets the term for it. */
const REASONS: readonly (readonly [RegExp, string])[] = [
  [/(\d+) < threshold (\d+)/, 'too little to be worth a trip: $1 of $2 tokens (threshold)'],
  [/ \(first differing token at (\d+)\)/, '; from token $1 on D has other words (token check)'],
  [/first differing token at (\d+)/, 'from token $1 on D has other words (token check)'],
  [/the local hit of (\d+) covers it/, 'P had all $1 tokens of it already (prefix cache)'],
  [
    /cost-aware: pull ~([\d.]+) ms > recompute ~([\d.]+) ms/,
    'computing was expected to be quicker: $2 ms against $1 ms (cost-aware)',
  ],
  [
    /remote blocks ignored: bidirectional_kv_xfer is off/,
    'this mode brings nothing back (bidirectional_kv_xfer is off)',
  ],
  [
    /pull expired: request \S+ at the holder: its time to be read has passed/,
    'D had freed it: its time to keep it was over (TTL)',
  ],
  [
    /pull declined: request \S+ at the holder: its blocks were freed because the pool was full/,
    'D needed the room for others (pool full)',
  ],
];

/**
 * Engines by letter (with a number where there are several), requests by their turn, reasons in everyday words. `engineIds`: of
 * all that there were; where a role has more than one, the first has its number too, as over the blocks.
 */
export function plainly(text: string, engineIds: readonly string[] = []): string {
  const several = (role: string) => engineIds.some((id) => id.startsWith(role) && !/-0(\.|$)/.test(id));
  const numbered = (role: string, place: string) => (place === '0' && !several(role) ? '' : place);
  return REASONS.reduce((said, [told, plain]) => said.replace(told, plain), text)
    .replace(REQUEST, (_, turn: string) => `turn ${turn}`)
    .replace(
      ENGINE,
      (_, role: string, place: string) => `${role === 'prefill' ? 'P' : 'D'}${numbered(role, place)}`,
    )
    .replace(/'([PD]\d*)'/g, '$1');
}
