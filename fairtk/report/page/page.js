"use strict";
(() => {
  const PAGE = 25;
  const LONGEST = 40; // letters of names

  const make = (tag, text = "", name = "") => {
    const element = document.createElement(tag);
    if (text !== "") element.textContent = text;
    if (name) element.className = name;
    return element;
  };

  const cut = (text) => (text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text);

  const brief = (tag, text, name = "") => {
    const element = make(tag, cut(text), name);
    if (text.length > LONGEST) element.title = text;
    return element;
  };

  // Sorting: each head of a table becomes a button.

  const number = (text) => parseFloat(text.replace(/^[<\[]/, "").replace(/,/g, ""));

  const sort = (table, column, head) => {
    const down = head.getAttribute("aria-sort") === "ascending";
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => [row.cells[column].textContent.trim(), row]);
    const numeric = head.classList.contains("n");
    const last = (text) => text === "" || (numeric && Number.isNaN(number(text)));
    rows.sort(([a], [b]) => {
      if (last(a) || last(b)) return last(a) - last(b);
      const order = numeric ? number(a) - number(b) : a.localeCompare(b, "en", { numeric: true });
      return down ? -order : order;
    });
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    body.append(...rows.map(([, row]) => row));
  };

  const sortable = (table) => {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = make("button");
      button.type = "button";
      button.append(...head.childNodes);
      button.addEventListener("click", () => sort(table, column, head));
      head.replaceChildren(button);
    });
  };

  document.querySelectorAll("table.sortable").forEach(sortable);

  // A system in the figure or the table of means is highlighted in both, with its values.

  const overview = document.getElementById("overview");
  if (overview) {
    const marked = [...overview.querySelectorAll("[data-system]")];
    const heads = [...overview.querySelectorAll("thead th")].slice(1)
      .map((head) => (head.querySelector("bdi") ?? head).textContent);
    const values = document.getElementById("values");
    const highlight = (system, row) => {
      overview.classList.toggle("pointed", system !== undefined);
      for (const part of marked) part.classList.toggle("on", part.dataset.system === system);
      values.hidden = system === undefined;
      if (values.hidden) return;
      const [name, ...cells] = (row ?? overview.querySelector(`tr[data-system="${system}"]`)).cells;
      values.replaceChildren(make("strong", name.textContent));
      cells.forEach((cell, i) => {
        if (cell.textContent.trim()) values.append(make("span", `${heads[i]} ${cell.textContent} ${cell.dataset.interval ?? ""}`));
      });
    };
    const point = (event) => {
      const part = event.target.closest("[data-system]");
      if (part) highlight(part.dataset.system, part.closest("tr"));
    };
    overview.addEventListener("pointerover", point);
    overview.addEventListener("focusin", point);
    overview.addEventListener("pointerleave", () => highlight());
    overview.addEventListener("focusout", () => highlight());
  }

  // Folded parts: a link into one opens it, and all are printed.

  const openTarget = () => {
    const target = location.hash && document.getElementById(location.hash.slice(1));
    const part = target && target.closest("details");
    if (part) {
      part.open = true;
      target.scrollIntoView();
    }
  };
  addEventListener("hashchange", openTarget);
  openTarget();
  addEventListener("beforeprint", () => {
    document.querySelectorAll("details.part:not(#queries)").forEach((part) => { part.open = true; });
  });

  // Queries: compressed JSON, read when a query is opened.

  const place = document.getElementById("drill-down");
  if (!place) return;
  const packed = document.getElementById("packed-queries").textContent.split(" ");

  const unpack = async (text) => {
    const bytes = Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  };

  const shown = (value) => (value === null ? "undefined" : value.toFixed(4));

  const table = (caption, heads, rows) => {
    const around = make("div", "", "scroll");
    around.tabIndex = 0;
    around.setAttribute("role", "region");
    around.setAttribute("aria-label", caption);
    const found = make("table");
    found.setAttribute("aria-label", caption);
    found.append(make("thead"), make("tbody"));
    const top = make("tr");
    for (const [text, name] of heads) {
      const head = brief("th", text, name);
      head.scope = "col";
      top.append(head);
    }
    found.tHead.append(top);
    for (const cells of rows) {
      const row = make("tr");
      cells.forEach((cell, i) => {
        const text = cell instanceof Node ? "" : cell;
        const part = i ? make("td", text, heads[i][1]) : brief("th", text);
        if (cell instanceof Node) part.append(cell);
        if (!i) part.scope = "row";
        row.append(part);
      });
      found.tBodies[0].append(row);
    }
    around.append(found);
    const whole = make("div");
    whole.append(around, make("p", caption, "caption"));
    return whole;
  };

  const values = (index, i) => table(
    "Values of this query",
    [["system", ""], ...index.measures.map((measure) => [measure, "n"])],
    index.systems.map((name, s) => [name, ...index.values.map((rows) => shown(rows[s][i]))]),
  );

  const exposure = (index, one) => {
    const shares = one.s.map((entries) => {
      const counts = new Array(one.d.length).fill(0);
      let total = 0;
      for (const [count, docs] of entries || []) {
        total += count;
        for (const doc of docs) counts[doc] += count;
      }
      return counts.map((count) => (total ? count / total : 0));
    });
    const some = one.s.map((entries, s) => s).filter((s) => one.s[s]);
    const mean = one.d.map((_, doc) => some.reduce((sum, s) => sum + shares[s][doc], 0));
    const order = one.d.map((_, doc) => doc);
    order.sort((a, b) => one.l[b] - one.l[a] || mean[b] - mean[a] || a - b);
    const most = 30;
    const caption = `Who is seen: the share of a system's rankings that have the document among the first ${index.cutoff}; useful documents first` +
      (order.length > most ? `. The first ${most} of ${order.length} documents` : "");
    return table(
      caption,
      [["document", ""], ...some.map((s) => [index.systems[s], "n"])],
      order.slice(0, most).map((doc) => [
        named(one, doc), ...some.map((s) => shares[s][doc].toFixed(2)),
      ]),
    );
  };

  const named = (one, doc) => {
    const around = make("span", "", "named");
    around.append(make("span", one.d[doc], one.l[doc] > 0 ? "useful" : ""));
    if (one.l[doc] > 0) around.append(` (useful, ${one.l[doc]})`);
    if (one.t[doc]) around.append(" ", make("span", one.t[doc], "title"));
    return around;
  };

  const rankings = (index, one, s) => {
    const entries = one.s[s];
    const total = entries.reduce((sum, [count]) => sum + count, 0);
    const around = make("details");
    const answered = entries.some(([, , answer]) => answer !== null);
    const answers = new Set(entries.map(([, , answer]) => answer)).size;
    const plural = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
    around.append(make("summary", `${cut(index.systems[s])}: ${plural(total, "ranking")}, ${entries.length} distinct` +
      (answered ? `, ${plural(answers, "distinct answer")}` : "")));
    around.addEventListener("toggle", () => {
      if (!around.open || around.childElementCount > 1) return;
      const rows = entries.map(([count, docs, answer]) => {
        const list = make("ol", "", "docs");
        for (const doc of docs) {
          const item = make("li");
          item.append(named(one, doc));
          list.append(item);
        }
        return [String(count), ...(answered ? [one.a[answer] ?? ""] : []), list];
      });
      const heads = [["times", ""], ...(answered ? [["answer", ""]] : []), ["documents", ""]];
      around.append(table(`Rankings of ${index.systems[s]}`, heads, rows));
    });
    return around;
  };

  const fill = async (index, i, around) => {
    const inside = make("div", "", "opened");
    around.append(inside);
    if (i >= packed.length) {
      inside.append(make("p", "The rankings of this query are not in the page, so that it stays small."));
      return;
    }
    const one = await unpack(packed[i]);
    if (one.q && one.q !== index.texts[i]) inside.append(make("p", one.q));
    if (one.g.length) inside.append(make("p", `Gold answer: ${one.g.join(" | ")}`));
    for (const [s, error] of Object.entries(one.e)) {
      inside.append(make("p", `${index.systems[s]} failed: ${error}`));
    }
    if (index.measures.length) inside.append(values(index, i));
    if (one.d.length) inside.append(exposure(index, one));
    one.s.forEach((entries, s) => {
      if (entries) inside.append(rankings(index, one, s));
    });
    if (one.s.every((entries) => !entries)) inside.append(make("p", "No system has rows for this query."));
  };

  const spread = (index, m, i) => {
    const found = index.values[m].map((row) => row[i]).filter((value) => value !== null);
    return found.length ? Math.max(...found) - Math.min(...found) : -1;
  };

  const list = (index) => {
    const controls = make("div", "", "controls");
    const search = make("input");
    search.type = "search";
    const order = make("select");
    order.append(new Option("as in the topics", "-1"));
    index.measures.forEach((measure, m) => order.append(new Option(`systems differ most by ${measure}`, String(m))));
    for (const [text, input] of [["Find a query", search], ["Order", order]]) {
      const label = make("label", text);
      label.append(input);
      controls.append(label);
    }
    const status = make("p");
    status.setAttribute("role", "status");
    const found = make("div");
    const more = make("button", `Show ${PAGE} more`, "more");
    more.type = "button";
    let places = [];
    let done = 0;

    const add = () => {
      const m = Number(order.value);
      for (const i of places.slice(done, done + PAGE)) {
        const around = make("details", "", "query");
        const summary = make("summary");
        summary.append(brief("span", index.qids[i], "qid"), index.texts[i]);
        if (m >= 0 && spread(index, m, i) >= 0) {
          summary.append(make("span", `from ${shown(Math.min(...index.values[m].map((row) => row[i] ?? Infinity)))} to ${shown(Math.max(...index.values[m].map((row) => row[i] ?? -Infinity)))}`, "gist"));
        }
        around.append(summary);
        around.addEventListener("toggle", () => {
          if (around.open && around.childElementCount === 1) fill(index, i, around);
        });
        found.append(around);
      }
      done = Math.min(done + PAGE, places.length);
      more.hidden = done >= places.length;
      status.textContent = `${done} of ${places.length} queries are listed.`;
    };

    const update = () => {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      const m = Number(order.value);
      places = index.qids.map((_, i) => i).filter((i) => {
        const text = `${index.qids[i]} ${index.texts[i]}`.toLowerCase();
        return words.every((word) => text.includes(word));
      });
      if (m >= 0) {
        const spreads = index.qids.map((_, i) => spread(index, m, i));
        places.sort((a, b) => spreads[b] - spreads[a] || a - b);
      }
      done = 0;
      found.replaceChildren();
      add();
    };

    search.addEventListener("input", update);
    order.addEventListener("change", update);
    more.addEventListener("click", () => {
      const next = found.childElementCount;
      add();
      found.children[next]?.querySelector("summary").focus();
    });
    place.append(controls, status, found, more);
    update();
  };

  place.hidden = false;
  const part = document.getElementById("queries");
  part.addEventListener("toggle", () => unpack(document.getElementById("packed-index").textContent).then(list), { once: true });
})();
