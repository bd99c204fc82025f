/** Quoting and layout of POSIX shell commands. */

export function quote(word: string): string {
  if (/^[A-Za-z0-9_@%+=:,./-]+$/.test(word)) return word;
  return `'${word.replaceAll("'", `'\\''`)}'`;
}

/** A command over several lines, one option with its value per line. */
export function commandText(env: Readonly<Record<string, string>>, argv: readonly string[]): string {
  const assignments = Object.entries(env).map(([name, value]) => `${name}=${quote(value)}`);
  const isOption = (word: string): boolean => /^--[a-z]/i.test(word);
  const options = argv.findIndex(isOption);
  const [head, rest] = options < 0 ? [argv, []] : [argv.slice(0, options), argv.slice(options)];
  const lines: string[][] = [[...head.map(quote)]];
  for (const word of rest) {
    if (isOption(word)) lines.push([quote(word)]);
    else lines.at(-1)!.push(quote(word));
  }
  return [...assignments, ...lines.map((words) => words.join(' '))].join(' \\\n  ');
}

/** A command that writes a file with a here-document, whose delimiter does not occur in the content. */
export function writeFileText(name: string, content: string): string {
  const body = content.endsWith('\n') ? content : `${content}\n`;
  let end = 'EOF';
  while (body.split('\n').includes(end)) end += 'F';
  return `cat > ${quote(name)} <<'${end}'\n${body}${end}`;
}
