/** The models that the page offers, and its message for unknown ones. */
import { expect, it } from 'vitest';
import { ModelShelf } from '../../../demo/src/session/models.ts';

const files = ['config.json', 'tokenizer.json', 'tokenizer_config.json', 'model.safetensors'];

it('an unknown model name is refused with a list of models and a suggestion', async () => {
  const shelf = new ModelShelf();
  for (const name of ['recall', 'tiny', 'https://host/model']) expect(shelf.refusalOf(name)).toBeNull();
  expect(shelf.refusalOf('foo')).toMatch(/^There is no model 'foo': use recall, nano, tiny, .* address/);
  expect(shelf.refusalOf('tinny')).toContain("'tinny' (did you mean tiny?)");
  await expect(shelf.open('foo', () => {})).rejects.toThrow("There is no model 'foo'");
});

it('a dropped directory is a known model from then on', () => {
  const shelf = new ModelShelf();
  shelf.drop(
    'foo',
    files.map((name) => new File([], name)),
  );
  expect(shelf.refusalOf('foo')).toBeNull();
});
