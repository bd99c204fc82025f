/** What a port answered, as vLLM's port counts it (prometheus-fastapi-instrumentator), and each refusal by its code. */
import type { MetricKit } from './metric-kit.ts';

export interface Answered {
  method: string;
  /** A path that the port has; null: another. */
  path: string | null;
  status: number;
}

const METHODS: ReadonlySet<string> = new Set(['GET', 'POST', 'OPTIONS', 'HEAD', 'PUT', 'DELETE']);

/** Every series that a stranger can make is one of a few. */
export function httpMetrics(kit: MetricKit): (answered: Answered) => void {
  const requests = kit.labelled(
    'http_requests_total',
    'Total number of requests by method, status and handler.',
    {
      handler: '/health',
      method: 'GET',
      status: '2xx',
    },
  );
  const refused = kit.counters(
    'kvferry:requests_refused_total',
    'Requests that were refused or failed, by the code that their client was told (499: it had gone).',
    'code',
    ['400', '401', '403', '404', '405', '409', '413', '415', '429', '499', '500', '503'],
  );
  return ({ method, path, status }) => {
    const labels = {
      handler: path ?? 'none',
      method: METHODS.has(method) ? method : 'other',
      status: `${Math.floor(status / 100)}xx`,
    };
    requests(labels);
    if (status >= 400) refused(String(status) as '400', 1);
  };
}
