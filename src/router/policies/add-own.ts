/** Makes the routing policies of a user's module known to this process. */
import { ownPolicies } from './own.ts';
import { addPolicy } from './registry.ts';

/**
 * `file`: the setting routingModule, unchecked; its policies' names can be chosen from now on, and are returned. Anything
 * but a path is left to the check of settings. Throws ConfigError.
 */
export async function addOwnPolicies(
  file: unknown,
  { importModule }: { importModule(path: string): Promise<unknown> },
): Promise<string[]> {
  if (typeof file !== 'string' || file === '') return [];
  const policies = ownPolicies(await importModule(file), file);
  for (const [name, definition] of policies) addPolicy(name, definition);
  return [...policies.keys()];
}
