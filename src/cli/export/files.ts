/** The files of an export, with remarks on top. Printed one after another, or written to a directory. */
import { stringify } from 'yaml';
import { WIDTH, wrap } from '../output/format.ts';

export interface ExportFile {
  name: string;
  /** Comments for the reader, one sentence each, including what could not be exported. */
  remarks: readonly string[];
  content: { kind: 'yaml'; documents: readonly object[] } | { kind: 'shell'; lines: readonly string[] };
}

/** A shell or YAML comment; a name with a line break stays inside it. */
export const comment = (text: string): string => `# ${oneLine(text)}`;
const oneLine = (text: string): string => text.replace(/\p{Cc}+/gu, ' ');

export function fileText({ remarks, content }: ExportFile): string {
  const comments = remarks.flatMap((remark) => {
    const [first, ...rest] = wrap(oneLine(remark), WIDTH - 4);
    return [`# - ${first}`, ...rest.map((line) => `#   ${line}`)];
  });
  if (content.kind === 'shell') return `${['#!/bin/sh', ...comments, '', ...content.lines].join('\n')}\n`;
  const documents = content.documents.map((each) =>
    stringify(each, { lineWidth: 0, aliasDuplicateObjects: false }),
  );
  return `${comments.join('\n')}${comments.length > 0 ? '\n' : ''}${documents.join('---\n')}`;
}

/** All files as one text; YAML files form one stream. */
export const allText = (files: readonly ExportFile[]): string =>
  files
    .map(
      (file, i) =>
        `${i > 0 && file.content.kind === 'yaml' ? '---\n' : ''}# ==== ${file.name}\n${fileText(file)}`,
    )
    .join('\n');
