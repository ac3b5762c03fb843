package report

import (
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// An ExportList is the control socket's response at /exports and the output of exports list
// --json. docs/operations.md describes it.
type ExportList struct {
	Version int      `json:"version"`
	File    string   `json:"file"` // "" if serve's arguments name the exports
	Exports []Export `json:"exports"`
}

// SchemaVersion returns the document's version.
func (d *ExportList) SchemaVersion() int { return d.Version }

// PrintText prints the list as a table.
func (d *ExportList) PrintText(w io.Writer, _ time.Time) error {
	p := &textPage{}
	p.tab = tabwriter.NewWriter(&p.text, 0, 0, 2, ' ', 0)
	for i := range d.Exports {
		p.addRow(d.Exports[i].textCells()...)
	}
	p.tab.Flush() // into memory
	if len(d.Exports) == 0 {
		p.text.WriteString("no exports\n")
	}
	_, err := io.WriteString(w, p.text.String())
	return err
}

// textCells returns the cells of e's row in a table.
func (e *Export) textCells() []any {
	if e.Unavailable != "" {
		return []any{quoteUnprintable(e.Path), "UNAVAILABLE: " + quoteUnprintable(e.Unavailable)}
	}
	return []any{quoteUnprintable(e.Path), strings.Join(e.Clients, " ")}
}

// CollectExportList lists the current exports.
func (src *Source) CollectExportList() *ExportList {
	return &ExportList{Version: SchemaVersion, File: src.ExportsFile, Exports: src.collectExports()}
}
