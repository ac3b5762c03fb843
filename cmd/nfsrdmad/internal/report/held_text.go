package report

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// PrintText prints the files, each with what is held.
func (d *HeldList) PrintText(w io.Writer, _ time.Time) error {
	p := &textPage{}
	p.tab = tabwriter.NewWriter(&p.text, 0, 0, 2, ' ', 0)
	for i := range d.Files {
		d.Files[i].print(p)
	}
	p.tab.Flush() // into memory
	if len(d.Files) == 0 {
		fmt.Fprintln(&p.text, d.emptySentence())
	}
	if d.More > 0 {
		fmt.Fprintf(&p.text, "and %d more files: add --after %s\n", d.More, d.Next)
	}
	if d.Counters > 0 && d.File == "" {
		fmt.Fprintf(&p.text, "mountrdma clients hold %d files or directories by delegation counters: nfsrdmad locks FILE lists those of a file\n", d.Counters)
	}
	_, err := io.WriteString(w, p.text.String())
	return err
}

// emptySentence says that nothing is held.
func (d *HeldList) emptySentence() string {
	switch {
	case d.File != "":
		return "no client holds " + d.File
	case d.Client != nil:
		return "client " + d.Client.ID + " holds no files"
	}
	return "no client holds a file"
}

func (f *heldFileDoc) print(p *textPage) {
	fmt.Fprintln(p.tab, f.describe())
	for _, r := range f.rows() {
		client := r.Client
		if client == "" {
			client = "-"
		}
		owner := truncateName(r.Owner)
		if r.LockOwner != "" {
			owner += ", lock-owner " + truncateName(r.LockOwner)
		}
		p.addRow("  "+r.What, r.Details, client, r.Address, owner)
	}
	if f.Omitted {
		fmt.Fprintln(p.tab, "  and more")
	}
}
