/** For what the page measures without the store, where there is one: it would provide the KV that is compared. */
import type { SessionState } from '../session/types.ts';

export const WithoutStore = ({ state }: { state: SessionState }) =>
  state.store.value && <span class="tag">without the store</span>;
