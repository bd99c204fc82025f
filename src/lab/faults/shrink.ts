/**
 * Reduces the faults that broke an episode: omits one after the other, and drops it if the episode still breaks without it.
 * At least one remains. `breaks`: whether the episode breaks again with only these faults.
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
