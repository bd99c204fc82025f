/** Whether times are measured here or modelled, beside each heading that has some. */
import type { Fleet } from './fleet.ts';

export const TimesTag = ({ fleet }: { fleet: Fleet }) =>
  fleet.isReal.value ? <span class="measured">measured</span> : <span class="modelled">modelled</span>;
