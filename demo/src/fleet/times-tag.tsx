/** The tag next to headings that says whether times are measured here or modelled. */
import type { Fleet } from './fleet.ts';

export const TimesTag = ({ fleet }: { fleet: Fleet }) =>
  fleet.isReal.value ? <span class="measured">measured</span> : <span class="modelled">modelled</span>;
