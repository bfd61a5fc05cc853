//! Reports from records: terminal, CSV, Markdown, SVG and HTML.
