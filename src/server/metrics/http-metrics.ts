/** Counts a port's responses as vLLM's port does (prometheus-fastapi-instrumentator), and its errors by status code. */
import type { MetricKit } from './metric-kit.ts';

export interface Answered {
  method: string;
  /** The matching route's path; null: no route matches. */
  path: string | null;
  status: number;
}

const METHODS: ReadonlySet<string> = new Set(['GET', 'POST', 'OPTIONS', 'HEAD', 'PUT', 'DELETE']);

/** What probes and scrapers ask for: not counted on vLLM's port either (its excluded_handlers). */
const NOT_COUNTED: ReadonlySet<string | null> = new Set([
  '/metrics',
  '/health',
  '/load',
  '/ping',
  '/version',
  '/server_info',
]);

/** Unknown paths and methods share one label value, so that clients cannot create new series. */
export function httpMetrics(kit: MetricKit): (answered: Answered) => void {
  const requests = kit.labelled(
    'http_requests_total',
    'Total number of requests by method, status and handler.',
    {
      handler: '/v1/chat/completions',
      method: 'POST',
      status: '2xx',
    },
  );
  const refused = kit.counters(
    'kvferry:requests_refused_total',
    'Requests that were refused or failed, by status code (499: the client had disconnected).',
    'code',
    ['400', '401', '403', '404', '405', '409', '413', '415', '429', '499', '500', '503'],
  );
  return ({ method, path, status }) => {
    const labels = {
      handler: path ?? 'none',
      method: METHODS.has(method) ? method : 'other',
      status: `${Math.floor(status / 100)}xx`,
    };
    if (!NOT_COUNTED.has(path)) requests(labels);
    if (status >= 400) refused(String(status) as '400', 1);
  };
}
