// What every view is, and small helpers around the page's elements.

export interface View {
  draw(): void;
}

export function element<T extends HTMLElement = HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no element ${id}`);
  return found as T;
}

/** A new element with text; text only, whatever a file has put into it. */
export function make<K extends keyof HTMLElementTagNameMap>(tag: K, text = "", kind = ""): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  if (text) made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

export function fillSelect(select: HTMLSelectElement, labels: string[], chosen: number): void {
  select.replaceChildren(
    ...labels.map((label, index) => {
      const option = make("option", label);
      option.value = String(index);
      option.selected = index === chosen;
      return option;
    }),
  );
}

export const named = (name: string, unit: string): string => (unit ? `${name} (${unit})` : name);
