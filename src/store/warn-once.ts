/** Reports each kind of trouble once. */
export function warnOnce(onTrouble: (message: string) => void): (kind: string, message: string) => void {
  const warned = new Set<string>();
  return (kind, message) => {
    if (warned.has(kind)) return;
    warned.add(kind);
    onTrouble(message);
  };
}
