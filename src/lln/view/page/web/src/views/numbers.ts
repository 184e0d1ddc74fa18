// What the model is and how it came about, as tables.

import type { Payload } from "../payload";
import { element, make } from "./view";

export function showNumbers(payload: Payload): void {
  const home = element("numbers-body");
  for (const group of payload.numbers) {
    const table = make("table");
    table.append(make("caption", group.title));
    const body = make("tbody");
    for (const [label, value] of group.rows) {
      const row = make("tr");
      const head = make("th", label);
      head.scope = "row";
      row.append(head, make("td", value));
      body.append(row);
    }
    table.append(body);
    home.append(table);
  }
}
