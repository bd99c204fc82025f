/** AIBrix's routing headers: the policy that a request asks for, and the engines that served it. */
import type { Context } from 'hono';
import { routingProblem } from '../../config/routing.ts';
import { HttpError } from '../http/http-error.ts';

const HEADER = 'routing-strategy';

/** AIBrix's policy names that differ from kvferry's. */
const ALIASES: ReadonlyMap<string, string> = new Map([['pd', 'aibrix-pd']]);

/** The requested policy or mix, in kvferry's names; null: no header. Throws HttpError 400, like AIBrix's gateway. */
export function strategyOf(c: Context): string | null {
  const header = c.req.header(HEADER);
  if (!header) return null;
  const name = header
    .split(',')
    .map((part) => {
      const [policy = '', ...weight] = part.trim().split(':');
      return [ALIASES.get(policy) ?? policy, ...weight].join(':');
    })
    .join(',');
  const problem = name.length > 256 ? 'at most 256 characters' : routingProblem(name);
  if (problem !== null)
    throw new HttpError(400, `the header ${HEADER} is '${header.slice(0, 100)}': wanted ${problem}`, HEADER);
  return name;
}

/** The engines that serve a request; known by its first token. */
export class Targets {
  #way: { prefill: string | null; decode: string } | null = null;

  readonly take = (way: { prefill: string | null; decode: string }): void => {
    this.#way = way;
  };

  /** Sets `target-pod`, the engine that answers, and `prefill-target-pod` if another engine prefilled. */
  setHeaders(headers: Headers): void {
    if (!this.#way) return;
    const { prefill, decode } = this.#way;
    headers.set('target-pod', decode);
    if (prefill !== null) headers.set('prefill-target-pod', prefill);
  }
}
