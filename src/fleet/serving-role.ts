/** What an engine serves as. Engines that do both have the role decode, and reports count them separately. */
export const SERVING_ROLES = ['prefill', 'decode', 'both'] as const;

export type ServingRole = (typeof SERVING_ROLES)[number];

export const servingRole = ({
  role,
  combined,
}: {
  role: 'prefill' | 'decode';
  combined: boolean;
}): ServingRole => (combined ? 'both' : role);
