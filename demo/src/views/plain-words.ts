/** What engines say, for readers who know a P and a D, and no ids. No DOM. */

const ENGINE = /\b(prefill|decode)-(\d+)(?:\.\d+)?\b/g;
/** 'chat-1#2.33-d-' and 32 hex digits: a request; without what follows the turn's number, a turn. */
const REQUEST = /'?\b[\w-]+#(\d+)\.\d+(?:-(?:p|d|again\d+))*(?:-[0-9a-f]{32})?'?/g;

const BELOW = /^(\d+) < threshold (\d+)$/;

/** Engines by letter (with a number where there are several), requests by their turn. */
export function plainly(text: string): string {
  return text
    .replace(BELOW, 'too little to be worth a trip: $1 tokens, and the threshold is $2')
    .replace(REQUEST, (_, turn: string) => `turn ${turn}`)
    .replace(
      ENGINE,
      (_, role: string, place: string) => `${role === 'prefill' ? 'P' : 'D'}${place === '0' ? '' : place}`,
    )
    .replace(/'([PD]\d*)'/g, '$1');
}
