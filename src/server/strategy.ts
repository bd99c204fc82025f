/** AIBrix's headers of routing: by which policy a request asks to be routed, and to whom it went. */
import type { Context } from 'hono';
import { routingProblem } from '../config/routing.ts';
import { HttpError } from './http-error.ts';

const HEADER = 'routing-strategy';

/** AIBrix's names of what has another name here. */
const ALIASES: Readonly<Record<string, string>> = { pd: 'aibrix-pd' };

/** Of a mix each policy's; null: the header is not there. Throws HttpError 400, as AIBrix's gateway answers. */
export function strategyOf(c: Context): string | null {
  const given = c.req.header(HEADER);
  if (!given) return null;
  const name = given
    .split(',')
    .map((part) => {
      const [policy = '', ...weight] = part.trim().split(':');
      return [ALIASES[policy] ?? policy, ...weight].join(':');
    })
    .join(',');
  const problem = name.length > 256 ? 'at most 256 characters' : routingProblem(name);
  if (problem !== null)
    throw new HttpError(400, `the header ${HEADER} is '${given.slice(0, 100)}': wanted ${problem}`, HEADER);
  return name;
}

/** Who serves a request: known once its first token is. */
export class Targets {
  #way: { prefill: string | null; decode: string } | null = null;

  readonly take = (way: { prefill: string | null; decode: string }): void => {
    this.#way = way;
  };

  /** `target-pod`: who answers; `prefill-target-pod`: who prefilled, where that was another. */
  tell(headers: Headers): void {
    if (!this.#way) return;
    const { prefill, decode } = this.#way;
    headers.set('target-pod', decode);
    if (prefill !== null) headers.set('prefill-target-pod', prefill);
  }
}
