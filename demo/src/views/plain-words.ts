/** Turns engines' messages into plain words: P and D instead of ids. No DOM. */
import { isConversation } from '../session/conversation/conversation.ts';

const ENGINE = /\b(prefill|decode)-(\d+)(?:\.\d+)?\b/g;
/** A request id: 'chat-1#2.33-d-' and 32 hex digits. Without the part after '#2.33' it is a turn's id. */
const ID = String.raw`'?\b([\w-]+)#(\d+)\.\d+(?:-(?:p|d|again\d+))*(?:-[0-9a-f]{32})?'?`;
const REQUEST = new RegExp(`(?:\\brequest )?${ID}`, 'g');
/** An error about a request begins with its id. */
const SUBJECT = new RegExp(`^request ${ID}: `);

/** Why nothing was pulled: the meaning, with the technical term in brackets. */
const REASONS: readonly (readonly [RegExp, string])[] = [
  [/(\d+) < threshold (\d+)/, 'a pull of $1 tokens is below the threshold of $2'],
  [/ \(first differing token at (\d+)\)/, '; from token $1 on, D has other words (token check)'],
  [/first differing token at (\d+)/, 'from token $1 on, D has other words (token check)'],
  [/the local hit of (\d+) covers it/, 'P already had all $1 tokens (prefix cache)'],
  [
    /cost-aware: pull ~([\d.]+) ms > recompute ~([\d.]+) ms/,
    'computing was expected to be faster: $2 ms, and $1 ms for pulling (cost-aware)',
  ],
  [
    /remote blocks ignored: bidirectional_kv_xfer is off/,
    'this mode pulls nothing back (bidirectional_kv_xfer is off)',
  ],
  [
    /pull expired: request \S+ at the holder: its time to be read has passed/,
    'D had freed it after its time limit (TTL)',
  ],
  [
    /pull declined: request \S+ at the holder: its blocks were freed because the pool was full/,
    'D needed the blocks for others (pool full)',
  ],
];

/**
 * Names engines by letter (with a number if the role has several), requests by their turn, and reasons in plain words.
 * An error about a turn names no turn: it is shown with it, and the page counts failed turns, which the engines do not.
 * `engineIds`: all engines so far, including those that are gone.
 */
export function plainly(text: string, engineIds: readonly string[] = []): string {
  const several = (role: string) => engineIds.some((id) => id.startsWith(role) && !/-0(\.|$)/.test(id));
  const numbered = (role: string, place: string) => (place === '0' && !several(role) ? '' : place);
  return REASONS.reduce((said, [told, plain]) => said.replace(told, withNumbers(plain)), text)
    .replace(SUBJECT, (all, conversation: string) => (isConversation({ conversation }) ? '' : all))
    .replace(REQUEST, (_, conversation: string, turn: string) =>
      isConversation({ conversation }) ? `turn ${turn}` : 'the measurement',
    )
    .replace(
      ENGINE,
      (_, role: string, place: string) => `${role === 'prefill' ? 'P' : 'D'}${numbered(role, place)}`,
    )
    .replace(/'([PD]\d*)'/g, '$1');
}

/** Puts what was found into the places $1, $2 of a sentence. */
const withNumbers =
  (plain: string) =>
  (_: string, ...found: string[]): string =>
    plain.replace(/\$(\d)/g, (_place, i: string) => Number(found[Number(i) - 1]).toLocaleString('en-US'));
