/**
 * Of what broke an episode the fewest that still do: one after the other is left out, and stays out where it breaks
 * without. At least one stays. `breaks`: whether the episode breaks again with these alone.
 */
export async function fewest<T>(
  all: readonly T[],
  breaks: (some: readonly T[]) => Promise<boolean>,
): Promise<T[]> {
  let left = [...all];
  for (const one of all) {
    const without = left.filter((other) => other !== one);
    if (without.length > 0 && (await breaks(without))) left = without;
  }
  return left;
}
