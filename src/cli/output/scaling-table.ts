/** `--explain-scaling`: each decision of --autoscale as a small table. */

import { left, right } from '../../report/document.ts';
import { type AutoscaleDecision, reasonOf } from '../../router/autoscale/loop.ts';
import { WIDTH, wrap } from './format.ts';
import { renderTable, type TableStyle } from './table.ts';

export function scalingLines(decision: AutoscaleDecision, style: TableStyle): string[] {
  const { by, atMs, roles, target } = decision;
  const time = new Date(atMs).toISOString().slice(11, 19);
  const rows = (['prefill', 'decode'] as const).map((role) => {
    const { engines, metric, value, want } = roles[role];
    const current = value === null ? 'no data' : `${Number(value.toPrecision(4))} ${metric}`;
    return [role, String(engines), current, String(want), want === engines ? '' : '<'];
  });
  const reasons = (['prefill', 'decode'] as const).map((role) => `${role}: ${roles[role].why}`);
  return [
    ...wrap(target ? `${time} ${reasonOf(decision)}.` : `${time} ${by}: no change.`, WIDTH),
    ...renderTable([left(''), ...right('engines', 'mean metric', 'wanted'), left('')], rows, style),
    ...wrap(`${reasons.join('; ')}.`, WIDTH),
  ];
}

/** The same as fields, for JSON logs. */
export const scalingFields = ({ by, roles, target }: AutoscaleDecision): object => ({
  by,
  ...roles,
  changes: target !== null,
});
