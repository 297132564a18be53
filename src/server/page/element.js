// Makes an element; properties, not markup, so that nothing from outside is ever parsed as HTML.
export function element(name, properties = {}, children = []) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}
