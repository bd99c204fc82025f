/**
 * What is not changed: assertions (`invariant`, `checkIntegrity`), which see the faults of other code and find none in right
 * code, and how an error's message is worded (a text given to `new SomeError`). Text itself is left out in stryker.json.
 */
import { declareValuePlugin, PluginKind } from '@stryker-mutator/api/plugin';

const isText = ({ type }) => type === 'TemplateLiteral' || type === 'BinaryExpression';

const shouldIgnore = ({ node, parent, listKey }) => {
  if (node.type === 'ExpressionStatement') {
    const { type, callee } = node.expression;
    if (type === 'CallExpression' && callee.name === 'invariant') return 'an assertion';
  }
  if (node.type === 'ClassMethod' && node.key.name === 'checkIntegrity') return 'an assertion';
  const inError =
    parent?.type === 'NewExpression' && listKey === 'arguments' && parent.callee.name?.endsWith('Error');
  return inError && isText(node) ? 'the wording of an error' : undefined;
};

export const strykerPlugins = [
  declareValuePlugin(PluginKind.Ignore, 'assertions-and-wording', { shouldIgnore }),
];
