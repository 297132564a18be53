// A press on a header sorts by it; another turns the order round. Rows without a figure stay last.
function sortBy(table, column, direction) {
  const body = table.tBodies[0];
  const keyOf = (row) => {
    const cell = row.cells[column];
    if (cell.dataset.sort !== undefined) return Number(cell.dataset.sort);
    return cell.classList.contains("text") ? cell.textContent : null;
  };
  const compare = (a, b) => {
    const [left, right] = [keyOf(a), keyOf(b)];
    if (left === null || right === null) return (left === null) - (right === null);
    return direction * (typeof left === "number" ? left - right : left.localeCompare(right, undefined, { numeric: true }));
  };
  body.append(...[...body.rows].sort(compare));
}

// The headers that stand over one column each, by column: of two lines, those without a group lie in the upper.
function columnHeaders(table) {
  const [upper, lower] = [...table.tHead.rows];
  const below = lower ? [...lower.cells] : [];
  return [...upper.cells].flatMap((cell) => (cell.colSpan > 1 || cell.scope === "colgroup" ? below.splice(0, cell.colSpan) : [cell]));
}

function makeSortable(table) {
  const headers = columnHeaders(table);
  headers.forEach((header, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...header.childNodes);
    header.append(button);
    button.addEventListener("click", () => {
      const isAscending = header.getAttribute("aria-sort") !== "ascending";
      for (const other of headers) other.removeAttribute("aria-sort");
      header.setAttribute("aria-sort", isAscending ? "ascending" : "descending");
      sortBy(table, column, isAscending ? 1 : -1);
    });
  });
}

