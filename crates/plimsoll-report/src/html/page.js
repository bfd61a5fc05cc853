'use strict';
// Adds comfort; a page without it shows the same. It builds no markup from text: only textContent is used.
(() => {
  const make = (name, text, parent) => {
    const element = document.createElement(name);
    element.textContent = text;
    if (parent) parent.append(element);
    return element;
  };
  const press = (element, action) => {
    element.setAttribute('role', 'button');
    element.setAttribute('tabindex', '0');
    element.addEventListener('click', action);
    element.addEventListener('keydown', event => {
      if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); action(event); }
    });
  };

  // The rows of a section's tables by number, before anything is sorted.
  const sections = new Map();
  const rowsOf = id => {
    if (sections.has(id)) return sections.get(id);
    const rows = new Map();
    for (const table of document.querySelectorAll(`#${id} table.points`)) {
      const head = [...table.tHead.rows[0].cells].map(cell => cell.textContent);
      const first = Number(table.dataset.first);
      [...table.tBodies[0].rows].forEach((row, nth) => rows.set(first + nth, { head, row }));
    }
    sections.set(id, rows);
    return rows;
  };
  document.querySelectorAll('section.probe').forEach(section => rowsOf(section.id));

  const describe = (tip, mark, figure) => {
    tip.textContent = '';
    const known = rowsOf(figure.dataset.section).get(Number(mark.dataset.r));
    if (mark.dataset.r === '' || !known) {
      const title = mark.querySelector('title');
      tip.textContent = title ? title.textContent : '';
      return tip.textContent !== '';
    }
    [...known.row.cells].forEach((cell, nth) => {
      if (!cell.textContent) return;
      make('span', `${known.head[nth]} `, tip);
      make('b', cell.textContent, tip);
      tip.append(make('span', nth + 1 < known.row.cells.length ? '  ' : ''), document.createTextNode(' '));
    });
    return true;
  };

  // Figures under the pointer, or of the mark that the arrow keys reached.
  for (const figure of document.querySelectorAll('figure[data-section]')) {
    const svg = figure.querySelector('svg.chart');
    if (!svg) continue;
    const marks = [...svg.querySelectorAll('[data-r]')];
    let tip = null, near = null, boxes = null;
    const hide = () => {
      if (near) near.classList.remove('near');
      if (tip) tip.remove();
      near = tip = null;
    };
    const show = mark => {
      if (mark === near) return;
      hide();
      near = mark;
      mark.classList.add('near');
      tip = make('div', '');
      tip.className = 'tip';
      tip.setAttribute('role', 'status');
      if (!describe(tip, mark, figure)) { tip = null; return; }
      figure.append(tip);
      const at = mark.getBoundingClientRect(), frame = figure.getBoundingClientRect();
      const left = at.left - frame.left + figure.scrollLeft + at.width / 2 - tip.offsetWidth / 2;
      const top = at.top - frame.top + figure.scrollTop - tip.offsetHeight - 8;
      tip.style.left = `${Math.max(4, Math.min(left, figure.scrollLeft + figure.clientWidth - tip.offsetWidth - 4))}px`;
      tip.style.top = `${top < figure.scrollTop ? at.bottom - frame.top + figure.scrollTop + 8 : top}px`;
    };
    svg.addEventListener('pointermove', event => {
      const matrix = svg.getScreenCTM();
      if (!matrix) return;
      const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse());
      boxes = boxes || marks.map(mark => mark.getBBox());
      let best = null, least = 20 * 20;
      boxes.forEach((box, nth) => {
        if (marks[nth].closest('.off')) return;
        const dx = Math.max(box.x - at.x, 0, at.x - box.x - box.width);
        const dy = Math.max(box.y - at.y, 0, at.y - box.y - box.height);
        // Among marks that contain the pointer the smallest wins.
        const distance = dx * dx + dy * dy + (box.width * box.height) * 1e-6;
        if (distance < least) { least = distance; best = marks[nth]; }
      });
      if (best) show(best); else hide();
    });
    svg.addEventListener('pointerleave', hide);
    if (marks.length) {
      svg.setAttribute('tabindex', '0');
      svg.addEventListener('blur', hide);
      svg.addEventListener('keydown', event => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!step || event.target !== svg) return;
        event.preventDefault();
        const shown = marks.filter(mark => !mark.closest('.off'));
        if (shown.length) show(shown[(shown.indexOf(near) + step + shown.length) % shown.length]);
      });
    }

    // The legend hides and shows lines and bars.
    const hidden = new Set();
    for (const key of svg.querySelectorAll('.key')) {
      key.setAttribute('aria-pressed', 'true');
      press(key, () => {
        const name = key.dataset.k;
        if (!hidden.delete(name)) hidden.add(name);
        key.classList.toggle('off', hidden.has(name));
        key.setAttribute('aria-pressed', String(!hidden.has(name)));
        for (const part of svg.querySelectorAll('[data-k]:not(.key)')) {
          part.classList.toggle('off', part.dataset.k.split(' ').some(own => hidden.has(own)));
        }
        hide();
      });
    }

    const enlarge = make('button', 'enlarge', figure);
    enlarge.className = 'enlarge';
    enlarge.type = 'button';
    const toggle = large => {
      figure.classList.toggle('large', large);
      enlarge.textContent = large ? 'close' : 'enlarge';
      hide();
    };
    enlarge.addEventListener('click', () => toggle(!figure.classList.contains('large')));
    figure.addEventListener('keydown', event => { if (event.key === 'Escape') toggle(false); });
  }

  // Tables sort by the column whose head is pressed: by number where it begins with one.
  const scale = { k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, m: 1e-3, 'µ': 1e-6, n: 1e-9, p: 1e-12,
    Ki: 1024, Mi: 1024 ** 2, Gi: 1024 ** 3, Ti: 1024 ** 4 };
  const valueOf = text => {
    const found = /^([−-]?[\d.]+(?:e[+-]?\d+)?)(?: ?(Ki|Mi|Gi|Ti|[kMGTPmµnp])(?=[A-Z]|s\b|op|element))?/.exec(text);
    return found ? Number(found[1].replace('−', '-')) * (scale[found[2]] || 1) : null;
  };
  for (const head of document.querySelectorAll('table.sortable thead th')) {
    if (!head.textContent) continue;
    const button = make('button', head.textContent);
    button.type = 'button';
    head.replaceChildren(button);
    button.addEventListener('click', () => {
      const down = head.getAttribute('aria-sort') === 'ascending';
      for (const other of head.parentNode.cells) other.removeAttribute('aria-sort');
      head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      const body = head.closest('table').tBodies[0];
      const keyed = [...body.rows].map(row => {
        const text = row.cells[head.cellIndex] ? row.cells[head.cellIndex].textContent : '';
        return { row, text, value: valueOf(text) };
      });
      keyed.sort((a, b) => {
        const both = a.value !== null && b.value !== null;
        const numbers = both ? a.value - b.value : (a.value === null) - (b.value === null);
        return (down ? -1 : 1) * (numbers || a.text.localeCompare(b.text));
      });
      body.append(...keyed.map(entry => entry.row));
    });
  }

  // The contents show where the reader is.
  const links = new Map([...document.querySelectorAll('.side a')].map(link => [link.hash.slice(1), link]));
  if ('IntersectionObserver' in window) {
    const watch = new IntersectionObserver(entries => {
      for (const entry of entries.filter(entry => entry.isIntersecting)) {
        links.forEach(link => link.classList.remove('here'));
        const link = links.get(entry.target.id);
        if (link) link.classList.add('here');
      }
    }, { rootMargin: '0px 0px -70% 0px' });
    document.querySelectorAll('main > section').forEach(section => watch.observe(section));
  }
})();
