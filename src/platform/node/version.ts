/** As package.json's engines say. npm only warns, and a clone's program is started without npm. */
export const OLDEST_NODE = '20.19.0';

/** What to say under a Node that lacks what the program uses, or null. */
export function nodeTooOld(version: string): string | null {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const [oldestMajor = 0, oldestMinor = 0] = OLDEST_NODE.split('.').map(Number);
  if (major > oldestMajor || (major === oldestMajor && minor >= oldestMinor)) return null;
  return `this is Node ${version}, and kvferry needs Node ${OLDEST_NODE} or newer: install one, for instance from nodejs.org`;
}
