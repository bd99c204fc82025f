/** Which modelled links a fleet's transfers take: vLLM's names for their times have no place to say so. */
import type { MetricKit } from './metric-kit.ts';

/** `links`: their names. Without any there is no such metric. */
export function linkMetrics(kit: MetricKit, links: readonly string[]): void {
  if (links.length === 0) return;
  const set = kit.gauges(
    'kvferry:modelled_link_info',
    "The fleet's modelled links, which slow transfers of KV down. The times of transfers and of whole requests include them.",
    'link',
    links,
  );
  for (const link of links) set(link, 1);
}
