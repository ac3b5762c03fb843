package report

import (
	"io"
	"slices"
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
	Standby bool     `json:"standby,omitempty"` // the daemon is one of several hosts (--standby)

	Verbose bool `json:"-"` // PrintText prints all options
}

// SchemaVersion returns the document's version.
func (d *ExportList) SchemaVersion() int { return d.Version }

// PrintText prints the list as a table.
func (d *ExportList) PrintText(w io.Writer, _ time.Time) error {
	p := &textPage{}
	p.tab = tabwriter.NewWriter(&p.text, 0, 0, 2, ' ', 0)
	p.addExportRows(d.Exports, d.Verbose)
	p.tab.Flush() // into memory
	if len(d.Exports) == 0 {
		p.text.WriteString("no exports\n")
	}
	return p.writeTo(w)
}

// writeTo writes the page without blanks at the end of lines.
func (p *textPage) writeTo(w io.Writer) error {
	for line := range strings.Lines(p.text.String()) {
		if _, err := io.WriteString(w, strings.TrimRight(line, " \n")+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// addExportRows adds a row for each client of each export. Without verbose, options that are the
// default in exports(5), and the positions in the exports files, are omitted.
func (p *textPage) addExportRows(all []Export, verbose bool) {
	for i := range all {
		e := &all[i]
		path := quoteUnprintable(e.Path)
		origin := ""
		if verbose || strings.HasPrefix(e.Origin, "until ") {
			origin = e.Origin
		}
		if e.Unavailable != "" {
			p.addRow(path, "UNAVAILABLE: "+quoteUnprintable(e.Unavailable), origin)
			continue
		}
		if len(e.Clients) == 0 {
			p.addRow(path, "", origin)
		}
		for _, c := range e.Clients {
			if !verbose {
				c = omitDefaults(c)
			}
			p.addRow(path, c, origin)
			path, origin = "", ""
		}
	}
}

// defaultOptions are options that omitDefaults omits. ro is the default, too, but whether a client
// may write must be visible.
var defaultOptions = []string{"sync", "secure", "root_squash", "no_all_squash", "no_subtree_check", "sec=sys"}

// omitDefaults returns a client, HOST(OPTIONS), without the options that are the default. With
// options that depend on the flavor it returns c, because each flavor's options begin with those
// before it.
func omitDefaults(c string) string {
	host, options, ok := strings.Cut(strings.TrimSuffix(c, ")"), "(")
	if !ok || strings.Count(options, "sec=") > strings.Count(options, "xprtsec=")+1 {
		return c
	}
	words := slices.DeleteFunc(strings.Split(options, ","), func(w string) bool { return slices.Contains(defaultOptions, w) })
	return host + "(" + strings.Join(words, ",") + ")"
}

// CollectExportList lists the current exports.
func (src *Source) CollectExportList() *ExportList {
	return &ExportList{Version: SchemaVersion, File: src.ExportsFile, Exports: src.newExports(src.Exports()), Standby: src.Standby() != nil}
}
